"""What PPO's settings become where its actors are described."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rheos.configuration.run_config import BackendConfig, EnvironmentConfig
from rheos.environments.gym import GymEnvironment
from rheos.errors import ConfigError
from rheos.runs.context import RunContext
from rheos_ppo.config import PPOConfig
from rheos_ppo.flow import ppo
from rheos_ppo.roles import learner_spec, ppo_roles


def context(config, *, total_env_steps=1000, env="CartPole-v1"):
    return RunContext(
        config=config,
        environment=GymEnvironment(EnvironmentConfig(id=env)),
        backend=BackendConfig(),
        num_workers=1,
        seed=0,
        total_env_steps=total_env_steps,
    )


@pytest.mark.parametrize("name", ["learning_rate", "clip_range", "entropy_coef"])
def test_a_setting_with_a_final_value_goes_there_linearly_until_the_run_ends(name):
    config = PPOConfig(**{name: 0.4, f"final_{name}": 0.0})

    spec = learner_spec(context(config))

    schedule = spec.learning_rate if name == "learning_rate" else spec.coefficients[name]
    assert [0.4, 0.2, 0.0, 0.0] == [pytest.approx(schedule(steps)) for steps in (0, 500, 1000, 2000)]


def test_a_setting_without_a_final_value_stays():
    spec = learner_spec(context(PPOConfig(learning_rate=0.3), total_env_steps=None))

    assert [0.3, 0.3] == [spec.learning_rate(steps) for steps in (0, 10**9)]


def test_a_schedule_without_an_end_is_refused_before_anything_starts():
    with pytest.raises(ConfigError, match=r"algo.final_learning_rate: got 0.*stop.env_steps"):
        ppo_roles(context(PPOConfig(final_learning_rate=0.0), total_env_steps=None))


def test_unbounded_actions_have_no_clip_fraction():
    assert learner_spec(context(PPOConfig())).prepare.action_bounds is None
    low, high = learner_spec(context(PPOConfig(), env="Pendulum-v1")).prepare.action_bounds
    np.testing.assert_array_equal([-1.0], low)
    np.testing.assert_array_equal([1.0], high)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        ({"normalize_observations": True}, {"observation_normalizer": ("observations", True)}),
        ({"normalize_rewards": True}, {"reward_normalizer": ("discounted_returns", False)}),
    ],
    ids=["nothing", "observations", "rewards"],
)
def test_each_normalizer_learns_from_its_column(settings, expected):
    found = learner_spec(context(PPOConfig(**settings))).normalizers

    assert expected == {name: (spec.column, spec.is_centered) for name, spec in found.items()}


def test_rewards_are_normalized_before_advantages_are_estimated_and_only_then():
    plain, normalized = (
        ppo(ppo_roles(context(config)), config).explain() for config in (PPOConfig(), PPOConfig(normalize_rewards=True))
    )

    assert "discounted_returns" not in plain.lower().replace("discountedreturns", "discounted_returns")
    text = normalized.lower().replace("discountedreturns", "discounted_returns")
    assert text.index("discounted_returns") < text.index("estimate")


def test_the_action_space_decides_what_is_learned_beside_the_networks():
    discrete, box = (learner_spec(context(PPOConfig(), env=env)) for env in ("CartPole-v1", "Pendulum-v1"))

    assert "log_std" not in discrete.networks
    assert (1,) == box.networks["log_std"].shape
    assert isinstance(gym.make("Pendulum-v1").action_space, gym.spaces.Box)
