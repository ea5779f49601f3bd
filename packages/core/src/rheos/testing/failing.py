"""Actors that fail at a place that a test names, and what a test looks at when a flow recovers from that."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from rheos.errors import FlowTimeout
from rheos.scheduler.flow import Flow
from rheos.streams.actors import ActorGroup
from rheos.streams.stream import from_actors
from rheos.testing.executors import ManualExecutor

__all__ = ["FragileTeam", "FragileWorker", "item_now", "methods_waiting", "state_by_hand"]


class FragileWorker:
    """Says who it is, which incarnation of that, and with what it acts."""

    def __init__(self, index: int, incarnation: int, team: FragileTeam) -> None:
        self.index, self.incarnation, self.team = index, incarnation, team
        self.loaded: list[Any] = []
        self.told: list[Any] = []
        self.given = 0

    def load(self, weights: Any) -> None:
        """Remember what it was given first, unless it is deaf."""
        if (self.index, self.incarnation) in self.team.deaf:
            raise OSError(f"worker {self.index} is deaf")
        self.loaded.append(weights)

    def give(self) -> tuple[int, int, int]:
        """Return index, incarnation and the count of what this incarnation gave, or fail."""
        self.given += 1
        if self.given >= self.team.fails.get((self.index, self.incarnation), 10**9):
            raise ZeroDivisionError(f"worker {self.index} failed")
        return self.index, self.incarnation, self.given

    def take(self, item: Any) -> Any:
        """Remember an item and return it, unless it is poison."""
        if item == self.team.poison:
            raise ValueError(f"worker {self.index} cannot take {item}")
        self.told.append(item)
        self.team.told[item] += 1
        return item

    def close(self) -> None:
        """Write itself down."""
        self.team.closed.append((self.index, self.incarnation))


class FragileTeam:
    """Workers, and what is to go wrong with which incarnation of them.

    Args:
        count: how many workers.
        fails: (index, incarnation) -> at which item it fails.
        deaf: those that fail at their first message.
        unborn: those that cannot be made.
        poison: an item that nobody can take.
    """

    def __init__(
        self,
        count: int,
        fails: Mapping[tuple[int, int], int] | None = None,
        *,
        deaf: Collection[tuple[int, int]] = (),
        unborn: Collection[tuple[int, int]] = (),
        poison: Any = None,
    ) -> None:
        self.fails, self.deaf, self.unborn, self.poison = dict(fails or {}), deaf, unborn, poison
        self.made: Counter[int] = Counter()
        self.first: dict[int, FragileWorker] = {}
        self.newest: dict[int, FragileWorker] = {}
        self.closed: list[tuple[int, int]] = []
        self.told: Counter[Any] = Counter()
        self.workers: ActorGroup[FragileWorker] = ActorGroup("worker", count, self._make)

    def _make(self, index: int) -> FragileWorker:
        incarnation = self.made[index]
        self.made[index] += 1
        if (index, incarnation) in self.unborn:
            raise OSError(f"worker {index} was not born")
        self.newest[index] = FragileWorker(index, incarnation, self)
        self.first.setdefault(index, self.newest[index])
        return self.newest[index]

    def give(self, first: Any = None) -> Any:
        """Return the items of all of them, which get `first` as their first message."""
        return from_actors(
            self.workers, FragileWorker.give, first=None if first is None else (FragileWorker.load, first)
        )


def item_now(flow: Flow[Any]) -> Any:
    """Return an item if there is one, else None."""
    try:
        return flow.next(timeout_s=0)
    except FlowTimeout:
        return None


def methods_waiting(manual: ManualExecutor, actor: str) -> list[str]:
    """Return what was sent to an actor and has not finished."""
    return [str(getattr(call.method, "value", call.method)) for call in manual.actors[actor].waiting]


def state_by_hand(flow: Flow[Any], manual: ManualExecutor) -> Any:
    """Cut a flow; what it asks of its actors meanwhile is finished by a thread of its own."""
    is_done = threading.Event()

    def finish_all() -> None:
        while not is_done.wait(0.001):
            for actor in manual.actors.values():
                if actor.waiting:
                    actor.finish()

    thread = threading.Thread(target=finish_all)
    thread.start()
    try:
        return flow.state_dict()
    finally:
        is_done.set()
        thread.join()
