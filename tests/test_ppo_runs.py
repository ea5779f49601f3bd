"""PPO from end to end: it repeats bit for bit, it learns, and what it saved acts."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest

import rheos

SMALL = {"name": "ppo", "rollout_steps": 32, "minibatch_size": 64}


def trained(run_dir, *, seed=1, env_steps=2_000, env="CartPole-v1", algo=SMALL, **others):
    return rheos.train(algo, env=env, seed=seed, stop={"env_steps": env_steps}, run_dir=run_dir, **others)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path):
    first, again, other = (
        trained(tmp_path / name, seed=seed) for name, seed in (("first", 1), ("again", 1), ("other", 2))
    )

    assert first.weights_sha256 == again.weights_sha256
    assert first.weights_sha256 != other.weights_sha256


def test_the_same_seed_gives_the_same_measurements_but_for_the_time(tmp_path):
    tables = []
    for name in ("first", "again"):
        trained(tmp_path / name)
        rows = np.genfromtxt(tmp_path / name / "metrics.csv", delimiter=",", names=True)
        tables.append([rows[column] for column in rows.dtype.names if column not in ("wall_s", "env_steps_per_s")])

    np.testing.assert_array_equal(*tables)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("vectorization", ["auto", "sync", "async"])
def test_every_kind_of_action_and_of_vectorization_runs_and_acts_afterwards(tmp_path, env, vectorization):
    with_env = {"id": env, "num_envs": 2, "vectorization": vectorization}

    result = trained(tmp_path / "run", env=with_env, env_steps=300)
    policy = rheos.load_policy(result.run_dir)

    made = gym.make(env)
    observation, _ = made.reset(seed=0)
    assert made.action_space.contains(policy.act(observation))
    assert policy.act(observation) == policy.act(observation)
    made.close()


def test_two_workers_learn_from_both(tmp_path):
    result = trained(tmp_path / "run", executor={"name": "inline", "workers": 2}, env_steps=1_500)

    status = json.loads((tmp_path / "run" / "status.json").read_text())
    steps_of_a_round = 2 * 8 * SMALL["rollout_steps"]
    assert status["state"] == "done"
    assert result.env_steps <= steps_of_a_round * status["updates"]  # resets are no steps, so a little fewer
    assert result.env_steps > 0.8 * steps_of_a_round * status["updates"]


def test_ppo_learns_cartpole_a_good_deal_in_40_000_steps(tmp_path):
    """A random policy lasts about 22 steps; three times as long, on average over 100 episodes, is no accident."""
    result = trained(tmp_path / "run", algo="ppo", env_steps=40_000)

    assert result.episode_return_mean > 66
