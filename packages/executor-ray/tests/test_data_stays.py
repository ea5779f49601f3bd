"""Columns and weights go from process to process; the driver handles references."""

from __future__ import annotations

from threading import Lock

import psutil
import pytest
from ray_actors import Learning, Rarely, Roller, Shard

import rheos_ray.messages
from rheos import Actor, ActorGroup, Placement, Published, Route, concurrently, from_actors, from_items, run
from rheos.errors import ItemLost
from rheos.testing.executor_suite.base import failure_of
from rheos_ray.messages import Part

MEGABYTE = 2**20


def apex(rollers, shards, learner):
    newest = Published(learner, Learning.weights)
    act = (
        from_actors(rollers, Roller.rollout, first=(Roller.load, lambda _: newest))
        .gather_async(in_flight=2)
        .tell(shards, Shard.add)
        .map(lambda batch: ("acted", batch.info.env_steps))
    )
    learn = (
        from_actors(shards, Shard.sample)
        .gather_async(in_flight=2)
        .ask(learner, Learning.update, in_flight=2)
        .tell(rollers, Roller.load, message=lambda _: newest, route=Route.ALL)
        .map(lambda report: ("learned", report.version))
    )
    return concurrently(act, learn)


def test_in_a_flow_as_of_ape_x_the_driver_fetches_no_column_and_does_not_grow(executor, monkeypatch):
    fetched = []
    monkeypatch.setattr(rheos_ray.messages, "fetched", fetched.append)
    rollers, shards = ActorGroup("rollout", 2, Roller), ActorGroup("replay", 2, Shard)
    learner = Actor("learner", Learning, Placement.REMOTE)
    memory = psutil.Process().memory_full_info

    with run(apex(rollers, shards, learner), executor) as flow:
        before = [flow.next(timeout_s=60.0) for _ in range(100)]
        used = memory().uss
        after = [flow.next(timeout_s=60.0) for _ in range(300)]
        grown = memory().uss - used
        seen = flow.ask(learner, Learning.versions)

    learned = [version for kind, version in [*before, *after] if kind == "learned"]
    assert [] == fetched
    assert len(learned) > 50
    assert max(seen) > 0  # weights came to who acts, and what it gave came to who learns
    # 300 items are 300 MB, and as many of weights: a driver that kept a tenth of it would show.
    assert grown < 30 * MEGABYTE


def test_weights_that_are_published_now_and_then_stay_where_they_are_from_the_second_time_on(executor):
    updates = from_items(range(9)).ask(Actor("learner", Rarely, Placement.REMOTE), Rarely.update)

    with run(updates, executor) as flow:
        published = [report.weights for report in flow if report.weights is not None]
        versions = [weights.get().version for weights in published]

    assert [3, 6, 9] == versions
    assert [Part, Part] == list(map(type, published[1:]))  # whether the first one would be large nobody knew


def test_a_message_that_cannot_travel_is_an_error_of_its_stage(executor):
    stream = from_items([7]).map(lambda _: Lock()).ask(Actor("learner", Rarely, Placement.REMOTE), Rarely.update)

    with run(stream, executor) as flow:
        error = failure_of(flow)

    assert isinstance(error, TypeError)
    assert any(note.startswith("in stage 3: ask") for note in error.__notes__)


def test_columns_that_are_read_here_are_fetched_once(executor, monkeypatch):
    fetch, fetched = rheos_ray.messages.fetched, []
    monkeypatch.setattr(rheos_ray.messages, "fetched", lambda reference: fetched.append(reference) or fetch(reference))
    stream = from_actors(ActorGroup("rollout", 1, Roller), Roller.rollout).gather_sync()

    with run(stream, executor) as flow:
        ((batch),) = flow.next(timeout_s=60.0)
        sums = [float(batch["observations"].sum()), float(batch.columns["observations"].sum())]

    assert [-(2.0**18)] * 2 == sums
    assert 1 == len(fetched)
    assert not batch["observations"].flags.writeable


def test_an_item_whose_columns_are_lost_says_so(executor, monkeypatch):
    def lost(reference):
        raise ItemLost("a part of an item is gone")

    stream = from_actors(ActorGroup("rollout", 1, Roller), Roller.rollout).gather_sync()

    with run(stream.map(lambda round_: round_[0]["observations"]), executor) as flow:
        monkeypatch.setattr(rheos_ray.messages, "fetched", lost)
        with pytest.raises(ItemLost, match="gone") as caught:
            flow.next(timeout_s=60.0)

    assert any("in stage 3: map" in note for note in caught.value.__notes__)
