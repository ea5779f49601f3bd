"""`rheos check-env`: what it takes for an environment, what it shows, and its exit codes."""

from __future__ import annotations

import json
import sys

import pytest

from rheos_cli.main import main

MODULE = """
import gymnasium as gym
import numpy as np


class Walk(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, reward=1.0):
        print("hello from the environment")
        self.reward = reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.np_random.uniform(-1, 1, 1).astype(np.float32), {}

    def step(self, action):
        self.count += 1
        return self.np_random.uniform(-1, 1, 1).astype(np.float32), self.reward, self.count > 5, False, {}


NUMBER = 3
gym.register("Walk-v0", entry_point=Walk)
"""


@pytest.fixture
def my_env(tmp_path, monkeypatch):
    """A file of the user's own in the current folder."""
    import gymnasium as gym

    (tmp_path / "my_walk.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield "my_walk"
    sys.modules.pop("my_walk", None)
    gym.registry.pop("Walk-v0", None)


@pytest.mark.parametrize("name", ["CartPole-v1", "my_walk:Walk", "my_walk:Walk-v0"])
def test_a_sound_environment_ends_with_0_and_says_so(my_env, capsys, name):
    code = main(["check-env", name, "--seconds", "0.2"])

    out = capsys.readouterr().out
    assert 0 == code
    assert "hello" not in out
    assert "it can be trained in" in out.splitlines()[-1]


def test_a_problem_ends_with_1_and_is_told(my_env, capsys):
    code = main(["check-env", "my_walk:Walk", "reward=much", "--seconds", "0.2"])

    out = capsys.readouterr().out
    assert 1 == code
    assert "step 1: reward is 'much'" in " ".join(out.split())
    assert "1 problem" in out.splitlines()[-1]


def test_findings_can_be_read_by_programs(my_env, capsys):
    code = main(["check-env", "my_walk:Walk", "reward=2.5", "--json", "--seconds", "0.2"])

    told = json.loads(capsys.readouterr().out)
    assert 0 == code
    assert told["is_well"]
    assert {"check", "verdict", "message"} == set(told["findings"][0])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["CartPole-v7"], "Did you mean 'CartPole-v1'?"),
        (["nowhere:Walk"], "no module 'nowhere'"),
        (["my_walk:Wolk"], "the module 'my_walk' has no 'Wolk'"),
        (["my_walk:NUMBER"], "NUMBER is a int, expected a class or a function"),
        (["my_walk:"], "expected module:Class"),
        (["CartPole-v1", "gravity"], "expected KEY=VALUE"),
        (["CartPole-v1", "--seconds", "0"], "--seconds: got 0, expected a number > 0"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(my_env, capsys, words, message):
    code = main(["check-env", *words])

    lines = capsys.readouterr().err.splitlines()
    assert 2 == code
    assert 1 == len(lines)
    assert message in lines[0]
