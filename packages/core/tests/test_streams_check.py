"""Mistakes in the text of a flow are found before anything starts, and named with their line."""

from __future__ import annotations

from typing import Any

import pytest

from rheos import ActorGroup, Route, Stream, concurrently, from_actors, from_items, round_robin, run
from rheos.errors import FlowMistake
from rheos.testing.fakes import (
    CountingLearner,
    StampingWorker,
    counting_learner,
    fake_actor,
    fake_group,
    stamping_workers,
)


def texts(stream: Stream[Any]) -> list[str]:
    return [mistake.text for mistake in stream.check()]


def rounds(workers: ActorGroup[StampingWorker]) -> Stream[Any]:
    return from_actors(workers, StampingWorker.rollout).gather_sync()


def test_a_stream_that_is_used_twice_without_a_tee_is_a_mistake():
    stream = from_items([1, 2])

    merged = concurrently(stream.map(str), stream.map(repr))

    assert ["2 stages read it: read it through tee(2)."] == texts(merged)
    assert stream.node is merged.check()[0].stage


def test_a_branch_that_is_used_twice_is_a_mistake_too():
    left, right = from_items([1, 2]).tee(2)

    assert ["2 stages read it: read it through tee(2)."] == texts(concurrently(left, right, right))


def test_a_sharded_stream_that_is_gathered_twice_is_a_mistake():
    shards = from_actors(stamping_workers(2), StampingWorker.rollout)

    assert ["2 stages read it: read it through tee(2)."] == texts(
        concurrently(shards.gather_sync(), shards.gather_sync())
    )


def test_a_side_flow_that_nobody_drains_is_a_mistake():
    main, side = from_items([1, 2]).tee(2)
    side.map(print)

    assert ["nobody reads branch 1: end it in drain() and merge it by concurrently()."] == texts(main)


def test_two_branches_of_one_tee_under_one_round_robin_are_a_mistake():
    left, right = from_items([1, 2]).tee(2)

    found = round_robin(left.map(str), right.map(str)).check()

    assert ["round_robin(1:1)"] == [mistake.stage.label for mistake in found]
    assert "merge them by concurrently()" in found[0].text


def test_two_branches_of_one_tee_under_concurrently_are_none():
    left, right = from_items([1, 2]).tee(2)

    assert [] == texts(concurrently(left, round_robin(right, from_items([1]))))


@pytest.mark.parametrize("running_ahead", ["in_flight", "several actors"])
def test_a_stage_that_runs_ahead_of_the_messages_of_a_barrier_is_a_mistake(running_ahead: str):
    workers = stamping_workers(2)
    learners = fake_group("learner", [CountingLearner(), CountingLearner()])
    asked = (
        rounds(workers).ask(counting_learner(), CountingLearner.update, in_flight=2)
        if running_ahead == "in_flight"
        else rounds(workers).ask(learners, CountingLearner.update)
    )

    found = asked.tell(workers, StampingWorker.load, route=Route.ALL).check()

    assert [asked.node] == [mistake.stage for mistake in found]
    assert "in_flight=1" in found[0].text


def test_a_stage_that_runs_ahead_is_none_where_no_worker_of_the_barrier_is_told():
    stream = rounds(stamping_workers(2)).ask(counting_learner(), CountingLearner.update, in_flight=2)

    assert [] == texts(stream.tell(fake_actor("log", []), list.append))


def test_two_actors_of_one_name_are_a_mistake():
    one, other = fake_actor("same", []), fake_actor("same", [])

    stream = from_items([1]).tell(one, list.append).tell(other, list.append)

    assert ["two actors are named 'same': give their groups different roles."] == texts(stream)


def test_one_actor_that_is_mentioned_twice_is_none():
    one = fake_actor("same", [])

    assert [] == texts(from_items([1]).tell(one, list.append).tell(one, list.append))


def test_run_refuses_a_flow_with_a_mistake_and_starts_nothing():
    started: list[int] = []
    group = ActorGroup("worker", 2, started.append)
    shards = from_actors(group, StampingWorker.rollout)

    with pytest.raises(
        FlowMistake, match=r"from_actors\(StampingWorker.rollout x 2\) \[test_streams_check.py:\d+\]: 2"
    ):
        run(concurrently(shards.gather_sync(), shards.gather_sync()))

    assert [] == started
