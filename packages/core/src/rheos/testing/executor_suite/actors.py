"""The actors of the contract that do as they are told; every class and factory can be imported where they live."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import Any

import numpy as np

from rheos.reports import LearnerReport, Weights
from rheos.scheduler.flow import run
from rheos.streams.actors import Actor, ActorGroup, EndOfShard, Placement
from rheos.streams.stream import from_actors, from_items
from rheos.testing.executor_suite.gates import Diary, wait_at
from rheos.testing.executor_suite.troubles import Raising
from rheos.testing.fakes import ReplayShard, StampingWorker

__all__ = [
    "Counter",
    "Finite",
    "Keeper",
    "Nested",
    "Numbering",
    "Place",
    "Publisher",
    "Reborn",
    "Slow",
    "Tattling",
    "counters",
    "finite",
    "replay_shards",
    "stamping_workers",
]


class Reborn:
    """Knows how often its actor was made anew."""

    def __init__(self) -> None:
        self.times = 0

    def restarted(self, times: int) -> None:
        """Hear it."""
        self.times = times

    def told(self) -> int:
        """Return it."""
        return self.times


class Counter:
    """Counts how often it was asked for an item."""

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.count = 0

    def next(self) -> tuple[int, int]:
        """Return its index and the number of the item, from 1."""
        self.count += 1
        return self.index, self.count

    def requests(self) -> int:
        """Return how many items it gave."""
        return self.count

    def state_dict(self) -> dict[str, int]:
        """Return the count."""
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Take the count."""
        self.count = state["count"]


def counters(count: int, role: str = "counter") -> ActorGroup[Counter]:
    """Describe a group of counters."""
    return ActorGroup(role, count, Counter)


class Keeper:
    """Keeps what it is told, and gives back what it is asked."""

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.kept: list[Any] = []

    def keep(self, item: Any) -> None:
        """Keep an item."""
        self.kept.append(item)

    def echo(self, item: Any) -> Any:
        """Keep an item and give it back."""
        self.kept.append(item)
        return item

    def told(self) -> tuple[int, int]:
        """Return its index, and how many items it got."""
        return self.index, len(self.kept)

    def everything(self) -> list[Any]:
        """Return what it got."""
        return list(self.kept)

    def place(self, item: Any) -> tuple[int, Any]:
        """Return its index, and what it is asked."""
        return self.index, item


class Slow(Keeper):
    """Waits at a gate before it answers, whatever it is asked by these methods.

    Args:
        gate: the path of the gate.
        index: of the actor.
    """

    def __init__(self, gate: str, index: int = 0) -> None:
        super().__init__(index)
        self._gate = gate
        self.count = 0

    def next(self) -> tuple[int, int]:
        """Return its index and the number of the item, from 1, once the gate lets it."""
        wait_at(self._gate)
        self.count += 1
        return self.index, self.count

    def echo(self, item: Any) -> Any:
        """Give an item back once the gate lets it."""
        wait_at(self._gate)
        return super().echo(item)

    def echo_but_0(self, item: int) -> int:
        """Give an item back at once, but 0 once the gate lets it."""
        if item == 0:
            wait_at(self._gate)
        return item

    def echo_unevenly(self, item: int) -> int:
        """Give an item back, every third one a little later."""
        if item % 3 == 0:
            threading.Event().wait(0.002)
        return item


class Finite:
    """Gives one item more than its index says, and then no more."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.count = 0

    def next(self) -> tuple[int, int] | EndOfShard:
        """Return its index and the number of the item, from 1, or the end."""
        if self.count > self.index:
            return EndOfShard()
        self.count += 1
        return self.index, self.count


def finite(count: int) -> ActorGroup[Finite]:
    """Describe a group of shards that end one after the other."""
    return ActorGroup("finite", count, Finite)


class Publisher:
    """A learner whose weights are numbered by its updates; it counts how often it was asked for them."""

    def __init__(self) -> None:
        self.updates = 0
        self.was_asked = 0

    def update(self, item: Any) -> LearnerReport:
        """Count an update and publish weights."""
        self.updates += 1
        return LearnerReport(version=self.updates, updates=1, weights=self._weights())

    def weights(self) -> Weights:
        """Return the weights, when somebody asks."""
        self.was_asked += 1
        return self._weights()

    def times_asked(self) -> int:
        """Return how often it was asked for weights."""
        return self.was_asked

    def _weights(self) -> Weights:
        return Weights(self.updates, {"bias": np.full(3, self.updates, np.float32)})


def stamping_workers(count: int) -> ActorGroup[StampingWorker]:
    """Describe workers that stamp what they give with the version of their weights."""
    return ActorGroup("rollout", count, _stamping_worker)


def _stamping_worker(index: int) -> StampingWorker:
    return StampingWorker(f"rollout-{index}")


def replay_shards(count: int, learning_starts: int) -> ActorGroup[ReplayShard]:
    """Describe replay shards that are not ready before they hold so many batches."""
    return ActorGroup("replay", count, partial(_replay_shard, learning_starts))


def _replay_shard(learning_starts: int, index: int) -> ReplayShard:
    return ReplayShard(f"replay-{index}", learning_starts)


class Numbering:
    """A function with a memory: puts the number of calls beside each item."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, item: Any) -> tuple[Any, int]:
        """Return the item and the number of the call, from 1."""
        self.calls += 1
        return item, self.calls

    def state_dict(self) -> dict[str, int]:
        """Return the number of calls."""
        return {"calls": self.calls}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Take the number of calls."""
        self.calls = state["calls"]


class Tattling:
    """A value that writes into a diary each time it is packed to be sent elsewhere."""

    def __init__(self, diary: Diary) -> None:
        self.diary = diary

    def __reduce__(self) -> tuple[type[Tattling], tuple[Diary]]:
        """Say how it is made elsewhere, and that it was asked."""
        self.diary.write("packed")
        return Tattling, (self.diary,)


class Place:
    """Says where it lives."""

    def __init__(self, index: int = 0) -> None:
        self.made_at = self._here()

    def next(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return process and thread in which it was made, and in which it works."""
        return self.made_at, self._here()

    def ask(self, item: Any) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the same, whatever the item."""
        return self.next()

    def _here(self) -> tuple[int, int]:
        return os.getpid(), threading.get_ident()


class Nested:
    """Runs a flow of its own for every item."""

    def total(self, count: int) -> int:
        """Return the sum of what two actors of an inner flow gave in so many rounds."""
        rounds = from_actors(counters(2, "inner"), Counter.next).gather_sync()
        with run(rounds) as flow:
            return sum(number for _ in range(count) for _, number in next(flow))

    def failing(self, item: Any) -> Any:
        """Run an inner flow that fails."""
        return list(run(from_items([item]).ask(Actor("inner", Raising, Placement.DRIVER), Raising.at_3)))
