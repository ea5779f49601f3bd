"""Every example runs as it is, and says at its end what it set out to show."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def run_example(name: str, *arguments: str, folder: Path) -> str:
    process = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_ppo_trains_from_python_and_its_policy_acts(tmp_path: Path) -> None:
    output = run_example("01_ppo_cartpole.py", "4096", folder=tmp_path)

    assert re.search(r"^trained \d+ env steps, see .+$", output, re.MULTILINE)
    assert re.search(r"^return of one episode: \d+$", output, re.MULTILINE)


def test_a_stream_of_ones_own_solves_cartpole(tmp_path: Path) -> None:
    output = run_example("02_a_stream_of_your_own.py", folder=tmp_path)

    assert output.endswith("solved\n")


def test_every_example_has_a_test_and_a_line_in_the_readme() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")

    tested = set(re.findall(r'run_example\(\s*"([^"]+)"', Path(__file__).read_text(encoding="utf-8")))

    assert names == tested
    assert names == {name for name in names if f"`{name}`" in readme}


def test_a_gather_on_two_levels_finds_what_one_gather_does(tmp_path: Path) -> None:
    output = run_example("03_two_level_gather.py", folder=tmp_path)

    assert output.endswith("the same, bit for bit\n")
