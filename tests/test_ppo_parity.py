"""PPO's mathematics on every backend: the values of NumPy, weights that all move, and a loss that falls."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rheos import Batch, BatchInfo
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.configuration.run_config import BackendConfig
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.networks.weights import trainable_shapes
from rheos.plugins import Kind, load_registry, make_backend
from rheos.seeds import generator_for
from rheos.spaces import ObservationAdapter, Spaces
from rheos_ops.learners import GradientLearner, LearnerSpec
from rheos_ppo.config import PPOConfig
from rheos_ppo.losses import PPOLoss, columns_of
from rheos_ppo.policy import actor_critic

BACKENDS = load_registry().names(Kind.BACKEND)
NUMBERS = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)
IMAGE = gym.spaces.Box(0, 255, (12, 12, 3), np.uint8)
MASKED = gym.spaces.Dict(observation=NUMBERS, action_mask=gym.spaces.MultiBinary(3))
DISCRETE, BOX = gym.spaces.Discrete(3), gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
PROBLEMS = {
    "Discrete": (NUMBERS, DISCRETE, {}),
    "Discrete, masked": (MASKED, DISCRETE, {}),
    "MultiDiscrete": (NUMBERS, gym.spaces.MultiDiscrete([2, 3]), {}),
    "MultiBinary": (NUMBERS, gym.spaces.MultiBinary(3), {}),
    "Box": (NUMBERS, BOX, {}),
    "Box, squashed": (NUMBERS, BOX, {"squash_actions": True}),
    "nested": (gym.spaces.Dict(camera=IMAGE, speed=NUMBERS), gym.spaces.Dict(steer=BOX, gear=DISCRETE), {}),
    "image": (IMAGE, DISCRETE, {}),
    "shared trunk": (NUMBERS, BOX, {"shared_trunk": True}),
    "normalized": (NUMBERS, DISCRETE, {"normalize_observations": True, "normalize_rewards": True}),
}
COEFFICIENTS = {"learning_rate": 1e-3, "clip_range": 0.2, "entropy_coef": 0.01}


def problem(observation_space, action_space, settings, *, rows=64):
    """A loss, weights and a minibatch whose ratios lie on both sides of the clip range."""
    config = PPOConfig(hidden_sizes=(16, 16), **settings)
    acts = actor_critic(Spaces(observation_space, action_space), config)
    weights = initial_weights(acts.networks, generator_for(0, "weights"))
    draw = generator_for(0, "batch")
    observations = encoded(observation_space, action_space, draw, rows)
    networks = NumpyNetworks(acts.networks, weights)
    noise = acts.distribution.draw_noise(draw, rows)
    acted = acts.explore(numpy_xp, networks, {**observations, "noise": noise})
    rewards = draw.standard_normal(rows, np.float32)
    log_probs = acts.annotate(numpy_xp, networks, {**observations, **acted, "rewards": rewards})["log_probs"]
    batch = {
        **observations,
        "actions": acted["actions"],
        "log_probs": log_probs + 0.3 * draw.standard_normal(rows, np.float32),
        "advantages": draw.standard_normal(rows, np.float32),
        "returns": draw.standard_normal(rows, np.float32),
        "values": draw.standard_normal(rows, np.float32),
        "discounted_returns": 5 * draw.standard_normal(rows, np.float32),
    }
    loss = PPOLoss(acts, value_coef=0.5, value_clip_range=0.2)
    return acts, loss, weights, batch


def encoded(observation_space, action_space, draw, rows):
    """Random observations: normal numbers, any bytes, masks that allow something."""
    observations = {}
    for name, column in ObservationAdapter(observation_space, action_space).columns.items():
        shape = (rows, *column.shape)
        if name == "action_mask":
            observations[name] = draw.random(shape) < 0.6
            observations[name][:, 0] |= ~observations[name].any(axis=1)
        elif column.dtype == np.uint8:
            observations[name] = draw.integers(0, 256, shape, np.uint8)
        else:
            observations[name] = draw.standard_normal(shape, np.float32)
    return observations


@pytest.mark.parametrize("given", PROBLEMS.values(), ids=PROBLEMS.keys())
@pytest.mark.parametrize("backend_name", BACKENDS)
def test_loss_and_metrics_are_those_of_numpy(backend_name, given):
    acts, loss, weights, batch = problem(*given)
    backend = make_backend(BackendConfig(backend_name), "cpu")

    _, expected = loss(numpy_xp, NumpyNetworks(acts.networks, weights), batch, COEFFICIENTS)
    networks = backend.build(acts.networks, weights)
    _, metrics = loss(backend.xp, networks, backend.put(batch), COEFFICIENTS)

    assert expected.keys() == metrics.keys()
    for name, value in backend.get(metrics).items():
        assert value == pytest.approx(expected[name], abs=2e-5), name  # float32, sums over 64 numbers of about 1


@pytest.mark.parametrize("given", PROBLEMS.values(), ids=PROBLEMS.keys())
@pytest.mark.parametrize("backend_name", BACKENDS)
def test_one_update_moves_every_trainable_weight_and_lowers_the_loss_on_its_batch(backend_name, given):
    acts, loss, _, batch = problem(*given)
    backend = make_backend(BackendConfig(backend_name), "cpu")
    spec = LearnerSpec(
        acts.networks,
        loss,
        columns_of(acts),
        learning_rate=1e-4,  # small, so that also the CNN, 1.6 million weights, goes downhill
        coefficients={name: value for name, value in COEFFICIENTS.items() if name != "learning_rate"},
        num_epochs=2,
    )
    learner = GradientLearner(backend, spec, seed=0)
    before = learner.weights().arrays

    learner.update(Batch(batch, BatchInfo(env_steps=64)))

    after = learner.weights().arrays
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    losses = [
        float(loss(numpy_xp, NumpyNetworks(acts.networks, arrays), batch, COEFFICIENTS)[0])
        for arrays in (before, after)
    ]
    assert set(trainable_shapes(acts.networks)) == moved
    assert losses[1] < losses[0]
