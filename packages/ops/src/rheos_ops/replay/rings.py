"""Rings: arrays whose oldest elements are overwritten, by absolute id; and a queue of ids in one."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["IdQueue", "Ids", "Ring"]

Ids: TypeAlias = npt.NDArray[np.int64]


class Ring:
    """An array in which the element of absolute id i, counted from 0, lies at i % capacity.

    Args:
        capacity: how many elements it holds, at least 1.
        shape: of an element.
        dtype: of an element.

    Example:
        >>> ring = Ring(3, (), np.dtype(np.float32))
        >>> ring.put(0, np.array([0.0, 1.0, 2.0, 3.0][:3]))
        >>> ring.put(3, np.array([3.0]))
        >>> ring.values, ring.cut(1, 4)
        (array([3., 1., 2.], dtype=float32), array([1., 2., 3.], dtype=float32))
    """

    def __init__(self, capacity: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.capacity = capacity
        self.values: npt.NDArray[Any] = np.zeros((capacity, *shape), dtype)  # memory comes when it is written to

    def get(self, index: int) -> Any:
        """Return the element of one id."""
        return self.values[index % self.capacity]

    def put(self, start: int, block: npt.NDArray[Any]) -> None:
        """Write a block, not larger than the ring, as the elements from id `start` on."""
        place = start % self.capacity
        before = self.capacity - place
        if len(block) <= before:
            self.values[place : place + len(block)] = block
        else:
            self.values[place:] = block[:before]
            self.values[: len(block) - before] = block[before:]

    def cut(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return a copy of the elements with ids from `start` to below `stop`, in order; at most all of them."""
        place, count = start % self.capacity, stop - start
        before = min(count, self.capacity - place)
        return np.concatenate([self.values[place : place + before], self.values[: count - before]])


class IdQueue:
    """Ids in rising order, of which any number is drawn in a time that does not depend on how many there are.

    Args:
        capacity: how many it holds at once.

    Example:
        >>> queue = IdQueue(3)
        >>> queue.append(np.array([1, 2, 5]))
        >>> queue.drop_below(2, at_most=1)
        >>> len(queue), set(queue.draw(np.random.default_rng(0), 20).tolist())
        (2, {2, 5})
    """

    def __init__(self, capacity: int) -> None:
        self._ring = Ring(capacity, (), np.dtype(np.int64))
        self._begin = 0
        self._end = 0

    def __len__(self) -> int:
        """Return how many ids there are."""
        return self._end - self._begin

    def append(self, ids: Ids) -> None:
        """Add ids, `[N]`, each larger than any before."""
        self._ring.put(self._end, ids)
        self._end += len(ids)

    def drop_below(self, oldest: int, *, at_most: int) -> None:
        """Remove the ids below `oldest`, of which there are `at_most` so many."""
        if not at_most:
            return
        first = self._ring.cut(self._begin, min(self._begin + at_most, self._end))
        self._begin += int(first.searchsorted(oldest))

    def draw(self, generator: np.random.Generator, count: int) -> Ids:
        """Return `count` ids, each drawn uniformly from all; there must be some."""
        places = self._begin + generator.integers(len(self), size=count)
        drawn: Ids = self._ring.values.take(places % self._ring.capacity)
        return drawn
