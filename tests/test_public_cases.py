"""Cases from public bug reports, from end to end: a whole run of PPO in an environment made to go wrong elsewhere."""

from __future__ import annotations

import json
import math

import gymnasium as gym
import numpy as np
import pytest

import rheos
from rheos.errors import EnvironmentFailed
from rheos.runs.checkpoints import newest_checkpoint
from rheos_cli.main import main

SMALL = {"name": "ppo", "rollout_steps": 16, "minibatch_size": 32, "hidden_sizes": [16]}


class SampledEnv(gym.Env):
    """Gives what its observation space samples, and takes only what its action space contains."""

    def __init__(self, observation_space, action_space, reward=1.0, time_limit=10, faults=()):
        self.observation_space, self.action_space = observation_space, action_space
        self._reward, self._time_limit, self._faults = reward, time_limit, dict(faults)
        self._count = self._total = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._count = 0
        self._fail("reset")
        return self.observation_space.sample(), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not in {self.action_space}")
        self._count += 1
        self._total += 1
        fault = self._fail(self._total)
        observation = fault.get("observation", self.observation_space.sample())
        reward = fault.get("reward", self._reward)
        return observation, reward, False, self._count >= self._time_limit, {}

    def _fail(self, moment):
        fault = self._faults.get(moment, {})
        if isinstance(fault, Exception):
            raise fault
        return fault


@pytest.fixture
def train_in(tmp_path):
    """Train in an environment of one's own, registered for the time of a test."""
    registered = []

    def train(make, *, algo=SMALL, env_steps=200, name="run", num_envs=2, **others):
        env_id = f"Case{len(registered)}-v0"
        gym.register(env_id, entry_point=make)
        registered.append(env_id)
        return rheos.train(
            algo,
            env={"id": env_id, "num_envs": num_envs},
            stop={"env_steps": env_steps},
            run_dir=tmp_path / name,
            logger={"names": []},
            seed=1,
            **others,
        )

    yield train
    for env_id in registered:
        del gym.registry[env_id]


NUMBERS = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
TWO = gym.spaces.Discrete(2)
NESTED = gym.spaces.Dict(
    a=gym.spaces.Discrete(2), b=gym.spaces.Tuple([NUMBERS, gym.spaces.Dict(c=gym.spaces.MultiBinary(2))])
)


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Discrete(3, start=5),
        gym.spaces.MultiDiscrete([2, 3], start=[1, -4]),
        gym.spaces.MultiBinary([2, 2]),
        gym.spaces.Box(0, 10, (1,)),
        gym.spaces.Box(-np.inf, np.inf, (2,), np.float64),
        gym.spaces.Box(np.array([0.0, -np.inf], np.float32), np.array([np.inf, 3.0], np.float32)),
        gym.spaces.Box(0, 9, (2, 2), np.int64),
        gym.spaces.Tuple([TWO, NUMBERS]),
        NESTED,
    ],
    ids=str,
)
def test_every_kind_of_space_is_observed_and_acted_in_and_a_policy_of_it_loads(train_in, space):
    """Cases 12, 13, 16 and 17: the environment itself refuses an action that is not in its space."""
    observing = train_in(lambda **_: SampledEnv(space, TWO), name="observing")
    acting = train_in(lambda **_: SampledEnv(NUMBERS, space), name="acting")

    space.seed(3)
    assert TWO.contains(rheos.load_policy(observing.run_dir).act(space.sample()))
    assert space.contains(rheos.load_policy(acting.run_dir).act(NUMBERS.sample()))


def test_images_are_learned_from(train_in):
    image = gym.spaces.Box(0, 255, (12, 12, 3), np.uint8)

    result = train_in(lambda **_: SampledEnv(image, TWO), env_steps=64)

    assert TWO.contains(rheos.load_policy(result.run_dir).act(image.sample()))


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ({5: {"reward": math.nan}}, r"environment \d, step 5: reward is nan"),
        ({5: {"reward": -math.inf}}, r"environment \d, step 5: reward is -inf"),
        ({5: {"observation": np.array([0, math.nan, 0], np.float32)}}, r"environment \d, step 5: observation.*nan"),
        ({5: {"observation": np.array([0, 0, 7], np.float32)}}, r"environment \d, step 5: observation.*7"),
        ({5: {"observation": np.zeros(4, np.float32)}}, r"environment \d, step 5: .*observation.*\(4,\).*\(3,\)"),
        ({5: {"observation": np.array(["a", "b", "c"])}}, r"environment \d, step 5: .*observation.*dtype"),
        ({5: ZeroDivisionError("division by zero")}, r"environment \d, step 5: ZeroDivisionError: division by zero"),
        ({"reset": OSError("no simulator")}, r"environment \d, reset: OSError: no simulator"),
    ],
    ids=["NaN reward", "inf reward", "NaN", "outside", "shape", "dtype", "step raises", "reset raises"],
)
def test_a_bad_environment_stops_the_run_with_worker_environment_step_and_field(train_in, tmp_path, faults, expected):
    """Cases 11, 31 and 32: never a "successful" run, and nothing that is not finite is saved."""
    with pytest.raises(EnvironmentFailed, match=rf"rollout-0, {expected}"):
        train_in(lambda **_: SampledEnv(NUMBERS, TWO, faults=faults.items()))

    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert ("failed", 0) == (status["state"], status["updates"])
    assert "EnvironmentFailed" in status["reason"]
    assert not (tmp_path / "run" / "checkpoints").exists() or not any((tmp_path / "run" / "checkpoints").iterdir())


def test_what_was_saved_before_a_bad_number_stays_the_newest_and_is_finite(train_in, tmp_path):
    faults = {150: {"reward": math.nan}}

    with pytest.raises(EnvironmentFailed, match="step 150: reward is nan"):
        train_in(
            lambda **_: SampledEnv(NUMBERS, TWO, faults=faults.items()),
            env_steps=2_000,
            checkpoint={"every_steps": 64},
        )

    checkpoint = newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert 0 < checkpoint.env_steps < 300
    assert all(np.isfinite(array).all() for array in checkpoint.weights.values())


def test_the_command_line_says_a_bad_number_in_one_line(tmp_path, capfd):
    gym.register(
        "NaNReward-v0", entry_point=lambda **_: SampledEnv(NUMBERS, TWO, faults={5: {"reward": math.nan}}.items())
    )
    words = ["algo=ppo", "env=gym", "env.id=NaNReward-v0", "env.num_envs=2", f"run_dir={tmp_path / 'run'}"]

    code = main(["train", *words])

    del gym.registry["NaNReward-v0"]
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("rheos:")]
    assert 1 == code
    assert 1 == len(told)
    assert "step 5: reward is nan" in told[0]


def test_an_endless_reward_is_worth_a_hundred_though_episodes_are_cut_after_ten_steps(train_in):
    """Case 1: reward 1 for ever and discount 0.99 make V = 1 / (1 - 0.99); if the cut were an end, it were below 10."""
    still = gym.spaces.Box(1.0, 1.0, (1,), np.float32)
    steps = {"learning_rate": 0.3, "max_grad_norm": None, "num_epochs": 4}
    algo = {"name": "ppo", "hidden_sizes": [], "gae_lambda": 1.0, **steps}

    result = train_in(lambda **_: SampledEnv(still, TWO), algo=algo, env_steps=40_000, num_envs=8)

    weights = newest_checkpoint(result.run_dir / "checkpoints").weights
    value = float(weights["value/output/kernel"].sum() + weights["value/output/bias"].sum())
    assert 90 < value < 110


def test_the_statistics_of_a_normalized_run_are_saved_and_frozen_when_it_is_evaluated(train_in):
    far = gym.spaces.Box(np.float32(900), np.float32(1100), (2,), np.float32)
    algo = {**SMALL, "normalize_observations": True, "normalize_rewards": True}

    result = train_in(lambda **_: SampledEnv(far, TWO, reward=50.0), algo=algo, env_steps=2_000)

    weights = newest_checkpoint(result.run_dir / "checkpoints").weights
    np.testing.assert_allclose(1000, weights["observation_normalizer/mean"], rtol=0.02)  # 2,000 uniform draws
    np.testing.assert_allclose(200 / math.sqrt(12), weights["observation_normalizer/std"], rtol=0.1)
    assert weights["reward_normalizer/std"] > 50
    policy = rheos.load_policy(result.run_dir)
    for _ in range(3):
        policy.act(np.full((64, 2), 5000, np.float32))
    np.testing.assert_array_equal(
        weights["observation_normalizer/mean"], policy.checkpoint.weights["observation_normalizer/mean"]
    )
    assert result.episode_return_mean == pytest.approx(500)  # shown in the environment's own unit
