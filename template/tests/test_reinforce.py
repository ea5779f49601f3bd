"""REINFORCE: its mathematics against known answers, and a short run by its name."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import rheos
from my_algorithms.losses import ReinforceLoss
from my_algorithms.policy import SoftmaxPolicy
from my_algorithms.stages import returns_to_go
from rheos.arrays.numpy_namespace import numpy_xp
from rheos_ops.distributions import Categorical


def column(*values: float) -> np.ndarray:
    """Return the values as the column of one environment, [T, 1]."""
    return np.array(values, bool if isinstance(values[0], bool) else np.float32)[:, None]


def test_returns_do_not_see_the_next_episode() -> None:
    rewards, never = column(1, 1, 10, 10), column(False, False, False, False)
    ended = column(False, True, False, False)

    after_terminal = returns_to_go(numpy_xp, rewards, ended, never, discount=0.5)
    after_time_limit = returns_to_go(numpy_xp, rewards, never, ended, discount=0.5)

    assert [1.5, 1.0, 15.0, 10.0] == after_terminal.ravel().tolist() == after_time_limit.ravel().tolist()


def test_returns_without_a_future_are_the_rewards() -> None:
    rewards, never = column(1, 2, 3), column(False, False, False)

    returns = returns_to_go(numpy_xp, rewards, never, never, discount=0.0)

    assert [1.0, 2.0, 3.0] == returns.ravel().tolist()


def test_the_loss_of_a_uniform_policy_weighs_both_actions_alike() -> None:
    networks = {"policy": lambda observations: np.zeros((len(observations), 2), np.float32)}
    batch = {
        "observations": np.zeros((3, 1), np.float32),
        "actions": np.array([0, 1, 1], np.int32),
        "returns": np.array([3.0, 1.0, 2.0], np.float32),
    }

    loss, metrics = ReinforceLoss(SoftmaxPolicy(Categorical(2), {}))(numpy_xp, networks, batch, {})

    assert pytest.approx(0.0, abs=1e-6) == float(loss)  # standardized returns sum to 0
    assert pytest.approx(math.log(2), rel=1e-6) == float(metrics["entropy"])


def test_it_is_trained_by_its_name(tmp_path: Path) -> None:
    run = rheos.train("reinforce", env="CartPole-v1", seed=1, stop={"env_steps": 4096}, run_dir=tmp_path / "run")

    action = rheos.load_policy(run.run_dir).act(np.zeros(4, np.float32))

    assert run.env_steps >= 4096
    assert action in (0, 1)
