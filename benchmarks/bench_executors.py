"""Actors in threads: items a second through one driver, what an idle flow costs, and what a stalled one holds.

A round of `test_items_through_threads` is 2,000 items, so 100 ms are 20,000 items a second. The other figures are in
the column of extra info of the report: `pytest benchmarks/bench_executors.py --benchmark-json out.json`, and printed.
"""

from __future__ import annotations

import resource
import threading
import time
from itertools import islice
from typing import Any

import numpy as np
import pytest

from rheos import ActorGroup, concurrently, from_actors, run
from rheos.errors import FlowTimeout
from rheos.executors.threads import ThreadsExecutor

ITEMS = 2_000
IDLE_S = 10.0
nobody = threading.Event()
"""Is never set: who waits for it sleeps."""


class Source:
    """Gives the same small thing again and again."""

    def __init__(self, index: int) -> None:
        self.index = index

    def give(self) -> int:
        return self.index


class Large:
    """Gives two megabytes at a time."""

    def __init__(self, index: int) -> None:
        self.given = 0

    def give(self) -> Any:
        self.given += 1
        return np.zeros(2**18)


class Sleeper:
    """Never answers until it is woken."""

    wake = threading.Event()

    def __init__(self, index: int) -> None:
        pass

    def give(self) -> int:
        self.wake.wait()
        return 0


def consume(flow: Any, count: int = ITEMS) -> None:
    for _ in islice(flow, count):
        pass


@pytest.mark.parametrize("actors", [1, 4, 16, 64])
def test_items_through_threads(benchmark: Any, actors: int) -> None:
    with run(from_actors(ActorGroup("source", actors, Source), Source.give).gather_async(), ThreadsExecutor()) as flow:
        benchmark.pedantic(consume, args=(flow,), rounds=10, warmup_rounds=1)
    benchmark.extra_info["items_per_s"] = round(ITEMS / benchmark.stats.stats.median)


def test_an_idle_flow(benchmark: Any) -> None:
    """The share of a core that four actors which do not answer, and the driver that waits for them, take."""
    shares: list[float] = []

    def idle(flow: Any) -> None:
        began_s = time.process_time()
        with pytest.raises(FlowTimeout):
            flow.next(timeout_s=IDLE_S)
        shares.append((time.process_time() - began_s) / IDLE_S)

    Sleeper.wake.clear()
    with run(from_actors(ActorGroup("s", 4, Sleeper), Sleeper.give).gather_async(), ThreadsExecutor()) as flow:
        benchmark.pedantic(idle, args=(flow,), rounds=1)
        Sleeper.wake.set()
    benchmark.extra_info["share_of_a_core"] = f"{shares[0]:.3%}"
    print(f"\nan idle flow takes {shares[0]:.3%} of a core over {IDLE_S:g} s")


def test_a_stalled_consumer(benchmark: Any) -> None:
    """How much memory grows, in MB, while nobody asks for two seconds, after the bounds were reached."""
    grown: list[float] = []

    def stall() -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        nobody.wait(2.0)
        grown.append((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)

    stream = from_actors(ActorGroup("large", 4, Large), Large.give).gather_async(in_flight=2)
    with run(stream, ThreadsExecutor()) as flow:
        consume(flow, 50)
        nobody.wait(0.5)  # what is outstanding finishes
        benchmark.pedantic(stall, rounds=1)
    benchmark.extra_info["grown_mb"] = round(grown[0], 2)
    print(f"\na stalled consumer: memory grew by {grown[0]:.2f} MB in 2 s")


def test_a_fast_branch_beside_a_slow_one(benchmark: Any) -> None:
    """Items of a branch that never waits, beside one that answers every 10 ms: neither starves the other."""
    counts = {"fast": 0, "slow": 0}

    class Slow(Source):
        def give(self) -> int:
            nobody.wait(0.01)
            return -1

    fast = from_actors(ActorGroup("fast", 1, Source), Source.give).gather_async()
    slow = from_actors(ActorGroup("slow", 1, Slow), Slow.give).gather_async()

    def for_two_seconds(flow: Any) -> None:
        until = time.perf_counter() + 2.0
        while time.perf_counter() < until:
            counts["slow" if next(flow) < 0 else "fast"] += 1

    with run(concurrently(fast, slow), ThreadsExecutor()) as flow:
        benchmark.pedantic(for_two_seconds, args=(flow,), rounds=1)
    benchmark.extra_info.update(counts)
    print(f"\nin 2 s: {counts['fast']:,} items of the fast branch, {counts['slow']} of the slow one (at most 200)")
