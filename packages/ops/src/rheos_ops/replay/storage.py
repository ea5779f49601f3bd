"""Storage: rows of experience by absolute id, images once, and the segments that a checkpoint keeps of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rheos.errors import ShapeError, TreeError
from rheos_ops.replay.frames import Frames, NewFrames, are_stacks, new_frames
from rheos_ops.replay.rings import Ids, Ring

__all__ = ["Added", "Storage"]

Rows: TypeAlias = "Mapping[str, npt.NDArray[Any]]"

_Kinds: TypeAlias = dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
"""By column: the dtype and the shape of a row."""

_SEGMENT_BYTES = 16 * 2**20
_ROWS, _FRAMES = "rows", "frames"


class Added(NamedTuple):
    """What `Storage.add` tells."""

    ids: Ids
    """Of the new rows, `[M]`."""
    ended: range
    """The ids of the rows that are gone since."""


class Storage:
    """The newest rows, as many as there is room for.

    Rows are numbered from 0 as they come. Ids, never places, are given out: the row of an id does not change, and
    an id that is gone is recognised. Columns are made when the first rows come, with their dtypes and shapes.

    Images, which are uint8 with three axes, are taken as stacks of frames; a frame that the row before has, too, is
    kept once. Room is made for as many frames a row as the first batch needed and a tenth more; where later ones
    need more, the oldest rows end before `capacity` is reached.

    Args:
        capacity: rows, at least 1.
        capacity_bytes: of all arrays together; the rows are as many as fit into both. None: no such bound.
        overhead_bytes: what the owner keeps beside each row, counted in `capacity_bytes`.

    Raises:
        ValueError: if a capacity is less than 1.

    Example:
        >>> storage = Storage(3)
        >>> storage.add({"rewards": np.array([0.0, 1.0])}).ids, storage.add({"rewards": np.array([2.0, 3.0])}).ended
        (array([0, 1]), range(0, 1))
        >>> storage.gather(np.array([3, 1]))
        {'rewards': array([3., 1.])}
    """

    def __init__(self, capacity: int, capacity_bytes: int | None = None, *, overhead_bytes: int = 0) -> None:
        for name, value in (("capacity", capacity), ("capacity_bytes", capacity_bytes)):
            if value is not None and value < 1:
                raise ValueError(f"{name}: got {value}, expected at least 1.")
        self.capacity = capacity
        """Rows; once the first ones came, those that fit into the bytes, too."""
        self._asked = (capacity, capacity_bytes)
        self._overhead_bytes = overhead_bytes
        self.oldest = 0
        """The id of the oldest row that is there."""
        self.end = 0
        """The id that the next row gets."""
        self._kinds: _Kinds = {}
        self._rings: dict[str, Ring] = {}
        self._frames: dict[str, Frames] = {}
        self._awaited: set[str] = set()  # segments that belong to the state that was loaded

    @property
    def is_allocated(self) -> bool:
        """Whether rows came, so that their columns are known."""
        return bool(self._kinds)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; none before the first rows."""
        return tuple(self._kinds)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, full or not."""
        rings = [*self._rings.values(), *(frames.ring for frames in self._frames.values())]
        return sum(ring.values.nbytes for ring in rings)

    def begin_at(self, first: int) -> None:
        """Number the rows from `first` on; before any came."""
        self.oldest = self.end = first

    def add(self, columns: Rows) -> Added:
        """Keep rows; the oldest ones end where there is no room for them.

        Args:
            columns: `[M, ...]` each, of the names, dtypes and shapes that the first ones had.

        Raises:
            ShapeError: if they are of another kind, or are more than there is room for; nothing has changed then.
        """
        self._check_loaded()
        kinds = _kinds_of(columns)
        count = self._checked_count(columns, kinds)
        if not count:
            return Added(np.arange(0), range(self.oldest, self.oldest))
        found = {name: new_frames(columns[name]) for name, (dtype, shape) in kinds.items() if are_stacks(shape, dtype)}
        capacity, frame_capacities = self._capacities(kinds, count, found)
        self._check_room(count, capacity, found, frame_capacities)
        if not self.is_allocated:
            self._allocate(kinds, capacity, frame_capacities)
        for name, ring in self._rings.items():
            frames = self._frames.get(name)
            ring.put(self.end, columns[name] if frames is None else frames.add(found[name]))
        ids = np.arange(self.end, self.end + count)
        before, self.end = self.oldest, self.end + count
        self.oldest = self._oldest_with_frames(max(before, self.end - self.capacity))
        return Added(ids, range(before, self.oldest))

    def gather(self, ids: Ids, names: Iterable[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """Return columns of rows as arrays of their own, `[N, ...]`.

        Args:
            ids: `[N]`, of rows that are there; in any order, any number of times.
            names: of columns; None: all.

        Raises:
            ValueError: if a row is not there.
        """
        self._check_loaded()
        if ids.size and not (self.oldest <= np.minimum.reduce(ids) and np.maximum.reduce(ids) < self.end):
            raise ValueError(f"ids: got {ids.min()} to {ids.max()}, expected {self.oldest} to {self.end - 1}.")
        places = ids % self.capacity
        rows = {}
        for name in self._rings if names is None else names:
            rows[name] = self._rings[name].values.take(places, axis=0)
            if name in self._frames:
                rows[name] = self._frames[name].gather(rows[name])
        return rows

    def segments(self) -> tuple[str, ...]:
        """Return the names of what `segment` gives: together, everything that is there."""
        if not self.is_allocated:
            return ()
        return tuple(name for kind in (_ROWS, *self._frame_kinds()) for name in self._names(kind))

    def segment(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Return a copy of a part of what is there, of about 16 MiB at most; what has one name is always the same.

        Args:
            name: one of `segments()`: what it holds, the first id and the one behind the last, `rows-65536-131072`.

        Raises:
            TreeError: if there is no such segment.
        """
        self._check_loaded()
        if name not in self.segments():
            raise TreeError(f"There is no segment {name!r}: name one of `segments()`.")
        kind, start, stop = _parsed(name)
        return {column: ring.cut(start, stop) for column, ring in self._rings_of(kind).items()}

    def load_segment(self, name: str, columns: Rows) -> None:
        """Take what `segment` gave, after the state; all of them must come before anything else is done.

        Raises:
            TreeError: if it does not belong to the state, or its columns are of another kind.
        """
        if name not in self._awaited:
            raise TreeError(f"segment {name!r} does not belong to the state that was loaded, or came before.")
        kind, start, stop = _parsed(name)
        rings = self._rings_of(kind)
        expected = {column: (ring.values.dtype, ring.values.shape[1:]) for column, ring in rings.items()}
        if _kinds_of(columns) != expected or any(len(column) != stop - start for column in columns.values()):
            raise TreeError(f"segment {name!r} has other columns than the state says: it is of another replay.")
        for column, ring in rings.items():
            ring.put(start, columns[column])
        self._awaited.remove(name)

    def state_dict(self) -> dict[str, Any]:
        """Return what has to be known beside the segments; small."""
        return {
            "asked": self._asked,
            "capacity": self.capacity,
            "oldest": self.oldest,
            "end": self.end,
            "columns": [(name, dtype.str, shape) for name, (dtype, shape) in self._kinds.items()],
            "frames": {name: (part.ring.capacity, part.begin, part.end) for name, part in self._frames.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave; its segments come next, by `load_segment`.

        Raises:
            TreeError: if it is the state of a storage of another capacity.
        """
        if tuple(state["asked"]) != self._asked:
            (rows, size), (own_rows, own_size) = state["asked"], self._asked
            raise TreeError(
                f"capacity: the replay that was saved has {rows} rows and capacity_bytes={size}, this one {own_rows}"
                f" and {own_size}: resume with the capacity of the run that saved it."
            )
        self._rings, self._frames = {}, {}
        kinds = {name: (np.dtype(dtype), tuple(shape)) for name, dtype, shape in state["columns"]}
        if kinds:
            capacities = {name: frames[0] for name, frames in state["frames"].items()}
            self._allocate(kinds, state["capacity"], capacities)
        for name, (_, begin, end) in state["frames"].items():
            self._frames[name].begin, self._frames[name].end = begin, end
        self._kinds, self.capacity = kinds, state["capacity"]
        self.oldest, self.end = state["oldest"], state["end"]
        self._awaited = set(self.segments())

    def _checked_count(self, columns: Rows, kinds: _Kinds) -> int:
        if self._kinds and kinds != self._kinds:
            raise ShapeError(f"replay got {_difference(kinds, self._kinds)}: the rows of a replay are all of one kind.")
        counts = {len(column) for column in columns.values()}
        if len(counts) != 1:
            raise ShapeError(f"replay got columns of {sorted(counts)} rows, expected one number for all of them.")
        return counts.pop()

    def _capacities(self, kinds: _Kinds, count: int, found: Mapping[str, NewFrames]) -> tuple[int, dict[str, int]]:
        """Return the capacities in rows and frames: those that there are, or that rows like these would have."""
        if self.is_allocated:
            return self.capacity, {name: frames.ring.capacity for name, frames in self._frames.items()}
        row_bytes = self._overhead_bytes + sum(
            8 if name in found else dtype.itemsize * prod(shape) for name, (dtype, shape) in kinds.items()
        )
        new = {name: (part.total, part.stacks.shape[1], part.stacks[0, 0].nbytes) for name, part in found.items()}

        def frames_for(rows: int) -> dict[str, int]:
            return {name: max(-(-11 * rows * part // (10 * count)), depth) for name, (part, depth, _) in new.items()}

        def bytes_for(rows: int) -> int:
            return int(rows * row_bytes + sum(frames * new[name][2] for name, frames in frames_for(rows).items()))

        capacity, capacity_bytes = self._asked
        if capacity_bytes is not None:
            capacity = bisect_right(range(1, capacity + 1), capacity_bytes, key=bytes_for)
        return capacity, frames_for(capacity)

    def _check_room(
        self, count: int, capacity: int, found: Mapping[str, NewFrames], frame_capacities: Mapping[str, int]
    ) -> None:
        what_to_do = "raise the capacity of the replay or make rollouts shorter."
        if count > capacity:
            bound = self._asked[1]
            size = f"{capacity} rows" + ("" if bound is None else f" (capacity_bytes={bound})")
            raise ShapeError(f"replay got a batch of {count} rows, which holds {size}: {what_to_do}")
        for name, room in frame_capacities.items():
            total = found[name].total
            if total > room:
                raise ShapeError(
                    f"replay got {total} frames of `{name}` at once, of which it holds {room}: {what_to_do}"
                )

    def _allocate(self, kinds: _Kinds, capacity: int, frame_capacities: Mapping[str, int]) -> None:
        self._kinds, self.capacity = kinds, capacity
        for name, (dtype, shape) in kinds.items():
            if name in frame_capacities:
                self._frames[name] = Frames(shape, frame_capacities[name])
                dtype, shape = np.dtype(np.int64), ()
            self._rings[name] = Ring(capacity, shape, dtype)

    def _oldest_with_frames(self, oldest: int) -> int:
        """Return the oldest row from `oldest` on all of whose frames are there."""
        for name, frames in self._frames.items():
            least = frames.end - frames.ring.capacity + frames.depth - 1
            oldest += bisect_left(range(oldest, self.end), least, key=self._rings[name].get)
        for name, frames in self._frames.items():
            frames.begin = int(self._rings[name].get(oldest)) - frames.depth + 1
        return oldest

    def _frame_kinds(self) -> dict[str, str]:
        """Return the kinds of segments that hold frames, and the columns whose they are."""
        return {f"{_FRAMES}{index}": name for index, name in enumerate(self._frames)}

    def _rings_of(self, kind: str) -> dict[str, Ring]:
        return self._rings if kind == _ROWS else {_FRAMES: self._frames[self._frame_kinds()[kind]].ring}

    def _names(self, kind: str) -> list[str]:
        """Return the names of the segments of a kind."""
        rings = self._rings_of(kind).values()
        if kind == _ROWS:
            begin, end = self.oldest, self.end
        else:
            frames = self._frames[self._frame_kinds()[kind]]
            begin, end = frames.begin, frames.end
        bytes_of_one = sum(ring.values[0].nbytes for ring in rings)
        size = 1 << max(_SEGMENT_BYTES // max(bytes_of_one, 1), 1).bit_length() - 1
        starts = range(begin - begin % size, end, size)
        return [f"{kind}-{max(start, begin)}-{min(start + size, end)}" for start in starts]

    def _check_loaded(self) -> None:
        if self._awaited:
            raise TreeError(f"{len(self._awaited)} segments of the replay were not loaded: {min(self._awaited)}, ...")


def _kinds_of(columns: Rows) -> _Kinds:
    return {name: (column.dtype, column.shape[1:]) for name, column in columns.items()}


def _difference(got: _Kinds, expected: _Kinds) -> str:
    """Say in words the first difference of two kinds of rows."""
    if got.keys() != expected.keys():
        return f"the columns {', '.join(sorted(got))}, expected {', '.join(sorted(expected))}"
    name = next(name for name in got if got[name] != expected[name])
    (dtype, shape), (own_dtype, own_shape) = got[name], expected[name]
    return f"`{name}` as {dtype} {list(shape)}, expected {own_dtype} {list(own_shape)}"


def _parsed(name: str) -> tuple[str, int, int]:
    kind, start, stop = name.split("-")
    return kind, int(start), int(stop)
