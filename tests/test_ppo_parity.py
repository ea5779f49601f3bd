"""PPO's mathematics on every backend: the values of NumPy, true gradients, and weights that all move."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rheos import Batch, BatchInfo
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.configuration.run_config import BackendConfig
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.plugins import Kind, load_registry, make_backend
from rheos.seeds import generator_for
from rheos.spaces import Spaces
from rheos_ops.learners import GradientLearner, LearnerSpec
from rheos_ppo.config import PPOConfig
from rheos_ppo.losses import COLUMNS, PPOLoss
from rheos_ppo.policy import actor_critic

BACKENDS = load_registry().names(Kind.BACKEND)
ACTIONS = {"Discrete": gym.spaces.Discrete(3), "Box": gym.spaces.Box(-1.0, 1.0, (2,), np.float32)}


def problem(action_space, *, rows=64):
    """A loss, weights and a minibatch whose ratios lie on both sides of the clip range."""
    observation_space = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)
    acts = actor_critic(Spaces(observation_space, action_space), PPOConfig(hidden_sizes=(16, 16)))
    weights = initial_weights(acts.networks, generator_for(0, "weights"))
    draw = generator_for(0, "batch")
    observations = draw.standard_normal((rows, 5), np.float32)
    noise = acts.distribution.draw_noise(draw, rows)
    acted = acts.explore(
        numpy_xp, NumpyNetworks(acts.networks, weights), {"observations": observations, "noise": noise}
    )
    batch = {
        "observations": observations,
        "actions": acted["actions"],
        "log_probs": acted["log_probs"] + 0.3 * draw.standard_normal(rows, np.float32),
        "advantages": draw.standard_normal(rows, np.float32),
        "returns": draw.standard_normal(rows, np.float32),
    }
    return acts, PPOLoss(acts, clip_range=0.2, value_coef=0.5, entropy_coef=0.01), weights, batch


@pytest.mark.parametrize("action_space", ACTIONS.values(), ids=ACTIONS.keys())
@pytest.mark.parametrize("backend_name", BACKENDS)
def test_loss_and_metrics_are_those_of_numpy(backend_name, action_space):
    acts, loss, weights, batch = problem(action_space)
    backend = make_backend(BackendConfig(backend_name), "cpu")

    _, expected = loss(numpy_xp, NumpyNetworks(acts.networks, weights), batch)
    networks = backend.build(acts.networks, weights)
    _, metrics = loss(backend.xp, networks, backend.put(batch))

    assert expected.keys() == metrics.keys()
    for name, value in backend.get(metrics).items():
        assert value == pytest.approx(expected[name], abs=1e-5), name  # float32, sums over 64 numbers of about 1


@pytest.mark.parametrize("action_space", ACTIONS.values(), ids=ACTIONS.keys())
@pytest.mark.parametrize("backend_name", BACKENDS)
def test_one_update_moves_every_weight_and_lowers_the_loss_on_its_batch(backend_name, action_space):
    acts, loss, _, batch = problem(action_space)
    backend = make_backend(BackendConfig(backend_name), "cpu")
    spec = LearnerSpec(acts.networks, loss, COLUMNS, learning_rate=1e-3, num_epochs=2)
    learner = GradientLearner(backend, spec, seed=0)
    before = learner.weights().arrays

    learner.update(Batch(batch, BatchInfo(env_steps=64)))

    after = learner.weights().arrays
    still = [name for name in before if np.array_equal(before[name], after[name])]
    losses = [float(loss(numpy_xp, NumpyNetworks(acts.networks, arrays), batch)[0]) for arrays in (before, after)]
    assert [] == still
    assert losses[1] < losses[0]
