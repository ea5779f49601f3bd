"""Type checkers reject the ordinary mistakes of a dataflow on their line; each file of typing/mistakes/ makes one.

The line where a checker must report it ends in `# error`, or `# error: mypy` where only that one reports it there.
`nox -s types` runs this, for it has both checkers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "typing" / "mistakes"
MISTAKES = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.fixture(scope="module")
def reported() -> dict[str, set[tuple[str, int]]]:
    """Run each checker that is installed once: which lines of which mistakes it reports."""
    return {checker: run() for checker, run in {"mypy": by_mypy, "pyright": by_pyright}.items() if find_spec(checker)}


def by_mypy() -> set[tuple[str, int]]:
    found = [json.loads(line) for line in output_of("mypy", "--strict", "--output=json", str(FOLDER)).splitlines()]
    return {(Path(each["file"]).stem, each["line"]) for each in found if each["severity"] == "error"}


def by_pyright() -> set[tuple[str, int]]:
    found = json.loads(output_of("pyright", "--pythonpath", sys.executable, "--outputjson", str(FOLDER)))
    return {
        (Path(each["file"]).stem, each["range"]["start"]["line"] + 1)
        for each in found["generalDiagnostics"]
        if each["severity"] == "error"
    }


def output_of(checker: str, *arguments: str) -> str:
    process = subprocess.run(
        [sys.executable, "-m", checker, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert 1 == process.returncode, f"expected that {checker} finds mistakes:\n{process.stdout}{process.stderr}"
    return process.stdout


def marked(mistake: str, checker: str) -> set[int]:
    lines = (FOLDER / f"{mistake}.py").read_text(encoding="utf-8").splitlines()
    marks = (re.search(r"# error(?:: (\w+))?", line) for line in lines)
    return {number for number, mark in enumerate(marks, 1) if mark is not None and mark[1] in (None, checker)}


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_ordinary_mistake_is_rejected_on_its_line_and_nowhere_else(mistake: str, checker: str, reported):
    if checker not in reported:
        pytest.skip(f"{checker} is not installed: `nox -s types` has it")

    lines = {line for stem, line in reported[checker] if stem == mistake}

    assert 1 == len(marked(mistake, checker)), "a file has one mistake"
    assert marked(mistake, checker) == lines


def test_the_five_ordinary_mistakes_are_there():
    assert [
        "a_side_flow_not_drained",
        "a_stage_before_its_input_exists",
        "a_typo_in_a_lambda",
        "an_ask_whose_method_takes_another_type",
        "async_where_a_barrier_is_needed",
    ] == MISTAKES
