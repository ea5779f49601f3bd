"""How PPO acts in the spaces that it takes, and what it says of those that it does not."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import SpaceError
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.seeds import generator_for
from rheos.spaces import Spaces
from rheos_ppo.config import PPOConfig
from rheos_ppo.policy import ppo_policy

BOX = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)


def acting(action_space, observation_space=BOX):
    policy = ppo_policy(Spaces(observation_space, action_space), PPOConfig(hidden_sizes=(8,)))
    weights = initial_weights(policy.networks, generator_for(0, "weights"))
    return policy, NumpyNetworks(policy.networks, weights)


def test_discrete_actions_are_drawn_from_nearly_equal_chances_at_the_start():
    policy, networks = acting(gym.spaces.Discrete(4))
    count = 4000

    acted = policy.explore(
        xp,
        networks,
        {"observations": np.ones((count, 3), np.float32), "noise": policy.draw_noise(generator_for(0, "noise"), count)},
    )

    shares = np.bincount(acted["actions"], minlength=4) / count
    np.testing.assert_allclose(0.25, shares, atol=0.05)  # seven standard errors of a share of 1/4 in 4,000 draws
    np.testing.assert_allclose(np.log(0.25), acted["log_probs"], atol=0.05)
    assert acted["actions"].dtype == np.int32
    assert acted["values"].shape == (count,)


def test_box_actions_are_normal_around_nearly_zero_at_the_start():
    policy, networks = acting(gym.spaces.Box(-2.0, 2.0, (2,), np.float32))
    count = 4000

    acted = policy.explore(
        xp,
        networks,
        {"observations": np.ones((count, 3), np.float32), "noise": policy.draw_noise(generator_for(0, "noise"), count)},
    )

    np.testing.assert_allclose(0.0, acted["actions"].mean(axis=0), atol=0.1)  # six standard errors
    np.testing.assert_allclose(1.0, acted["actions"].std(axis=0), atol=0.07)  # six standard errors
    assert acted["log_probs"].shape == (count,)


def test_exploiting_needs_no_noise_and_repeats():
    policy, networks = acting(gym.spaces.Discrete(4))
    observations = {"observations": generator_for(0, "o").standard_normal((16, 3), np.float32)}

    first, second = (policy.exploit(xp, networks, observations)["actions"] for _ in range(2))

    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("observation", "action"),
    [(BOX, gym.spaces.Text(5)), (gym.spaces.Sequence(BOX), gym.spaces.Discrete(2))],
    ids=["Text", "Sequence"],
)
def test_spaces_that_ppo_cannot_take_are_refused_when_it_is_made(observation, action):
    with pytest.raises(SpaceError):
        ppo_policy(Spaces(observation, action), PPOConfig())
