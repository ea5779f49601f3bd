"""What a simulator says of its model when an environment is made reaches nobody who only trains on it."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace

import gymnasium as gym
import pytest

from rheos.configuration.run_config import EnvironmentConfig
from rheos.environments.gym import make_environment
from rheos.environments.quiet import make_quietly

mujoco_handlers: list[object] = [None]
FAKE_MUJOCO = SimpleNamespace(
    get_mju_user_warning=lambda: mujoco_handlers[-1],
    set_mju_user_warning=lambda handler: mujoco_handlers.append(handler),
)


class Talking(gym.Env):
    """An environment whose simulator warns while its model is read."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fails=False):
        handler = mujoco_handlers[-1]
        assert handler is not None, "it would be written to the terminal"
        handler("settotalmass is deprecated")
        if fails:
            raise ValueError("no model")


@pytest.fixture
def spec(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", FAKE_MUJOCO)
    mujoco_handlers[:] = [None]
    gym.register("Talking-v0", entry_point=Talking)
    yield gym.spec("Talking-v0")
    del gym.registry["Talking-v0"]


def test_a_warning_of_mujoco_is_one_of_python_while_an_environment_is_made(spec):
    with pytest.warns(UserWarning, match="settotalmass is deprecated"):
        make_quietly(spec)

    assert None is mujoco_handlers[-1]


def test_mujoco_warns_as_before_also_after_an_environment_that_cannot_be_made(spec):
    with pytest.raises(ValueError, match="no model"), pytest.warns(UserWarning, match="settotalmass"):
        make_quietly(spec, fails=True)

    assert None is mujoco_handlers[-1]


def test_environments_of_a_run_are_made_in_silence(spec, capfd):
    environment = make_environment(EnvironmentConfig(id="Talking-v0", num_envs=2, vectorization="sync"))

    with warnings.catch_warnings(record=True) as caught:
        environment.make(0, "worker").close()

    assert [] == caught
    assert ("", "") == tuple(capfd.readouterr())


def test_without_mujoco_an_environment_is_made_as_ever(monkeypatch):
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)

    env = make_quietly(gym.spec("CartPole-v1"))

    assert (4,) == env.observation_space.shape
    env.close()
