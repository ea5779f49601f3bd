"""Faults: what no observation should hold, found in many encoded rows at once and told of one."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

__all__ = ["BoxCheck", "Fault", "MaskCheck", "RowCheck"]


class Fault(NamedTuple):
    """A row of encoded observations that should not be."""

    row: int
    leaf: str
    """Its place in the observation: `observation['speed']`."""
    what: str
    """`is nan at [2], expected a finite number`."""


class RowCheck(Protocol):
    """Looks for the first row at fault."""

    def first(self, rows: npt.NDArray[Any], *, bounds: bool) -> Fault | None:
        """Return it, or None; `rows` is `[N, ...]`."""
        ...


class BoxCheck:
    """Rows of a Box: finite, also where it has no bounds, and in its bounds, which are cast as the rows are.

    Also rows of a MultiBinary, which is a Box of 0 and 1.

    Example:
        >>> BoxCheck("observation", spaces.Box(-1.0, 1.0, (2,))).first(np.array([[0.0, 1.0], [3.0, 0.0]]), bounds=True)
        Fault(row=1, leaf='observation', what='is 3.0 at [0], expected a number from -1.0 to 1.0 (env.check_bounds)')
    """

    def __init__(self, path: str, space: spaces.Box | spaces.MultiBinary) -> None:
        self._path, self._shape = path, space.shape
        is_bytes = isinstance(space, spaces.Box) and space.dtype == np.uint8
        self._is_float = not is_bytes
        low, high = (space.low, space.high) if isinstance(space, spaces.Box) else np.array([[0], [1]])
        if not is_bytes:
            with np.errstate(over="ignore"):
                low, high = low.reshape(-1).astype(np.float32), high.reshape(-1).astype(np.float32)
        self._low, self._high = low, high
        self._has_bounds = bool(np.isfinite(self._low).any() or np.isfinite(self._high).any())

    def first(self, rows: npt.NDArray[Any], *, bounds: bool) -> Fault | None:
        """Return the first row that is not finite, or outside the Box."""
        looks_at_bounds = bounds and self._has_bounds
        if looks_at_bounds:  # NaN is in no range, so this finds it, too
            is_good = (rows >= self._low) & (rows <= self._high)
            if self._is_float:
                is_good &= np.isfinite(rows)
        elif self._is_float:
            is_good = np.isfinite(rows)
        else:
            return None
        if is_good.all():
            return None
        row, *place = (int(index) for index in np.argwhere(~is_good)[0])
        got = rows[(row, *place)]
        where = self._place(place)
        if not np.isfinite(got):
            return Fault(row, self._path, f"is {got}{where}, expected a finite number")
        low, high = (np.broadcast_to(bound, rows.shape[1:])[tuple(place)] for bound in (self._low, self._high))
        return Fault(row, self._path, f"is {got}{where}, expected a number from {low} to {high} (env.check_bounds)")

    def _place(self, place: list[int]) -> str:
        if not self._shape:
            return ""
        index = place if len(place) == len(self._shape) else np.unravel_index(place[0], self._shape)
        return f" at [{', '.join(str(int(i)) for i in index)}]"


class MaskCheck:
    """Rows of an action mask: every choice has a value that is allowed.

    Example:
        >>> MaskCheck("observation['action_mask']", (2,)).first(np.array([[True, False], [False, False]]), bounds=True)
        Fault(row=1, leaf="observation['action_mask']", what='allows no action, expected at least one 1')
    """

    def __init__(self, path: str, choices: tuple[int, ...]) -> None:
        self._path = path
        self._starts = np.concatenate([[0], np.cumsum(choices)[:-1]]).astype(np.intp)

    def first(self, rows: npt.NDArray[Any], *, bounds: bool) -> Fault | None:
        """Return the first row in which a choice has nothing that is allowed."""
        allows = np.logical_or.reduceat(rows, self._starts, axis=1)
        if allows.all():
            return None
        row = int(np.argwhere(~allows)[0, 0])
        return Fault(row, self._path, "allows no action, expected at least one 1")
