"""Charts of a few characters: a series of numbers as a line of blocks, or as several of them on top of each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

__all__ = ["Series", "block_chart"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_FULL = len(_BLOCKS) - 1
_KEPT = 512


class Series:
    """A series of numbers that thins itself out: it always covers all of them, in fewer than 512 points.

    Example:
        >>> series = Series()
        >>> for value in range(2000):
        ...     series.append(float(value))
        >>> len(series.points), series.points[0], series.points[-1]
        (500, 1.5, 1997.5)
    """

    def __init__(self) -> None:
        self.points: list[float] = []
        self._each = 1
        self._open: list[float] = []

    def append(self, value: float) -> None:
        """Add a number; a point is the mean of as many of them as any other."""
        self._open.append(value)
        if len(self._open) < self._each:
            return
        self.points.append(sum(self._open) / self._each)
        self._open.clear()
        if len(self.points) == _KEPT:
            self.points = [(a + b) / 2 for a, b in zip(self.points[::2], self.points[1::2], strict=True)]
            self._each *= 2


def block_chart(points: Sequence[float], width: int, height: int = 1) -> list[str]:
    """Draw numbers as blocks, from the lowest at the bottom to the highest at the top.

    Args:
        points: From left to right, spread over the whole width.
        width: In characters; of more points, a column is the mean, of fewer, it lies between two.
        height: In lines.

    Returns:
        The lines, from the top, each `width` long.

    Example:
        >>> block_chart([0.0, 1.0, 2.0, 7.0], width=4)
        ['▁▂▃█']
        >>> block_chart([0.0, 1.0], width=5, height=2)
        ['  ▁▄█', '▁▅███']
    """
    columns = _resampled(points, width)
    if not columns:
        return [" " * width] * height
    low, high = min(columns), max(columns)
    levels = height * _FULL
    tops = [1 + round((value - low) / (high - low) * (levels - 1)) if high > low else 1 for value in columns]
    below = [line * _FULL for line in reversed(range(height))]
    return ["".join(_BLOCKS[min(max(top - bottom, 0), _FULL)] for top in tops) for bottom in below]


def _resampled(points: Sequence[float], width: int) -> list[float]:
    if not points or width < 2 or len(points) == width:
        return list(points[:width])
    if len(points) > width:
        edges = [round(index * len(points) / width) for index in range(width + 1)]
        return [sum(points[a:b]) / (b - a) for a, b in pairwise(edges)]
    places = [index * (len(points) - 1) / (width - 1) for index in range(width)]
    return [
        points[int(at)] + (at % 1.0) * (points[min(int(at) + 1, len(points) - 1)] - points[int(at)]) for at in places
    ]
