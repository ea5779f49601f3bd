"""QNetwork with a memory: what it says step by step is what it says of a sequence, and what is stored is right."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rheos import Weights
from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.spaces import Spaces
from rheos_apex.config import R2D2Config
from rheos_apex.policy import q_policy
from rheos_apex.q_network import q_network
from rheos_ops.sequences import sequences
from rheos_ops.workers import RolloutWorker

NUMBERS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
BRANCHES = gym.spaces.MultiDiscrete([2, 3])


def network_of(action=BRANCHES, **settings):
    acts = q_network(Spaces(NUMBERS, action), R2D2Config(hidden_sizes=(8, 8), lstm_units=4, **settings))
    return acts, NumpyNetworks(acts.networks, initial_weights(acts.networks, np.random.default_rng(0)))


def drawn(num_steps, rows, seed=0):
    generator = np.random.default_rng(seed)
    observations = generator.normal(size=(num_steps, rows, 3)).astype(np.float32)
    return observations, generator.random((num_steps, rows)) < 0.3


@pytest.mark.parametrize("dueling", [True, False])
def test_unrolled_over_a_sequence_it_says_what_it_says_step_by_step(dueling):
    acts, networks = network_of(dueling=dueling)
    observations, is_first = drawn(6, 4)
    memory = begin = np.random.default_rng(1).normal(size=(4, acts.memory_size)).astype(np.float32)

    by_step = []
    for observed, first in zip(observations, is_first, strict=True):
        inputs = {"observations": observed, "memory": memory, "is_first": first}
        by_step.append(acts.outputs(xp, networks, inputs))
        memory = acts.exploit(xp, networks, inputs)["memory"]
    features, last = acts.unroll(xp, networks, {"observations": observations}, begin, is_first)

    whole = acts.outputs_of(xp, networks, features.reshape(-1, 4))
    np.testing.assert_allclose(np.concatenate(by_step), whole, rtol=1e-5, atol=1e-6)  # float32, other products
    np.testing.assert_allclose(memory, last, rtol=1e-5, atol=1e-6)


def test_what_was_before_an_episode_does_not_matter():
    acts, networks = network_of()
    observations, _ = drawn(1, 5)
    inputs = {"observations": observations[0], "is_first": np.ones(5, np.bool_)}

    first, second = (
        acts.exploit(xp, networks, inputs | {"memory": np.full((5, 8), before, np.float32)}) for before in (0.0, 9.0)
    )

    np.testing.assert_array_equal(first["memory"], second["memory"])
    np.testing.assert_array_equal(first["actions"], second["actions"])


def test_whoever_explores_remembers_what_whoever_exploits_does():
    acts, networks = network_of()
    observations, is_first = drawn(1, 5)
    inputs = {"observations": observations[0], "is_first": is_first[0], "memory": np.ones((5, 8), np.float32)}
    exploited = acts.exploit(xp, networks, inputs)
    inputs |= {"noise": acts.draw_noise(np.random.default_rng(0), 5), "epsilons": np.ones(5, np.float32)}

    explored, valued = acts.explore(xp, networks, inputs), acts.explore_with_values(xp, networks, inputs)

    np.testing.assert_array_equal(exploited["memory"], explored["memory"])
    np.testing.assert_array_equal(exploited["memory"], valued["memory"])
    np.testing.assert_array_equal(explored["actions"], valued["actions"])
    assert {"actions", "memory", "values", "chosen_values"} == valued.keys()


def test_the_memory_lies_between_the_shared_layers_and_the_heads():
    acts, _ = network_of()

    assert {"trunk", "lstm", "value", "advantages"} == acts.networks.keys()
    assert (8, 4) == (acts.networks["lstm"].inputs, acts.networks["value"].inputs)
    assert q_policy(Spaces(NUMBERS, BRANCHES), R2D2Config(lstm_units=5)).memory_size == 10


@pytest.mark.parametrize("rollout_steps", [3, 16])
def test_the_memory_of_a_sequence_is_that_of_the_episode_until_then(context, rollout_steps):
    """Stored as it was when acted, it is what unrolling from the episode's beginning gives with the same weights."""
    config = R2D2Config(hidden_sizes=(8,), lstm_units=4, rollout_steps=rollout_steps)
    made = context(config, num_envs=3)
    spaces = made.environment.spaces()
    worker = RolloutWorker(
        made,
        q_policy(spaces, config),
        index=0,
        rollout_steps=rollout_steps,
        gives_next_observations=True,
        epsilons=lambda _: np.ones(3, np.float32),
    )
    acts = q_network(spaces, config)
    weights = initial_weights(acts.networks, np.random.default_rng(0))
    worker.load(Weights(0, weights))
    stage = sequences(burn_in=2, length=5, n_step=1, discount=0.9)

    fragments = [worker.rollout() for _ in range(96 // rollout_steps)]
    rows = [stage(fragment) for fragment in fragments]

    whole = {name: np.concatenate([each[name] for each in fragments]) for name in ("observations", "is_first")}
    memories = memory_before_each_step(acts, NumpyNetworks(acts.networks, weights), whole)
    num_compared = 0
    for each in rows:
        slot = np.argmax(each["observations"].any(axis=-1), axis=1)  # the first that is no padding
        for row, first in enumerate(slot):
            is_there = (whole["observations"] == each["observations"][row, first]).all(axis=-1)
            ((step, env),) = np.argwhere(is_there)
            stored = each["memory"][row] * ~each["is_first"][row, first]
            np.testing.assert_allclose(stored, memories[step, env], rtol=1e-5, atol=1e-6)
            num_compared += 1
    assert num_compared > 20


def memory_before_each_step(acts, networks, steps):
    num_steps, num_envs = steps["is_first"].shape
    memories = np.zeros((num_steps, num_envs, acts.memory_size), np.float32)
    memory = memories[0]
    for step in range(num_steps):
        memory = np.where(steps["is_first"][step, :, None], np.float32(0.0), memory)
        memories[step] = memory
        observed = {"observations": steps["observations"][step : step + 1]}
        _, memory = acts.unroll(xp, networks, observed, memory, steps["is_first"][step : step + 1])
    return memories
