"""What the README shows is what there is."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import rheos_ppo.flow

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_flow_in_the_readme_is_the_flow_of_ppo():
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

    program = f"{inspect.getsource(rheos_ppo.flow.ppo)}\n\n{inspect.getsource(rheos_ppo.flow.train_on)}"

    assert program in blocks


def test_the_two_commands_of_the_readme_are_sessions_of_nox():
    sessions = re.findall(r"^pip install nox && nox -s (\w+)$", README, re.MULTILINE)

    noxfile = (Path(__file__).parents[1] / "noxfile.py").read_text()
    assert ["train", "tests"] == sessions
    assert all(f"@nox.session\ndef {session}(" in noxfile for session in sessions)


def test_the_python_in_the_readme_runs(tmp_path):
    (snippet,) = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "rheos.train(" in block]

    ran = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, timeout=300)

    mean, action = ran.stdout.split()
    assert "" == ran.stderr
    assert float(mean) > 0
    assert action in ("0", "1")
