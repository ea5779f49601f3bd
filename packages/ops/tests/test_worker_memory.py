"""RolloutWorker: what a policy with a memory remembers, and where it begins anew."""

from __future__ import annotations

import numpy as np
import pytest

from rheos.environments.native import AutoresetMode
from rheos.testing.environments import CountingEnv, CountingVectorEnv
from rheos.testing.policies import counting_weights, remembering_policy


@pytest.fixture
def make_worker(worker_of_kind):
    """Make a worker of three environments with episodes of 2, 3 and 7 steps, whose policy counts their steps."""
    return lambda **settings: worker_of_kind(policy=remembering_policy(), **settings)


def remembered(batch):
    """What counts of the memory, of all transitions."""
    memory = np.where(batch["is_first"], 0.0, batch["memory"][..., 0])
    return memory[batch["is_transition"]]


def observed(batch):
    return batch["observations"][..., 0][batch["is_transition"]]


@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize("steps", [1, 4, 20])
def test_each_environment_remembers_its_own_episode_over_steps_and_fragments(make_worker, steps, terminates):
    worker = make_worker(steps=steps, terminates=terminates)

    batches = [worker.rollout() for _ in range(20 // steps)]

    for batch in batches:
        np.testing.assert_array_equal(observed(batch), remembered(batch))
    assert any(batch["memory"].max() == 7.0 for batch in batches)


def test_an_episode_is_said_to_begin_where_it_does(make_worker):
    batch = make_worker(steps=20).rollout()

    is_step = batch["is_transition"]
    np.testing.assert_array_equal(batch["observations"][is_step][:, 0] == 0.0, batch["is_first"][is_step])
    assert batch["is_first"][~is_step].all()


def test_the_columns_are_the_memory_before_each_step_and_float32(worker_of):
    batch = worker_of(CountingEnv(3), CountingEnv(2), steps=4, policy=remembering_policy()).rollout()

    assert [[0, 0], [1, 1], [2, 2], [3, 1]] == batch["memory"][..., 0].tolist()
    assert [[True, True], [False, False], [False, True], [True, False]] == batch["is_first"].tolist()
    assert ((4, 2, 1), np.float32) == (batch["memory"].shape, batch["memory"].dtype)
    assert {"values", "noise"}.isdisjoint(batch.columns)


@pytest.mark.parametrize("begins_anew", [True, False])
def test_it_begins_anew_where_the_episodes_do(make_worker, begins_anew):
    worker = make_worker(steps=4)
    worker.rollout()

    if begins_anew:
        worker.begin_anew()
    else:
        worker.load_state_dict(worker.state_dict())
    batch = worker.rollout()

    assert batch["is_first"][0].all()
    assert [0.0] * 3 == batch["memory"][0, :, 0].tolist()
    np.testing.assert_array_equal(observed(batch), remembered(batch))


def test_new_weights_leave_the_memory_of_running_episodes(worker_of):
    worker = worker_of(CountingVectorEnv((9,), AutoresetMode.SAME_STEP), steps=2, policy=remembering_policy())
    worker.rollout()

    worker.load(counting_weights(version=3))

    assert [[2.0], [3.0]] == worker.rollout()["memory"][..., 0].tolist()


def test_a_fragment_belongs_to_its_receiver(worker_of):
    worker = worker_of(CountingEnv(9), steps=2, policy=remembering_policy())
    first = worker.rollout()

    first["memory"][...] = 99.0

    assert [[2.0], [3.0]] == worker.rollout()["memory"][..., 0].tolist()


def test_a_policy_without_a_memory_has_no_such_columns(worker_of):
    assert {"memory", "is_first"}.isdisjoint(worker_of(CountingEnv(), steps=2).rollout().columns)
