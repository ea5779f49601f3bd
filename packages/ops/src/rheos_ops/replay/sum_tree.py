"""SumTree: priorities, of which one is drawn with a probability in proportion to it."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rheos.errors import ShapeError

__all__ = ["SumTree"]

Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.int64]

_BITS = 4
_FAN_OUT = 1 << _BITS
"""Children of a node: wide enough that a million leaves are two steps below the top, narrow enough to sum at once."""

_RUNNING = np.triu(np.ones((_FAN_OUT, _FAN_OUT)))

_WIDEST_TOP = 1024
"""Nodes in the highest level, which are searched by their running sum."""


class SumTree:
    """Non-negative priorities by index, and above them the sums of every sixteen, of every 256, and so on.

    The sums are made anew from what is below them, so no error of rounding grows with the number of updates. All
    methods take many indices at once, and work in a few steps of NumPy a level.

    Args:
        capacity: how many priorities there are; each is 0 at first.

    Raises:
        ValueError: if the capacity is less than 1.

    Example:
        >>> tree = SumTree(4)
        >>> tree.update(np.array([0, 2]), np.array([1.0, 3.0]))
        >>> tree.total, tree.find(np.array([0.5, 1.0, 3.9])).tolist()
        (4.0, [0, 2, 2])
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity: got {capacity}, expected at least 1.")
        self.capacity = capacity
        self._levels: list[Floats] = []  # nodes by their parent, `[parents, children]`; the leaves first
        nodes = capacity
        while not self._levels or nodes > _WIDEST_TOP:
            nodes = -(-nodes // _FAN_OUT)
            self._levels.append(np.zeros((nodes, _FAN_OUT)))
        self._leaves = self._levels[0].reshape(-1)
        self._running = np.zeros(nodes + 1)  # a zero, then the running sum of the top
        self._top = np.zeros(nodes)
        self._parents = [*(level.reshape(-1) for level in self._levels[1:]), self._top]
        self._is_running = True  # whether the running sum is that of the top
        self._last = 0  # the node of the top at which its running sum becomes the total

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._running_sum()[-1])

    def update(self, indices: Indices, priorities: Floats) -> None:
        """Set priorities; where an index is there several times, the last one counts.

        Args:
            indices: `[N]`, from 0 to below the capacity.
            priorities: `[N]`, finite, at least 0: whoever has them from elsewhere has to check that.

        Raises:
            ShapeError: if there are not as many of one as of the other.
        """
        if indices.shape != priorities.shape:
            raise ShapeError(f"priorities: got shape {priorities.shape}, expected {indices.shape}, as of the indices.")
        self._leaves[indices] = priorities  # NumPy walks a single array of indices in its order
        nodes = indices
        for level, parents in zip(self._levels, self._parents, strict=True):
            nodes = nodes >> _BITS
            parents[nodes] = np.einsum("ij->i", level.take(nodes, axis=0))
        self._is_running = False

    def get(self, indices: Indices) -> Floats:
        """Return the priorities of indices, `[N]`."""
        return self._leaves.take(indices)

    def find(self, sums: Floats) -> Indices:
        """Return for each sum the index at which the running sum of the priorities first exceeds it.

        One whose priority is 0 is never found, whatever is lost in rounding. The total must be above 0.

        Args:
            sums: `[N]`, from 0 to below `total`; a larger one finds the last priority above 0.
        """
        running = self._running_sum()
        nodes = np.minimum(running[1:].searchsorted(sums, side="right"), self._last)
        left = sums - running.take(nodes)
        starts = np.arange(0, sums.size * _FAN_OUT, _FAN_OUT)
        for level in reversed(self._levels):
            children = level.take(nodes, axis=0)
            inner = children @ _RUNNING
            # What rounding put beyond the last child belongs to the last one that is above 0.
            left = np.minimum(left, np.nextafter(inner[:, -1], 0.0))
            child = (inner <= left[:, None]).argmin(axis=1)
            at = starts + child
            left = left - (inner.reshape(-1).take(at) - children.reshape(-1).take(at))
            nodes = (nodes << _BITS) + child
        return nodes

    def _running_sum(self) -> Floats:
        if not self._is_running:
            np.add.accumulate(self._top, out=self._running[1:])
            self._last = int(self._running[1:].searchsorted(self._running[-1]))
            self._is_running = True
        return self._running
