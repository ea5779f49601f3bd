"""How PPO acts in the spaces that it takes, and what it says of those that it does not."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import ConfigError, SpaceError
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.seeds import generator_for
from rheos.spaces import ActionAdapter, ObservationAdapter, Spaces
from rheos_ppo.config import PPOConfig
from rheos_ppo.policy import REWARD_NORMALIZER, actor_critic, ppo_policy

BOX = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
IMAGE = gym.spaces.Box(0, 255, (12, 12, 3), np.uint8)
OBSERVATIONS = {
    "Box": BOX,
    "float64": gym.spaces.Box(-1.0, 1.0, (2, 2), np.float64),
    "image": IMAGE,
    "Discrete": gym.spaces.Discrete(3, start=5),
    "MultiDiscrete": gym.spaces.MultiDiscrete([2, 3]),
    "MultiBinary": gym.spaces.MultiBinary(4),
    "nested": gym.spaces.Dict(camera=IMAGE, rest=gym.spaces.Tuple([BOX, gym.spaces.Discrete(2)])),
}
ACTIONS = {
    "Discrete": gym.spaces.Discrete(4, start=5),
    "MultiDiscrete": gym.spaces.MultiDiscrete([2, 3]),
    "MultiBinary": gym.spaces.MultiBinary(3),
    "Box": gym.spaces.Box(-2.0, 2.0, (2,), np.float32),
    "nested": gym.spaces.Dict(
        steer=gym.spaces.Box(-1.0, 1.0, (2,), np.float32), gear=gym.spaces.Tuple([gym.spaces.Discrete(3)])
    ),
}


def acting(action_space, observation_space=BOX, **settings):
    policy = ppo_policy(Spaces(observation_space, action_space), PPOConfig(**{"hidden_sizes": (8,)} | settings))
    weights = initial_weights(policy.networks, generator_for(0, "weights"))
    return policy, NumpyNetworks(policy.networks, weights)


def explored(policy, networks, observations):
    """Actions and whatever a rollout would have beside them."""
    count = len(next(iter(observations.values())))
    noise = policy.draw_noise(generator_for(0, "noise"), count)
    acted = policy.explore(xp, networks, {**observations, "noise": noise})
    columns = {**observations, **acted, "rewards": np.ones(count, np.float32)}
    return {"actions": acted["actions"], **policy.annotate(xp, networks, columns)}


def encoded_samples(space, count):
    space.seed(0)
    batch = gym.vector.utils.concatenate(
        space, [space.sample() for _ in range(count)], gym.vector.utils.create_empty_array(space, count)
    )
    return ObservationAdapter(space).encode(batch)


@pytest.mark.parametrize("action_space", ACTIONS.values(), ids=ACTIONS.keys())
@pytest.mark.parametrize("observation_space", OBSERVATIONS.values(), ids=OBSERVATIONS.keys())
@pytest.mark.parametrize("shared_trunk", [False, True], ids=["apart", "shared"])
def test_ppo_acts_and_values_in_every_kind_of_space(observation_space, action_space, shared_trunk):
    policy, networks = acting(action_space, observation_space, shared_trunk=shared_trunk)
    observations = encoded_samples(observation_space, 6)

    acted = explored(policy, networks, observations)
    values = policy.value(xp, networks, observations)["values"]
    decoded = ActionAdapter(action_space).decode(acted["actions"])

    singles = list(gym.vector.utils.iterate(gym.vector.utils.batch_space(action_space, 6), decoded))
    assert (6,) == values.shape == acted["log_probs"].shape
    assert all(action_space.contains(single) for single in singles)


def test_discrete_actions_are_drawn_from_nearly_equal_chances_at_the_start():
    policy, networks = acting(gym.spaces.Discrete(4))
    count = 4000

    acted = explored(policy, networks, {"observations": np.ones((count, 3), np.float32)})

    shares = np.bincount(acted["actions"], minlength=4) / count
    np.testing.assert_allclose(0.25, shares, atol=0.05)  # seven standard errors of a share of 1/4 in 4,000 draws
    np.testing.assert_allclose(np.log(0.25), acted["log_probs"], atol=0.05)
    assert acted["actions"].dtype == np.int32


def test_box_actions_are_normal_around_nearly_zero_at_the_start():
    policy, networks = acting(gym.spaces.Box(-2.0, 2.0, (2,), np.float32))
    count = 4000

    acted = explored(policy, networks, {"observations": np.ones((count, 3), np.float32)})

    np.testing.assert_allclose(0.0, acted["actions"].mean(axis=0), atol=0.1)  # six standard errors
    np.testing.assert_allclose(1.0, acted["actions"].std(axis=0), atol=0.07)  # six standard errors


def test_the_log_prob_is_that_of_the_sample_before_it_is_clipped():
    policy, networks = acting(gym.spaces.Box(-1.0, 1.0, (1,), np.float32))

    acted = explored(policy, networks, {"observations": np.zeros((500, 3), np.float32)})

    means = policy.exploit(xp, networks, {"observations": np.zeros((500, 3), np.float32)})["actions"]
    density = -0.5 * (acted["actions"] - means)[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)
    assert np.abs(acted["actions"]).max() > 1.5  # some were clipped on their way to the environment
    np.testing.assert_allclose(density, acted["log_probs"], atol=1e-5)  # float32, numbers up to 10


def test_squashed_actions_stay_inside_the_bounds_and_none_is_clipped():
    policy, networks = acting(gym.spaces.Box(0.0, 10.0, (1,), np.float32), squash_actions=True, initial_log_std=1.0)

    acted = explored(policy, networks, {"observations": np.zeros((500, 3), np.float32)})

    assert np.abs(acted["actions"]).max() < 1.0


def test_actions_that_a_mask_forbids_are_never_drawn_and_never_the_best():
    space = gym.spaces.Dict(observation=BOX, action_mask=gym.spaces.MultiBinary(4))
    policy, networks = acting(gym.spaces.Discrete(4), space)
    mask = np.array([[True, False, False, True], [False, False, True, False]] * 500)
    observations = {"observations": np.zeros((1000, 3), np.float32), "action_mask": mask}

    acted = explored(policy, networks, observations)
    best = policy.exploit(xp, networks, observations)["actions"]

    assert np.take_along_axis(mask, acted["actions"][:, None], axis=1).all()
    assert np.take_along_axis(mask, best[:, None], axis=1).all()
    np.testing.assert_allclose(0.0, acted["log_probs"][1::2], atol=1e-6)  # one action is all there is
    assert {0, 3} == set(acted["actions"][::2].tolist())


def test_exploiting_needs_no_noise_and_repeats():
    policy, networks = acting(gym.spaces.Discrete(4))
    observations = {"observations": generator_for(0, "o").standard_normal((16, 3), np.float32)}

    first, second = (policy.exploit(xp, networks, observations)["actions"] for _ in range(2))

    np.testing.assert_array_equal(first, second)


def test_a_shared_trunk_is_one_network_for_both_heads():
    spaces = Spaces(BOX, gym.spaces.Discrete(2))

    shared = actor_critic(spaces, PPOConfig(shared_trunk=True)).networks
    apart = actor_critic(spaces, PPOConfig()).networks

    assert {"trunk", "policy", "value"} == set(shared)
    assert {"policy", "value"} == set(apart)
    assert (64,) == shared["trunk"].hidden
    assert () == shared["policy"].hidden == shared["value"].hidden


def test_images_alone_are_seen_by_one_cnn_for_both_heads_unless_said_otherwise():
    spaces = Spaces(IMAGE, gym.spaces.Discrete(2))

    assert {"cnn", "policy", "value"} == set(actor_critic(spaces, PPOConfig()).networks)
    apart = actor_critic(spaces, PPOConfig(shared_trunk=False)).networks
    assert {"cnn", "value_cnn", "policy", "value"} == set(apart)


def test_normalized_rewards_are_in_units_of_the_deviation_and_keep_their_sign():
    policy, networks = acting(gym.spaces.Discrete(2), normalize_rewards=True)
    weights = initial_weights(policy.networks, generator_for(0, "weights"))
    networks.load(weights | {f"{REWARD_NORMALIZER}/std": np.array([4.0], np.float32)})

    columns = {
        "observations": np.zeros((2, 3), np.float32),
        "rewards": np.array([8.0, -2.0], np.float32),
        "actions": np.zeros(2, np.int32),
        "params": np.zeros((2, 2), np.float32),
    }
    annotated = policy.annotate(xp, networks, columns)

    np.testing.assert_allclose([2.0, -0.5], annotated["normalized_rewards"])


@pytest.mark.parametrize(
    ("observation", "action", "path"),
    [
        (BOX, gym.spaces.Text(5), "action"),
        (gym.spaces.Sequence(BOX), gym.spaces.Discrete(2), "observation"),
        (gym.spaces.Dict(a=BOX, b=gym.spaces.Tuple([gym.spaces.Text(3)])), gym.spaces.Discrete(2), r"\['b'\]\[0\]"),
        (BOX, gym.spaces.Dict(a=gym.spaces.Discrete(2), b=gym.spaces.Sequence(BOX)), r"action\['b'\]"),
    ],
    ids=["Text", "Sequence", "nested Text", "nested Sequence"],
)
def test_spaces_that_ppo_cannot_take_are_refused_with_the_path_of_the_leaf(observation, action, path):
    with pytest.raises(SpaceError, match=path):
        ppo_policy(Spaces(observation, action), PPOConfig())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"torso": "mlp"}, "algo.torso: got 'mlp', expected resnet, package.module:function, or null."),
        (
            {"torso": "nets:make"},
            "algo.torso_outputs: expected the number of features that nets:make gives, got null.",
        ),
        (
            {"torso": "nets:make", "torso_outputs": 8, "normalize_observations": True},
            "algo.normalize_observations has no effect with algo.torso=nets:make: leave it at its default.",
        ),
        (
            {"torso": "resnet", "filters": ((8, 3, 1),)},
            "algo.filters has no effect with algo.torso=resnet: leave it at its default.",
        ),
        (
            {"torso_outputs": 8},
            "algo.torso_outputs has no effect with algo.torso=null: leave it at its default.",
        ),
    ],
)
def test_settings_of_the_torso_that_contradict_each_other_are_refused_in_one_line(settings, expected):
    with pytest.raises(ConfigError) as refused:
        actor_critic(Spaces(IMAGE, gym.spaces.Discrete(2)), PPOConfig(**settings))

    assert expected == str(refused.value)


def test_images_may_be_seen_by_the_residual_network_of_impala():
    policy, networks = acting(gym.spaces.Discrete(2), IMAGE, torso="resnet", hidden_sizes=None)

    acted = explored(policy, networks, encoded_samples(IMAGE, 3))

    assert {"resnet", "policy", "value"} == policy.networks.keys()
    assert (3,) == acted["actions"].shape
