"""Items a second through Ray: flows beside a hand-written loop over the same actors, in pairs that take turns.

Run: `nox -s bench -- benchmarks/bench_ray.py -s`, on an idle machine. For each size and kind of flow, the ratio is the
median over nine pairs of the flow's items a second to the loop's: above 1 the flow is faster.

The loop is what one writes for the same purpose without Rheos: `ray.wait` for whatever is ready, one `ray.get` that
fetches all of it, five functions of each item, and a new request. It fetches what it passes on; a flow leaves columns
where they are.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pytest
import ray

from rheos import ActorGroup, Batch, BatchInfo, Flow, Stream, from_actors, run
from rheos.executors.protocol import Executor
from rheos_ray.config import RayConfig, ResourcesConfig
from rheos_ray.executor import RayExecutor

ACTORS, PAIRS = 4, 9
ITEMS = {100: 1_000, 100_000: 600, 4_000_000: 120}
"""Bytes of an item -> how many of them are a half of a pair."""
ITEMS_OF_EIGHT = 400
FREE = ResourcesConfig(num_cpus=0.0)


class Source:
    """Gives a batch of so many bytes; the whole work of an actor is to make it."""

    def __init__(self, size: int) -> None:
        self._size = size

    def give(self) -> Batch:
        return Batch({"observations": np.zeros(self._size, np.uint8)}, BatchInfo(("source-0",), env_steps=1))


def same(item: Any) -> Any:
    return item


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])  # where the processes of actors find this module
    ray.init(address="local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    yield
    ray.shutdown()


def stream_of(size: int, in_flight: int) -> Stream[Any]:
    """Return a gather with five stages behind it; `in_flight` 0 is the barrier."""
    group = ActorGroup("source", ACTORS, SourceFactory(size))
    source = from_actors(group, Source.give)
    items: Stream[Any] = source.gather_async(in_flight=in_flight) if in_flight else source.gather_sync()
    return items.map(same).map(same).map(same).map(same).map(same)


class SourceFactory:
    """Makes sources of one size."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, index: int) -> Source:
        return Source(self._size)


class FlowSide:
    """The flow, whose items are rounds where it is a barrier."""

    def __init__(self, flow: Flow[Any], in_flight: int) -> None:
        self._flow, self._per_item = flow, 1 if in_flight else ACTORS

    def take(self, count: int) -> None:
        for _ in islice(self._flow, count // self._per_item):
            pass


class HandSide:
    """The loop by hand, over actors that do the same."""

    def __init__(self, size: int, in_flight: int) -> None:
        actor: Any = ray.remote(Source)
        self._actors = [actor.options(num_cpus=0).remote(size) for _ in range(ACTORS)]
        self._in_flight = in_flight
        self._pending: dict[Any, Any] = {}
        if in_flight:
            for source in self._actors:
                for _ in range(in_flight):
                    self._pending[source.give.remote()] = source

    def take(self, count: int) -> None:
        (self._take_async if self._in_flight else self._take_sync)(count)

    def _take_sync(self, count: int) -> None:
        for _ in range(count // ACTORS):
            item = tuple(ray.get([source.give.remote() for source in self._actors]))
            same(same(same(same(same(item)))))

    def _take_async(self, count: int) -> None:
        taken = 0
        while taken < count:
            ready, _ = ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0, fetch_local=True)
            if not ready:
                ready, _ = ray.wait(list(self._pending), num_returns=1)
            for reference, item in zip(ready, ray.get(ready), strict=True):
                source = self._pending.pop(reference)
                self._pending[source.give.remote()] = source
                same(same(same(same(same(item)))))
            taken += len(ready)

    def close(self) -> None:
        for source in self._actors:
            ray.kill(source)


def pair_ratio(flow: FlowSide, hand: HandSide, count: int) -> tuple[float, float, float]:
    """Return the median ratio of items a second, and the medians of both."""
    speeds: list[tuple[float, float]] = []
    for number in range(PAIRS + 1):
        times = {}
        for side in (flow, hand) if number % 2 else (hand, flow):
            began_at = perf_counter()
            side.take(count)
            times[side] = perf_counter() - began_at
        if number:  # the first pair warms up
            speeds.append((count / times[flow], count / times[hand]))
    return median(a / b for a, b in speeds), median(a for a, _ in speeds), median(b for _, b in speeds)


@pytest.mark.parametrize("in_flight", [0, 1, 2, 4], ids=["sync", "1", "2", "4"])
@pytest.mark.parametrize("size", ITEMS)
def test_items_beside_a_loop_by_hand(benchmark: Any, size: int, in_flight: int) -> None:
    executor: Executor = RayExecutor(RayConfig(worker=FREE, learner=FREE))
    hand = HandSide(size, in_flight)
    with run(stream_of(size, in_flight), executor) as flow:
        found: list[tuple[float, float, float]] = []
        side = FlowSide(flow, in_flight)
        benchmark.pedantic(lambda: found.append(pair_ratio(side, hand, ITEMS[size])), rounds=1)
    hand.close()
    ratio, ours, by_hand = found[0]
    kind = f"async, in flight {in_flight}" if in_flight else "sync"
    benchmark.extra_info["ratio"] = round(ratio, 3)
    print(f"\n{size:>9,} B, {kind}: {ratio:.2f} ({ours:,.0f} and {by_hand:,.0f} items/s)")


@pytest.mark.parametrize("outstanding", [16, 100, 400])
def test_what_an_item_costs_the_driver(benchmark: Any, outstanding: int) -> None:
    """With eight actors; 1,000,000 divided by it is how many items a second one driver serves at most."""
    group = ActorGroup("source", 8, SourceFactory(1_000_000))
    stream = from_actors(group, Source.give).gather_async(in_flight=outstanding // 8)
    executor: Executor = RayExecutor(RayConfig(worker=FREE, learner=FREE))
    costs: list[float] = []
    with run(stream, executor) as flow:

        def take() -> None:
            began_at = process_time()
            for _ in islice(flow, ITEMS_OF_EIGHT):
                pass
            costs.append(1e6 * (process_time() - began_at) / ITEMS_OF_EIGHT)

        benchmark.pedantic(take, rounds=5, warmup_rounds=1)
    cost = median(costs[1:])
    benchmark.extra_info["us_an_item"] = round(cost)
    print(f"\n8 actors, {outstanding} outstanding: {cost:,.0f} µs of the driver an item of 1 MB")
