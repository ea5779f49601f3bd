"""Memory: a run of very many episodes holds no more than one of a few, and a consumer that stalls stops everybody."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import psutil
import pytest

from rheos import ActorGroup, Batch, BatchInfo, Flow, LearnerReport, Report, Stream, from_actors, run
from rheos.batches import Episode
from rheos.executors.inline import InlineExecutor
from rheos.executors.protocol import Executor
from rheos.executors.threads import ThreadsExecutor
from rheos.runs.totals import Totals
from rheos.streams.actors import Actor
from rheos_ops.stages import concat, report

EPISODES = 10
"""In each batch."""
ROW_EVERY = 100
"""Batches between two rows of measurements."""


class ShortEpisodes:
    """Gives batches in which many episodes end."""

    def __init__(self, index: int) -> None:
        self.name = f"worker-{index}"
        self.given = 0

    def rollout(self) -> Batch:
        self.given += 1
        episodes = tuple(Episode(float(self.given + number), 4) for number in range(EPISODES))
        columns = {"rewards": np.ones((4, EPISODES), np.float32)}
        info = BatchInfo(sources=(self.name,), env_steps=4 * EPISODES, agent_steps=4 * EPISODES, episodes=episodes)
        return Batch(columns, info, axis=1)


class Learner:
    """Learns nothing, and says so."""

    def __init__(self) -> None:
        self.updates = 0

    def update(self, batch: Batch) -> LearnerReport:
        self.updates += 1
        return LearnerReport(info=batch.info, version=self.updates, updates=1, metrics={"loss": 1.0 / self.updates})


def synchronous() -> Stream[Report]:
    source = from_actors(ActorGroup("worker", 2, ShortEpisodes), ShortEpisodes.rollout)
    return source.gather_sync().map(concat).ask(Actor("learner", Learner), Learner.update).map(report)


def asynchronous() -> Stream[Report]:
    source = from_actors(ActorGroup("worker", 4, ShortEpisodes), ShortEpisodes.rollout)
    return source.gather_async(in_flight=2).ask(Actor("learner", Learner), Learner.update, in_flight=2).map(report)


def follow(flow: Flow[Report], totals: Totals, episodes: int) -> None:
    """Do with reports what a run does, until so many episodes have ended."""
    number = 0
    while totals.episodes < episodes:
        totals.add(next(flow))
        number += 1
        if number % ROW_EVERY == 0:
            totals.take_row(float(number))
    totals.take_row(float(number))


@pytest.fixture
def allocated() -> Iterator[Callable[[], int]]:
    """How many bytes Python's objects take."""
    tracemalloc.start()

    def measured() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    yield measured
    tracemalloc.stop()


def resident() -> int:
    """Return how many bytes the process takes."""
    gc.collect()
    return int(psutil.Process().memory_info().rss)


in_two_ways = pytest.mark.parametrize(
    ("stream", "executor"),
    [(synchronous, InlineExecutor), (asynchronous, InlineExecutor), (asynchronous, ThreadsExecutor)],
    ids=["synchronous", "asynchronous", "threads"],
)


@in_two_ways
def test_what_a_flow_holds_does_not_grow_with_its_episodes(
    stream: Callable[[], Stream[Report]], executor: Callable[[], Executor], allocated: Callable[[], int]
):
    """An `Episode` takes more than 100 bytes, so 4,000 of them would show."""
    totals = Totals()
    with run(stream(), executor()) as flow:
        follow(flow, totals, 2_000)
        before = allocated()

        follow(flow, totals, 6_000)

        assert allocated() - before < 50_000


@in_two_ways
def test_a_hundred_thousand_short_episodes_take_no_more_memory_than_ten_thousand(
    stream: Callable[[], Stream[Report]], executor: Callable[[], Executor]
):
    """Case 35; if they were kept, they would take ten megabytes. What other tests left in this process moves about."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        assert process.submit(grown, stream, executor).result() < 3_000_000


def grown(stream: Callable[[], Stream[Report]], executor: Callable[[], Executor]) -> int:
    """Return by how many bytes the process grows in a hundred thousand episodes, after ten thousand."""
    totals = Totals()
    with run(stream(), executor()) as flow:
        follow(flow, totals, 10_000)
        before = resident()
        follow(flow, totals, 110_000)
        return resident() - before


class Large:
    """Gives items of a megabyte, and counts them."""

    def __init__(self, given: list[int], index: int) -> None:
        self.given, self.index = given, index

    def give(self) -> Any:
        self.given[self.index] += 1
        return np.full(2**17, self.given[self.index], np.float64)

    def pass_on(self, item: Any) -> Any:
        return item + 1.0


def test_a_consumer_that_stalls_holds_memory_constant(allocated: Callable[[], int]):
    given = [0, 0, 0]
    workers = ActorGroup("worker", 3, lambda index: Large(given, index))
    stages = ActorGroup("stage", 2, lambda index: Large(given, index))
    stream = from_actors(workers, Large.give).gather_async(in_flight=2).ask(stages, Large.pass_on, in_flight=2)
    still = threading.Event()
    with run(stream, ThreadsExecutor()) as flow:
        next(flow)
        still.wait(0.3)  # by now everybody has come to where it must stop
        count, before = sum(given), allocated()

        still.wait(0.5)

        assert count == sum(given)
        assert count <= 1 + 3 * 2 + 2 * 2
        assert allocated() - before < 2**19
        assert before < 2**20 * (1 + 3 * 2 + 2 * 2 + 2)


def test_what_has_gone_through_a_flow_is_freed_while_the_next_item_is_waited_for(allocated: Callable[[], int]):
    given = [0]
    flow = run(from_actors(ActorGroup("worker", 1, lambda i: Large(given, i)), Large.give).gather_sync())
    next(flow)
    before = allocated()

    for _ in range(20):
        next(flow)

    assert allocated() - before < 2**20
