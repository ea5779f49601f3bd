"""Minibatches: how the rows of a batch are cut, also between processes that learn together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rheos.arrays.namespace import Array, ArrayNamespace
    from rheos.backend import Coefficients, Loss, Networks

__all__ = ["SHARE", "Part", "WeightedLoss", "minibatch_bounds"]

SHARE = "share of the minibatch"
"""The coefficient that a `WeightedLoss` is weighted by."""


def minibatch_bounds(count: int, minibatch_size: int) -> list[slice]:
    """Cut `count` rows into minibatches as near to a size as can be, which differ by at most one row.

    Example:
        >>> minibatch_bounds(17, 8)
        [slice(0, 9, None), slice(9, 17, None)]
    """
    return _cut(slice(0, count), max(1, round(count / minibatch_size)))


@dataclass(frozen=True)
class Part:
    """Which part of every minibatch is a process' own, where `size` processes learn together; by default all of it."""

    rank: int = 0
    size: int = 1

    def of(self, minibatch: slice) -> tuple[slice, float]:
        """Return the rows of this process, and their share: the sum of all gradients, so weighted, is the whole one.

        Parts differ by at most one row. Where there are fewer rows than processes, each takes all.

        Example:
            >>> [Part(rank, size=2).of(slice(10, 15)) for rank in range(2)]
            [(slice(10, 13, None), 0.6), (slice(13, 15, None), 0.4)]
            >>> Part(1, size=2).of(slice(0, 1))
            (slice(0, 1, None), 0.5)
        """
        count = minibatch.stop - minibatch.start
        if count < self.size:
            return minibatch, 1.0 / self.size
        own = _cut(minibatch, self.size)[self.rank]
        return own, (own.stop - own.start) / count


@dataclass(frozen=True)
class WeightedLoss:
    """A loss and its metrics times the coefficient `SHARE`, so that their sums over the processes are means."""

    loss: Loss

    def __call__(
        self, xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], coefficients: Coefficients
    ) -> tuple[Array, dict[str, Array]]:
        """Return the weighted loss and its weighted metrics."""
        share = coefficients[SHARE]
        value, metrics = self.loss(xp, networks, batch, coefficients)
        return value * share, {name: metric * share for name, metric in metrics.items()}


def _cut(rows: slice, parts: int) -> list[slice]:
    """Cut rows into parts whose sizes differ by at most one, the larger ones first."""
    size, larger = divmod(rows.stop - rows.start, parts)
    starts = [rows.start + index * size + min(index, larger) for index in range(parts + 1)]
    return [slice(start, end) for start, end in pairwise(starts)]
