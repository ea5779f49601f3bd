"""What the README shows is what there is."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rheos_ppo.flow


@pytest.fixture(scope="module")
def readme(read_page: Callable[[Path], Any]) -> Any:
    return read_page(Path(__file__).parents[1] / "README.md")


def test_the_flow_in_the_readme_is_the_flow_of_ppo(readme: Any):
    program = f"{inspect.getsource(rheos_ppo.flow.ppo)}\n\n{inspect.getsource(rheos_ppo.flow.train_on)}"

    assert program in readme.in_language("python")


def test_the_two_commands_of_the_readme_are_sessions_of_nox(readme: Any):
    sessions = re.findall(r"^pip install nox && nox -s (\w+)$", readme.text, re.MULTILINE)

    noxfile = (Path(__file__).parents[1] / "noxfile.py").read_text()
    assert ["train", "tests"] == sessions
    assert all(f"@nox.session\ndef {session}(" in noxfile for session in sessions)


def test_the_python_in_the_readme_runs(tmp_path: Path, readme: Any):
    (snippet,) = [block for block in readme.in_language("python") if "rheos.train(" in block]

    ran = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, timeout=300)

    mean, action = ran.stdout.split()
    assert "" == ran.stderr
    assert float(mean) > 0
    assert action in ("0", "1")
