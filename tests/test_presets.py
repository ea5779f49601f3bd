"""The presets reach what their first line says: slow, several seeds, as a user would start them."""

from __future__ import annotations

import json

import pytest

from rheos_cli.main import main

pytestmark = pytest.mark.slow


def trained(run_dir, *words):
    code = main(["train", *words, "--quiet", f"run_dir={run_dir}"])
    assert 0 == code
    return json.loads((run_dir / "status.json").read_text())


@pytest.mark.parametrize(
    "words",
    [["algo=ppo", "env=cartpole"], ["algo=ppo", "env=cartpole", "backend=tf"], ["exp=cartpole_ppo"]],
    ids=" ".join,
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cartpole_is_solved_within_300_000_steps(tmp_path, words, seed):
    """The threshold of CartPole-v1: a mean return of 475 over the last 100 episodes."""
    goal = ["stop.env_steps=300000", "stop.episode_return=475"]

    status = trained(tmp_path / "run", *words, *goal, f"seed={seed}")

    assert status["episode_return_mean"] >= 475
    assert status["env_steps"] <= 300_000


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("preset", "goal"), [("acrobot_ppo", -100), ("pendulum_ppo", -300)], ids=["Acrobot", "Pendulum"]
)
def test_classic_control_reaches_its_goal_within_500_000_steps(tmp_path, preset, goal, seed):
    """Over the last 100 episodes; a random policy has about -500 in Acrobot-v1 and -1,200 in Pendulum-v1."""
    status = trained(tmp_path / "run", f"exp={preset}", f"seed={seed}")

    assert status["episode_return_mean"] >= goal
    assert status["env_steps"] <= 500_000


@pytest.mark.parametrize("seed", [1, 2])
def test_hopper_hops_within_a_million_steps(tmp_path, seed):
    """A random policy falls over with a return of about 20; 1,000 is hopping for some seconds without a fall."""
    pytest.importorskip("mujoco")

    status = trained(tmp_path / "run", "exp=hopper_ppo", f"seed={seed}")

    assert status["episode_return_mean"] >= 1000


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "words",
    [
        ["exp=cartpole_dqn"],
        ["exp=cartpole_rainbow"],
        ["exp=cartpole_qrdqn"],
        ["exp=cartpole_apex"],
        ["exp=cartpole_apex", "algo.replay_shards=2"],
    ],
    ids=" ".join,
)
def test_cartpole_is_solved_from_replay_within_400_000_steps(tmp_path, words, seed):
    """The threshold of CartPole-v1: a mean return of 475 over the last 100 episodes."""
    status = trained(tmp_path / "run", *words, f"seed={seed}")

    assert status["episode_return_mean"] >= 475
    assert status["env_steps"] <= 400_000


@pytest.mark.parametrize(
    "words",
    [
        ["exp=cartpole_apex", "executor=threads", "executor.workers=2"],
        ["exp=cartpole_apex", "executor=ray", "executor.workers=2"],
        ["exp=cartpole_apex", "backend=tf"],
        ["exp=cartpole_dqn", "backend=tf"],
    ],
    ids=" ".join,
)
def test_cartpole_is_solved_from_replay_elsewhere_too(tmp_path, words):
    status = trained(tmp_path / "run", *words, "seed=1")

    assert status["episode_return_mean"] >= 475


def test_the_car_gets_up_the_hill_within_300_000_steps(tmp_path):
    """A mean return above -130 over the last 100 episodes; who never arrives has -200, and some seeds take long to."""
    status = trained(tmp_path / "run", "exp=mountaincar_dqn", "seed=1")

    assert status["episode_return_mean"] > -130
    assert status["env_steps"] <= 300_000
