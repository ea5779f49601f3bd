"""ObservationAdapter: batches of observations of any space as flat float32 arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rheos.errors import SpaceError
from rheos.spaces.tree import Leaf, leaves

__all__ = ["ObservationAdapter"]

_Write = Callable[[npt.NDArray[Any], npt.NDArray[np.float32]], None]
"""Encodes a leaf's batch `[B, ...]` into its columns `[B, size]`."""


class ObservationAdapter:
    """Encodes batches of observations as `[B, size]` float32, one leaf of the space after the other.

    Box: flattened, values as they are. Discrete: one-hot of the value minus `start`. MultiDiscrete: a one-hot per
    entry. MultiBinary: 0 and 1. Dict and Tuple: their leaves, in the space's own order.

    Args:
        space: the space of a single observation.

    Raises:
        SpaceError: if a leaf is none of these, which the message names, or if there is no number to observe.

    Example:
        >>> adapter = ObservationAdapter(spaces.Discrete(3, start=5))
        >>> adapter.encode(np.array([5, 7]))
        array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """

    size: int
    """How many float32 numbers an encoded observation has."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space
        self._parts: list[tuple[Leaf, slice, _Write]] = []
        start = 0
        for leaf in leaves(space, "observation"):
            size, write = _encoder_of(leaf)
            self._parts.append((leaf, slice(start, start + size), write))
            start += size
        self.size = start
        if self.size == 0:
            raise SpaceError(
                f"observation: got {space}, which has no entries. Wrap the environment to give at least one."
            )
        self._is_one_box = isinstance(space, spaces.Box)
        self._is_identity = isinstance(space, spaces.Box) and space.dtype == np.float32 and len(space.shape) == 1

    def encode(self, batch: Any, out: npt.NDArray[np.float32] | None = None) -> npt.NDArray[np.float32]:
        """Encode a batch of observations.

        Args:
            batch: `[B, ...]`; for Dict and Tuple a dict or tuple of such arrays.
            out: where to write, `[B, size]` float32. Without it a new array is made; where the batch is
                already flat float32, it is returned itself, not a copy.

        Returns:
            The encoded observations, `[B, size]` float32.
        """
        if self._is_one_box:  # nearly every environment: no slices, no calls
            if out is None and self._is_identity and batch.dtype == np.float32:
                return batch  # type: ignore[no-any-return]
            flat = np.asarray(batch).reshape(len(batch), self.size)
            if out is None:
                return flat.astype(np.float32)
            out[...] = flat
            return out
        if out is None:
            out = np.empty((len(self._parts[0][0].take(batch)), self.size), np.float32)
        for leaf, columns, write in self._parts:
            write(np.asarray(leaf.take(batch)), out[:, columns])
        return out


def _encoder_of(leaf: Leaf) -> tuple[int, _Write]:
    """Return how many columns a leaf takes, and the function that fills them."""
    space = leaf.space
    if isinstance(space, spaces.Box):
        return int(np.prod(space.shape)), _write_numbers
    if isinstance(space, spaces.MultiBinary):
        return int(np.prod(space.shape)), _write_numbers
    if isinstance(space, spaces.Discrete):
        return int(space.n), _one_hot(np.array([space.n]), np.array([space.start]))
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum()), _one_hot(space.nvec.ravel(), space.start.ravel())
    raise SpaceError(
        f"{leaf.path}: got {space}, expected Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of them: "
        f"{type(space).__name__} has no fixed number of entries. Wrap the environment so that it gives one of these."
    )


def _write_numbers(batch: npt.NDArray[Any], out: npt.NDArray[np.float32]) -> None:
    out[...] = batch.reshape(out.shape)


def _one_hot(sizes: npt.NDArray[np.integer[Any]], starts: npt.NDArray[np.integer[Any]]) -> _Write:
    """Make the function that sets one column per entry; entry i has the columns from the sum of the sizes before."""
    shifts = np.concatenate([[0], np.cumsum(sizes)[:-1]]) - starts

    def write(batch: npt.NDArray[Any], out: npt.NDArray[np.float32]) -> None:
        out[...] = 0.0
        np.put_along_axis(out, batch.reshape(len(batch), -1) + shifts, 1.0, axis=1)

    return write
