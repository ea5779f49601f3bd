"""What the README shows is what there is."""

from __future__ import annotations

import inspect
import re
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
