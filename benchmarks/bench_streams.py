"""The cost of a stage on the executor `inline`, with statistics on: one map, and five stages behind a gather.

A round is 10,000 items, so 10 ms are 1 µs an item. What a stage costs is the difference between two rows: `one_map`
less `no_map`, `gathered_and_five_maps` less `gathered`. `gathered` is what a message to an actor and its reply cost.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from rheos import ActorGroup, Flow, Stream, from_actors, from_items, run

ITEMS = 10_000


class Source:
    """Gives the same small thing again and again."""

    def give(self) -> int:
        return 1


def same(item: Any) -> Any:
    return item


def one_map() -> Stream[Any]:
    return from_items(range(10**9)).map(same)


def no_map() -> Stream[Any]:
    return from_items(range(10**9))


def gathered() -> Stream[Any]:
    return from_actors(ActorGroup("source", 4, lambda _: Source()), Source.give).gather_async()


def gathered_and_five_maps() -> Stream[Any]:
    return gathered().map(same).map(same).map(same).map(same).map(same)


def gathered_and_five_words() -> Stream[Any]:
    return gathered().map(same).filter(bool).tap(same).flat_map(lambda item: (item,)).map(same)


def consume(flow: Flow[Any]) -> None:
    for _ in islice(flow, ITEMS):
        pass


def ten_thousand_shards() -> Stream[Any]:
    shards = from_actors(ActorGroup("source", 10_000, lambda _: Source()), Source.give)
    return shards.map(same).gather_async().map(same)


def test_ten_thousand_shards_are_built(benchmark: Any) -> None:
    benchmark(lambda: ten_thousand_shards().check())


@pytest.mark.parametrize("build", [no_map, one_map, gathered, gathered_and_five_maps, gathered_and_five_words])
def test_items_through_a_flow(benchmark: Any, build: Callable[[], Stream[Any]]) -> None:
    with run(build()) as flow:
        benchmark.pedantic(consume, args=(flow,), rounds=20, warmup_rounds=2)
