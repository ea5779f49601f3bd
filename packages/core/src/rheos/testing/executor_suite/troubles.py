"""The actors of the contract that raise, die, spoil what they get, or write down that they were closed."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rheos.batches import Batch
from rheos.reports import Weights
from rheos.streams.actors import ActorGroup
from rheos.testing.executor_suite.gates import Diary, wait_at

__all__ = [
    "Door",
    "FailingDoor",
    "Given",
    "Mortal",
    "Raising",
    "Spoiling",
    "explode",
    "failing_factory",
    "mortals",
    "spoil",
]


class Raising:
    """Raises what a method is named after."""

    def at_3(self, item: int) -> int:
        """Raise at the item 3, and give any other back."""
        return explode(item) if item == 3 else item

    def stop_iteration(self, item: Any) -> Any:
        """Raise what Python reads as an end."""
        raise StopIteration(item)

    def system_exit(self, item: Any) -> Any:
        """Raise what would end the program."""
        raise SystemExit(item)


def explode(item: Any) -> Any:
    """Raise."""
    raise ZeroDivisionError(f"at {item}")


def failing_factory() -> Raising:
    """Raise, instead of making an actor."""
    raise LookupError("no such file")


class Given(NamedTuple):
    """What a mortal gives."""

    shard: int
    life: int
    """How often it had been made, from 1."""
    number: int
    """Of the item in this life, from 1."""
    version: int
    """Of the weights that it has, -1 before any."""


class Mortal:
    """Fails at its third item, in as many lives as it is said; a life is one start of the actor.

    Args:
        diary: where its lives are counted.
        failing: the index of the one that fails.
        lives: how many of its lives end so.
        is_killed: whether it takes its process with it, instead of raising.
        index: of the actor.
    """

    def __init__(self, diary: Diary, failing: int, lives: int, is_killed: bool, index: int) -> None:
        diary.write(f"{index}")
        self.index = index
        self.life = diary.lines().count(f"{index}")
        self._is_killed = is_killed
        self._fails = index == failing and self.life <= lives
        self._count = 0
        self._version = -1

    def next(self) -> Given:
        """Return the next item, or fail."""
        self._count += 1
        if self._fails and self._count == 3:
            if self._is_killed:
                os._exit(1)
            raise ConnectionError(f"life {self.life}")
        return Given(self.index, self.life, self._count, self._version)

    def load(self, weights: Weights) -> None:
        """Take weights."""
        self._version = weights.version

    def process(self) -> int:
        """Return the id of the process in which it lives."""
        return os.getpid()


def mortals(diary: Diary, count: int, *, lives: int = 1, is_killed: bool = False) -> ActorGroup[Mortal]:
    """Describe a group of which number 1 fails at its third item, in its first lives."""
    return ActorGroup("mortal", count, partial(Mortal, diary, 1, lives, is_killed))


class Spoiling:
    """Writes into what it is given."""

    def give(self) -> Any:
        """Return arrays inside of other things."""
        return {"arrays": (np.zeros(3), [np.zeros(3)]), "batch": Batch({"rewards": np.zeros(3)})}

    def spoil(self, item: Any) -> Any:
        """Write into an item."""
        return spoil(item)

    def load(self, weights: Weights) -> None:
        """Write into weights."""
        spoil(weights.arrays["bias"])


def spoil(item: Any) -> Any:
    """Write into the first array that is found in an item."""
    if isinstance(item, dict):
        return spoil(item["arrays"])
    if isinstance(item, tuple):
        return spoil(item[-1])
    if isinstance(item, list):
        return spoil(item[0])
    item[0] = 99.0
    return item


class Door:
    """Writes into a diary when it is closed."""

    def __init__(self, diary: Diary, name: str, gate: str = "", is_jammed: bool = False) -> None:
        self._diary, self._name, self._gate, self._is_jammed = diary, name, gate, is_jammed

    def echo(self, item: Any) -> Any:
        """Give an item back, once the gate lets it where there is one."""
        if self._gate:
            wait_at(self._gate)
        return item

    def close(self) -> None:
        """Write it down; a jammed one raises."""
        self._diary.write(f"{self._name} closed")
        if self._is_jammed:
            raise OSError(f"{self._name} is jammed")


class FailingDoor:
    """Writes down when it is made and closed, and fails at its second item, in its first life.

    Args:
        diary: where it writes.
        index: of the actor.
    """

    def __init__(self, diary: Diary, index: int) -> None:
        self._diary = diary
        self._is_first = not diary.lines()
        self._count = 0
        diary.write("made")

    def next(self) -> int:
        """Return the number of the item, or fail."""
        self._count += 1
        return explode(self._count) if self._is_first and self._count == 2 else self._count

    def close(self) -> None:
        """Write it down."""
        self._diary.write("closed")
