"""Normalization: running mean and deviation of what was seen, and what a Normalizer network learns from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.errors import ShapeError

__all__ = ["NormalizerSpec", "RunningMoments"]


@dataclass(frozen=True)
class NormalizerSpec:
    """Which column a `Normalizer` network learns its mean and deviation from."""

    column: str
    """Of a batch; its rows are flattened to the size of the network."""
    is_centered: bool = True
    """Whether the mean is subtracted, too; else numbers are only divided by their deviation about it."""


class RunningMoments:
    """Mean and variance of all rows seen so far, in float64, whatever the parts in which they came.

    Args:
        shape: of a row.

    Example:
        >>> moments = RunningMoments((1,))
        >>> moments.update(np.array([[1.0], [3.0]]))
        >>> moments.update(np.array([[5.0]]))
        >>> moments.count, float(moments.mean[0]), round(float(moments.variance[0]), 3)
        (3, 3.0, 2.667)

    Source:
        Chan, Golub & LeVeque 1983, doi:10.1080/00031305.1983.10483115, equations 2.1.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count = 0
        self.mean: npt.NDArray[np.float64] = np.zeros(shape)
        self._squares: npt.NDArray[np.float64] = np.zeros(shape)

    @property
    def variance(self) -> npt.NDArray[np.float64]:
        """The variance of the population (divided by n); 0 before anything was seen."""
        return self._squares / max(self.count, 1)

    @property
    def std(self) -> npt.NDArray[np.float64]:
        """The root of the variance."""
        return np.sqrt(self.variance)

    def update(self, rows: npt.NDArray[Any]) -> None:
        """Take more rows, `[N, *shape]`; none at all change nothing.

        Raises:
            ShapeError: if a row has another shape.
        """
        if rows.shape[1:] != self.mean.shape:
            raise ShapeError(f"`rows` has shape {rows.shape}, expected (N, {', '.join(map(str, self.mean.shape))}).")
        if not len(rows):
            return
        part = RunningMoments(self.mean.shape)
        part.count = len(rows)
        part.mean = rows.mean(axis=0, dtype=np.float64)
        part._squares = np.square(rows - part.mean).sum(axis=0)
        self.merge(part)

    def merge(self, other: RunningMoments) -> None:
        """Take what others have seen, as if their rows had been given here."""
        count = self.count + other.count
        if not other.count:
            return
        shift = other.mean - self.mean
        self.mean = self.mean + shift * (other.count / count)
        self._squares = self._squares + other._squares + np.square(shift) * (self.count * other.count / count)
        self.count = count

    def state_dict(self) -> dict[str, Any]:
        """Return count, mean and sum of squared deviations."""
        return {"count": self.count, "mean": self.mean.copy(), "squares": self._squares.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.count = int(state["count"])
        self.mean = np.array(state["mean"], np.float64)
        self._squares = np.array(state["squares"], np.float64)
