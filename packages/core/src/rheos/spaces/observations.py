"""ObservationAdapter: batches of observations of any space as a few columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rheos.errors import ObservationOutside, SpaceError
from rheos.spaces.faults import BoxCheck, Fault, MaskCheck, RowCheck
from rheos.spaces.tree import Leaf, leaves

__all__ = ["ACTION_MASK", "Column", "ObservationAdapter"]

ACTION_MASK = "action_mask"
"""The column, and the key of a Dict space, that says which actions are allowed."""

_ROOT = "observations"
_FLOAT32 = np.dtype(np.float32)
_Write = Callable[[npt.NDArray[Any], npt.NDArray[Any]], None]
"""Encodes a leaf's batch `[B, ...]` into its place in a column."""


@dataclass(frozen=True)
class Column:
    """A column of encoded observations, without the axes in front."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    scale: float = 1.0
    """What to multiply by to get numbers of about 1; other than 1 only for bytes."""


class _Part(NamedTuple):
    """A leaf, and where it goes."""

    leaf: Leaf
    column: str
    place: slice
    """Of the last axis, where the column has several leaves."""
    write: _Write


class ObservationAdapter:
    """Encodes batches of observations as columns.

    All numbers and choices together are the flat float32 column `observations`, `[B, D]`, one leaf of the space after
    the other. Box: flattened, values as they are. Discrete: one-hot of the value minus `start`. MultiDiscrete: a
    one-hot per entry. MultiBinary: 0 and 1. Dict and Tuple: their leaves, in the space's own order.

    Every Box of bytes (uint8: an image, a memory) is a column of its own, in its own shape and still bytes, so that
    it takes no more room than it must: `observations` where it is the whole space, else `observations.<key>`.

    Where the space is a Dict with the key `action_mask` and actions are Discrete (n entries) or MultiDiscrete (as many
    as all their values together), the mask is the bool column `action_mask` and no part of `observations`.

    Args:
        space: the space of a single observation.
        actions: the space of a single action; without it, no mask is looked for.

    Raises:
        SpaceError: if a leaf is none of these, which the message names, if a mask has not an entry for every choice,
            or if there is no number to observe.

    Example:
        >>> adapter = ObservationAdapter(spaces.Discrete(3, start=5))
        >>> adapter.encode(np.array([5, 7]))
        {'observations': array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)}
        >>> camera = spaces.Box(0, 255, (84, 84, 3), np.uint8)
        >>> adapter = ObservationAdapter(spaces.Dict(camera=camera, speed=spaces.Box(-1.0, 1.0, (2,))))
        >>> {name: column.shape for name, column in adapter.columns.items()}
        {'observations': (2,), 'observations.camera': (84, 84, 3)}
    """

    def __init__(self, space: spaces.Space[Any], actions: spaces.Space[Any] | None = None) -> None:
        self.space = space
        self.columns: Mapping[str, Column]
        """What `encode` gives, by name."""
        parts, checks, size = _laid_out(space, actions)
        self._parts = parts
        self._checks = checks
        numbers = {_ROOT: Column((size,), np.dtype(np.float32))} if size else {}
        self.columns = {**numbers, **{part.column: _column_of(part) for part in parts if part.column != _ROOT}}
        if isinstance(space, spaces.Box) and space.dtype == np.uint8:
            self.columns = {_ROOT: _column_of(parts[0])}
        if not any(np.prod(column.shape) for name, column in self.columns.items() if name != ACTION_MASK):
            raise SpaceError(
                f"observation: got {space}, which has no entries. Wrap the environment to give at least one."
            )
        self._flat_size = size if isinstance(space, spaces.Box) and size else None
        self._is_vector = isinstance(space, spaces.Box) and len(space.shape) == 1
        self._is_bytes = isinstance(space, spaces.Box) and not size

    def encode(self, batch: Any, out: Mapping[str, npt.NDArray[Any]] | None = None) -> Mapping[str, npt.NDArray[Any]]:
        """Encode a batch of observations.

        Args:
            batch: `[B, ...]`; for Dict and Tuple a dict or tuple of such arrays.
            out: where to write, an array `[B, ...]` for each column. Without it new arrays are made; where the batch
                is already flat float32, or bytes, it is taken itself, not a copy.

        Returns:
            The columns, `[B, ...]`; `out` where it was given.

        Raises:
            ObservationOutside: if a Discrete or MultiDiscrete has a value that its space has not, or a mask something
                else than 0 and 1.
        """
        if self._flat_size is not None:  # a Box of numbers, as nearly every environment has: no slices, no calls
            if out is not None:
                out[_ROOT][...] = batch if self._is_vector else np.asarray(batch).reshape(len(batch), -1)
                return out
            if not (self._is_vector and getattr(batch, "dtype", None) is _FLOAT32):
                batch = np.asarray(batch).reshape(len(batch), self._flat_size).astype(np.float32, copy=False)
            return {_ROOT: batch}
        if out is None:
            if self._is_bytes:
                return {_ROOT: np.asarray(batch).reshape(len(batch), *self.columns[_ROOT].shape)}
            num = len(self._parts[0].leaf.take(batch))
            out = {name: np.empty((num, *column.shape), column.dtype) for name, column in self.columns.items()}
        for leaf, column, place, write in self._parts:
            write(np.asarray(leaf.take(batch)), out[column][:, place])
        return out

    def fault(self, columns: Mapping[str, npt.NDArray[Any]], *, bounds: bool = True) -> Fault | None:
        """Return the first row that no observation should have: not finite, outside its Box, no action allowed.

        Costs a few passes over the columns, so that it is asked once for many rows.

        Args:
            columns: encoded observations, `[N, ...]`.
            bounds: whether the bounds of Boxes count.
        """
        faults = [
            fault
            for column, place, check in self._checks
            if (fault := check.first(columns[column][:, place], bounds=bounds)) is not None
        ]
        return min(faults, key=lambda fault: fault.row, default=None)


def _laid_out(
    space: spaces.Space[Any], actions: spaces.Space[Any] | None
) -> tuple[list[_Part], list[tuple[str, slice, RowCheck]], int]:
    """Give every leaf its column and its place there; return also the checks, and the size of `observations`."""
    parts: list[_Part] = []
    checks: list[tuple[str, slice, RowCheck]] = []
    start = 0
    names: set[str] = set()
    choices = _choices(actions)
    for leaf in leaves(space, "observation"):
        if leaf.keys == (ACTION_MASK,) and choices:
            parts.append(_mask_part(leaf, sum(choices)))
            checks.append((ACTION_MASK, slice(None), MaskCheck(leaf.path, choices)))
        elif isinstance(leaf.space, spaces.Box) and leaf.space.dtype == np.uint8:
            name = _column_name(leaf, names)
            parts.append(_Part(leaf, name, slice(None), _write_numbers))
            if leaf.space.low.any() or (leaf.space.high < 255).any():
                checks.append((name, slice(None), BoxCheck(leaf.path, leaf.space)))
        else:
            size, write = _encoder_of(leaf)
            place = slice(start, start + size)
            parts.append(_Part(leaf, _ROOT, place, write))
            if isinstance(leaf.space, spaces.Box | spaces.MultiBinary):
                checks.append((_ROOT, place, BoxCheck(leaf.path, leaf.space)))
            start += size
    return parts, checks, start


def _column_name(leaf: Leaf, taken: set[str]) -> str:
    """Name the column of a leaf by its keys; keys that have dots themselves could give a name twice."""
    name = ".".join([_ROOT, *map(str, leaf.keys)])
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _column_of(part: _Part) -> Column:
    space = part.leaf.space
    if part.column == ACTION_MASK:
        return Column((int(np.prod(space.shape or ())),), np.dtype(np.bool_))
    assert isinstance(space, spaces.Box)
    return Column(space.shape or (1,), np.dtype(np.uint8), 1.0 / max(float(space.high.max(initial=0)), 1.0))


def _choices(actions: spaces.Space[Any] | None) -> tuple[int, ...]:
    """Return how many values each choice of a discrete action has."""
    if isinstance(actions, spaces.Discrete):
        return (int(actions.n),)
    return tuple(int(n) for n in actions.nvec.ravel()) if isinstance(actions, spaces.MultiDiscrete) else ()


def _mask_part(leaf: Leaf, expected: int) -> _Part:
    size = None if leaf.space.shape is None else int(np.prod(leaf.space.shape))
    if size != expected or not isinstance(leaf.space, spaces.Box | spaces.MultiBinary):
        raise SpaceError(
            f"{leaf.path}: got {leaf.space}, expected MultiBinary({expected}), or a Box of 0 and 1 with as many "
            "entries: one for each value that an action can take."
        )
    return _Part(leaf, ACTION_MASK, slice(None), _flags(leaf.path))


def _encoder_of(leaf: Leaf) -> tuple[int, _Write]:
    """Return how many numbers a leaf takes, and the function that writes them."""
    space = leaf.space
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return int(np.prod(space.shape)), _write_numbers
    if isinstance(space, spaces.Discrete):
        return int(space.n), _one_hot(leaf.path, np.array([space.n]), np.array([space.start]))
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum()), _one_hot(leaf.path, space.nvec.ravel(), space.start.ravel())
    raise SpaceError(
        f"{leaf.path}: got {space}, expected Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of them: "
        f"{type(space).__name__} has no fixed number of entries. Wrap the environment so that it gives one of these."
    )


def _write_numbers(batch: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    out[...] = batch.reshape(out.shape)


def _flags(path: str) -> _Write:
    """Make the function that writes what is 0 or 1 as bools."""

    def write(batch: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        flat = batch.reshape(out.shape)
        np.equal(flat, 1, out=out)
        if np.count_nonzero(out) != np.count_nonzero(flat):
            row, entry = (int(index) for index in np.argwhere((flat != 0) & ~out)[0])
            raise ObservationOutside(row, path, f"is {flat[row, entry]} at [{entry}], expected 0 or 1")

    return write


def _one_hot(path: str, sizes: npt.NDArray[np.integer[Any]], starts: npt.NDArray[np.integer[Any]]) -> _Write:
    """Make the function that sets one number per entry; entry i has the places from the sum of the sizes before."""
    sizes, starts = sizes.astype(np.int64), starts.astype(np.int64)
    lasts = starts + sizes - 1
    shifts = np.cumsum(sizes) - sizes - starts  # what a value has to be moved by to be a place

    def write(batch: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        values = batch.reshape(len(batch), -1)
        is_outside = (values < starts) | (values > lasts)
        if values.dtype.kind not in "iu":  # a float of a user's own; one between two integers is none of them
            is_outside |= np.floor(values) != values
        if np.count_nonzero(is_outside):
            row, entry = (int(index) for index in np.argwhere(is_outside)[0])
            where = f" at [{entry}]" if len(sizes) > 1 else ""
            limits = f"from {starts[entry]} to {lasts[entry]}"
            raise ObservationOutside(row, path, f"is {values[row, entry]}{where}, expected an integer {limits}")
        out[...] = 0.0
        np.put_along_axis(out, values.astype(np.int64) + shifts, 1.0, axis=1)

    return write
