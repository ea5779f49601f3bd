"""Frames: a column of stacked images, of which every frame is kept once."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rheos_ops.replay.rings import Ids, Ring

__all__ = ["Frames", "NewFrames", "are_stacks", "new_frames"]

Images: TypeAlias = npt.NDArray[np.uint8]


def are_stacks(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Return whether rows of this shape and dtype are kept as frames: uint8 with three axes, none of them empty.

    Example:
        >>> are_stacks((4, 84, 84), np.dtype(np.uint8)), are_stacks((84, 84), np.dtype(np.uint8))
        (True, False)
    """
    return dtype == np.uint8 and len(shape) == 3 and 0 not in shape


class NewFrames(NamedTuple):
    """What `new_frames` found in the stacks of a batch."""

    stacks: Images
    """`[M, S, height, width]`: S frames in each of M rows, the newest one last."""
    is_new: npt.NDArray[np.bool_]
    """`[M, S]`: the frame is not among those of the row before."""

    @property
    def total(self) -> int:
        """How many frames are new."""
        return int(np.count_nonzero(self.is_new))


def new_frames(rows: Images) -> NewFrames:
    """Find the frames that have to be kept.

    The stack axis is the first or the last one of a row, whichever is shorter. A row goes on from the one before if
    all its frames but the newest are those of the row before but its oldest; then only the newest one is new. Else
    all are: where an episode begins, where a row is of another environment, and where images are no stacks at all.

    Args:
        rows: `[M, ...]`, such as `[M, 4, 84, 84]` or `[M, 96, 96, 3]`.

    Example:
        >>> film = np.arange(24, dtype=np.uint8).reshape(6, 2, 2)
        >>> new_frames(np.stack([film[0:2], film[1:3], film[4:6]])).is_new.tolist()
        [[True, True], [False, True], [True, True]]
    """
    axis = _stack_axis(rows.shape[1:])
    stacks = np.ascontiguousarray(np.moveaxis(rows, 1 + axis, 1))
    count, depth = stacks.shape[:2]
    frames = stacks.reshape(count, depth, -1)
    if frames.shape[2] % 8 == 0:
        frames = frames.view(np.uint64)  # eight pixels are compared at once
    is_new = np.ones((count, depth), np.bool_)
    is_new[1:, :-1] = ~(frames[1:, :-1] == frames[:-1, 1:]).all(axis=(1, 2))[:, None]
    return NewFrames(stacks, is_new)


class Frames:
    """The frames of one column, a ring by absolute frame id.

    The frames of a row have ids in one run, since those of a row that goes on from the one before do, and those of
    any other are all new: a row is known by the id of its newest frame.

    Args:
        shape: of a row.
        capacity: frames, at least as many as a row has.
    """

    def __init__(self, shape: tuple[int, ...], capacity: int) -> None:
        self._axis = _stack_axis(shape)
        self.depth = shape[self._axis]
        self.ring = Ring(capacity, shape[: self._axis] + shape[self._axis + 1 :], np.dtype(np.uint8))
        self.begin = 0
        """The id of the oldest frame that a row needs."""
        self.end = 0
        """The id that the next frame gets."""

    def add(self, found: NewFrames) -> Ids:
        """Keep the new frames, no more than there is room for; return the id of the newest frame of each row, `[M]`."""
        newest: Ids = self.end - 1 + np.cumsum(np.add.reduce(found.is_new, axis=1, dtype=np.int64))
        sources = np.flatnonzero(found.is_new)
        frames = found.stacks.reshape(-1, *found.stacks.shape[2:])
        place = self.end % self.ring.capacity
        before = min(len(sources), self.ring.capacity - place)
        # with "clip", which changes nothing here, they are written where they belong without a copy in between
        frames.take(sources[:before], axis=0, out=self.ring.values[place : place + before], mode="clip")
        frames.take(sources[before:], axis=0, out=self.ring.values[: len(sources) - before], mode="clip")
        self.end += len(sources)
        return newest

    def gather(self, newest: Ids) -> Images:
        """Return the rows whose newest frames these are, `[N, *shape]`."""
        ids = newest[:, None] + np.arange(1 - self.depth, 1)
        stacks: Images = self.ring.values.take(ids % self.ring.capacity, axis=0)
        return np.ascontiguousarray(np.moveaxis(stacks, 1, 1 + self._axis))


def _stack_axis(shape: tuple[int, ...]) -> int:
    return 0 if shape[0] <= shape[2] else 2
