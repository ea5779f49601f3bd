"""RolloutWorker: seeds, and what a resumed worker repeats."""

from __future__ import annotations

import numpy as np
import pytest

from rheos.batches import Episode
from rheos.configuration.run_config import EnvironmentConfig
from rheos.environments.gym import make_environment
from rheos.errors import RheosError
from rheos.testing.environments import CountingEnv
from rheos.testing.policies import counting_weights


def same(first, second):
    """Whether two batches say the same, the numbers as the accounts."""
    return first.info == second.info and all(np.array_equal(first[name], second[name]) for name in first.columns)


@pytest.mark.parametrize("vectorization", ["vector_entry_point", "sync"])
def test_four_workers_see_different_environments_and_the_same_again_in_the_next_run(worker_in, vectorization):
    environment = make_environment(EnvironmentConfig(num_envs=4, vectorization=vectorization))

    def starts():
        workers = [worker_in(environment, index=index, steps=1) for index in range(4)]
        return np.concatenate([worker.rollout()["observations"][0] for worker in workers])

    first, again = starts(), starts()

    assert 16 == len(np.unique(first, axis=0))
    np.testing.assert_array_equal(first, again)


def test_a_rollout_repeats_with_the_seed_and_the_workers_name(worker_in):
    environment = make_environment(EnvironmentConfig(num_envs=2))

    def second_fragment(**settings):
        worker = worker_in(environment, steps=60, **settings)
        worker.rollout()
        return worker.rollout()

    first, again, other_seed, other_worker = (
        second_fragment(**settings) for settings in ({}, {}, {"seed": 1}, {"index": 1})
    )

    assert all(np.array_equal(first[name], again[name]) for name in first.columns)
    assert not np.array_equal(first["actions"], other_seed["actions"])
    assert not np.array_equal(first["actions"], other_worker["actions"])


@pytest.mark.parametrize("vectorization", ["vector_entry_point", "sync"])
def test_a_resumed_worker_repeats_in_another_process_and_in_the_same(worker_in, vectorization):
    environment = make_environment(EnvironmentConfig(num_envs=2, vectorization=vectorization))
    worker = worker_in(environment, steps=60)
    first = worker.rollout()
    state = worker.state_dict()

    def resumed(worker):
        worker.load_state_dict(state)
        return [worker.rollout(), worker.rollout()]

    here, there = resumed(worker), resumed(worker_in(environment, steps=60))

    assert [True, True] == [same(*both) for both in zip(here, there, strict=True)]
    assert not np.array_equal(first["observations"][0], here[0]["observations"][0])


def test_each_time_that_a_run_is_resumed_it_begins_other_episodes(worker_in):
    environment = make_environment(EnvironmentConfig(num_envs=2))
    starts = []

    state = worker_in(environment).state_dict()
    for _ in range(3):
        worker = worker_in(environment)
        worker.load_state_dict(state)
        starts.append(worker.rollout()["observations"][0])
        state = worker.state_dict()

    assert 6 == len(np.unique(np.concatenate(starts), axis=0))


def test_a_state_from_before_the_first_rollout_changes_nothing(worker_in):
    environment = make_environment(EnvironmentConfig(num_envs=2))
    resumed = worker_in(environment)

    resumed.load_state_dict(worker_in(environment).state_dict())

    assert same(worker_in(environment).rollout(), resumed.rollout())


def test_the_episodes_that_were_running_are_dropped_when_a_state_is_loaded(worker_of_kind):
    worker = worker_of_kind(steps=1)
    worker.rollout()

    worker.load_state_dict(worker.state_dict())
    batches = [worker.rollout() for _ in range(2)]

    assert [0] * 3 == batches[0]["observations"][0, :, 0].tolist()
    assert [(), (Episode(2.0, 2),)] == [batch.info.episodes for batch in batches]


def test_a_state_names_the_weights_that_go_with_it_and_a_batch_those_that_acted(worker_of):
    worker = worker_of(CountingEnv())
    worker.load(counting_weights(version=12))
    state = worker.state_dict()
    fresh, other = worker_of(CountingEnv(), loaded=False), worker_of(CountingEnv())
    other.load(counting_weights(version=3))

    fresh.load_state_dict(state)
    other.load_state_dict(state)

    assert 12 == state["version"] == fresh.state_dict()["version"]
    assert 3 == other.rollout().info.version_max
    with pytest.raises(RheosError, match=r"before load\(weights\)"):
        fresh.rollout()


def test_a_worker_that_begins_anew_does_what_one_does_that_is_given_its_state(worker_in):
    environment = make_environment(EnvironmentConfig(num_envs=2))
    worker, other = worker_in(environment, steps=20), worker_in(environment, steps=20)
    first = worker.rollout()

    other.load_state_dict(worker.state_dict())
    worker.begin_anew()

    here, there = worker.rollout(), other.rollout()
    assert same(here, there)
    assert not np.array_equal(first["observations"][0], here["observations"][0])


def test_episodes_that_are_cut_are_valued_at_their_last_observation_and_counted_nowhere(worker_of_kind):
    worker = worker_of_kind(steps=1)
    before = worker.rollout()

    worker.begin_anew()
    after = [worker.rollout() for _ in range(2)]

    assert [1.0] * 3 == before["next_values"][-1].tolist()  # an observation is its number, and its value
    assert not (before["truncated"] | before["terminated"]).any()
    assert [0.0] * 3 == after[0]["observations"][0, :, 0].tolist()
    assert [(), (Episode(2.0, 2),)] == [batch.info.episodes for batch in after]


def test_a_worker_that_was_made_anew_takes_other_seeds_than_its_predecessors(worker_in):
    environment = make_environment(EnvironmentConfig(num_envs=2))

    def first_fragment(times):
        worker = worker_in(environment, steps=60)
        if times:
            worker.restarted(times)
        return worker.rollout()

    never, once, twice, twice_again = (first_fragment(times) for times in (0, 1, 2, 2))

    assert 3 == len({batch["observations"][0].tobytes() for batch in (never, once, twice)})
    assert same(twice, twice_again)
