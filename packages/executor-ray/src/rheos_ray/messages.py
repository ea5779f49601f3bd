"""Messages: what travels between the driver and an actor, and what of it stays where it is.

The columns of batches and published weights in a reply are its second return where they are large: they stay with the
engine, and the driver holds a `Part` in their place. Where a message has parts, calls or shared values in it, the
references that they stand for become arguments of their own, which the engine brings to the receiver before the call
starts.

What is small travels as bytes, for the engine takes long over the pickling of objects.
"""

from __future__ import annotations

import copyreg
import io
import pickle  # noqa: TID251 - nothing of it comes from a file, only from another process of the same run
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import ray
from ray import cloudpickle, exceptions
from ray.actor import ActorHandle

from rheos.batches import Batch, BatchInfo
from rheos.errors import ItemLost
from rheos.executors.host import ATOMS, freeze
from rheos.executors.protocol import NOTHING, Call, Control, LocalShared, Nothing, Shared
from rheos.reports import LearnerReport
from rheos_ray.errors import first_line

__all__ = [
    "Left",
    "Outcome",
    "Part",
    "Reference",
    "Request",
    "Stored",
    "left_behind",
    "packed",
    "received",
    "reply_of",
    "request_of",
    "unpacked",
]

Reference: TypeAlias = "ray.ObjectRef[Any]"

_LEAVES = ATOMS | {Nothing, Control, np.ndarray}

_LARGE = 102_400
"""Bytes of the columns and the weights in a reply from which on they stay behind: the engine brings smaller objects to
the driver in any case."""

_pickler: Any = cloudpickle
"""Without annotations."""


class Outcome(NamedTuple):
    """What a call gave or raised."""

    value: Any
    error: Exception | None
    failed_in: str | None
    busy_s: float
    is_large: bool = False
    """Whether its value has large parts, which stayed behind or came along."""

    def to_bytes(self) -> bytes:
        """Return it for a journey, with Python's own pickler if that can, which is three times as fast as Ray's.

        Raises:
            Exception: if it cannot travel.
        """
        arrays: list[pickle.PickleBuffer] = []
        file = io.BytesIO()
        pickler = pickle.Pickler(file, 5, buffer_callback=arrays.append)
        pickler.dispatch_table = _REDUCERS
        try:
            pickler.dump(tuple(self))
        except Exception:
            arrays.clear()
            return _framed([_pickler.dumps(tuple(self), 5, arrays.append), *(array.raw() for array in arrays)])
        return _framed([file.getbuffer(), *(array.raw() for array in arrays)])

    @staticmethod
    def from_bytes(data: bytes) -> Outcome:
        """Return the outcome that `to_bytes` gave; arrays in it are read where they lie and are read-only."""
        rest, *arrays = _parts_of(data)
        outcome = Outcome._make(pickle.loads(rest, buffers=arrays))
        freeze(outcome)
        return outcome


_ALIGNMENT = 16
"""Bytes: as the data of a `bytes` object are aligned, and enough for every type of numbers."""


def _framed(parts: Sequence[bytes | memoryview]) -> bytes:
    """Join parts: their count and sizes, then each where arrays can be read."""
    header = struct.pack(f"<{len(parts) + 1}q", len(parts), *(len(part) for part in parts))
    pieces: list[bytes | memoryview] = []
    for part in (header, *parts):
        pieces += (part, bytes(-len(part) % _ALIGNMENT))
    return b"".join(pieces)


def _parts_of(data: bytes) -> list[memoryview]:
    view = memoryview(data)
    (count,) = struct.unpack_from("<q", view)
    parts, at = [], 8 * (count + 1)
    for size in struct.unpack_from(f"<{count}q", view, 8):
        at += -at % _ALIGNMENT
        parts.append(view[at : at + size])
        at += size
    return parts


def _refuse(value: object) -> Any:
    raise pickle.PicklingError(f"{type(value).__name__} is counted by Ray, whose pickler sees to that")


def _reduced(batch: Batch) -> tuple[Any, ...]:
    """Return what a batch is made of: to pickle its arrays one by one, each with what makes it, takes twice as long."""
    columns, info = batch.content, batch.info
    if isinstance(columns, Shared) or not all(map(_is_plain, columns.values())):
        return batch.__reduce__()
    arrays: Any = columns.values()
    return _batch_of, (
        tuple(columns),
        [array.dtype.str for array in arrays],
        [array.shape for array in arrays],
        [pickle.PickleBuffer(array) for array in arrays],
        tuple(getattr(info, name) for name in _INFO),
        batch.axis,
    )


def _batch_of(
    names: tuple[str, ...],
    dtypes: list[str],
    shapes: list[tuple[int, ...]],
    buffers: list[memoryview],
    info: tuple[Any, ...],
    axis: int,
) -> Batch:
    parts = zip(names, dtypes, shapes, buffers, strict=True)
    columns = {name: np.ndarray(shape, dtype, buffer) for name, dtype, shape, buffer in parts}
    return Batch(columns, BatchInfo(*info), axis)


def _is_plain(array: Any) -> bool:
    return (
        type(array) is np.ndarray
        and array.flags.c_contiguous
        and array.dtype.isbuiltin == 1
        and not array.dtype.hasobject
    )


_INFO = tuple(field.name for field in fields(BatchInfo))
_REDUCERS = copyreg.dispatch_table | {Batch: _reduced, ray.ObjectRef: _refuse, ActorHandle: _refuse}
"""How Python's own pickler takes these apart."""


class Request(NamedTuple):
    """What an actor is asked to do."""

    method: str | Control
    message: Any
    through: tuple[str, ...]


@dataclass(frozen=True)
class Left(Shared[Any]):
    """In a reply, the place of a part that stays behind: its number among those of the same reply."""

    index: int

    def get(self) -> Any:
        """Refuse: it is only a place."""
        raise AssertionError("a part that stays behind is read by its reference")


@dataclass(frozen=True, eq=False)
class Stored(Shared[Any]):
    """A value that the engine holds; it is brought to whoever reads it."""

    reference: Reference

    def get(self) -> Any:
        """Return the value; it is read where it lies, so arrays in it are read-only.

        Raises:
            ItemLost: if it is gone with the machine that held it.
        """
        return freeze(fetched(self.reference))


@dataclass(frozen=True, eq=False)
class Part(Shared[Any]):
    """A part of a reply that stayed where the actor lives."""

    reference: Reference
    """Of all parts of that reply."""
    index: int

    def get(self) -> Any:
        """Return the part, as `Stored.get` does."""
        return freeze(fetched(self.reference)[self.index])


@dataclass(frozen=True)
class _Place:
    """In a message, the place of what is an argument of its own."""

    argument: int
    index: int | None = None
    """Of a part."""
    num_references: int = 0
    """Of a reply: 1 if it came whole, 2 if its large parts stayed behind."""


def fetched(reference: Reference) -> Any:
    """Return what a reference stands for."""
    try:
        return ray.get(reference)
    except (exceptions.ObjectLostError, exceptions.RayActorError) as error:
        raise ItemLost(f"a part of an item is gone with the machine that held it: {first_line(error)}") from None


def left_behind(reply: Any, large: int = _LARGE) -> tuple[Any, list[Any]]:
    """Take columns and weights out of a reply where they are large: return it with their places, and them.

    Args:
        reply: what an actor gave.
        large: bytes of all of them from which on they stay.
    """
    parts: list[Any] = []

    def leave(part: Any) -> Any:
        if isinstance(part, Batch) and not isinstance(part.content, Left) and part.content:
            parts.append(part.columns)
            return Batch(Left(len(parts) - 1), part.info, part.axis)
        if isinstance(part, LearnerReport) and isinstance(part.weights, LocalShared):
            parts.append(part.weights.value)
            return part.with_weights(Left(len(parts) - 1))
        return NotImplemented

    rest = _mapped(reply, leave)
    arrays = (array for part in parts for array in getattr(part, "arrays", part).values())
    return (rest, parts) if sum(array.nbytes for array in arrays) >= large else (reply, [])


def reply_of(value: Any, parts: Reference) -> Any:
    """Return a reply as the driver has it: where parts stayed behind there are references to them."""

    def refer(part: Any) -> Any:
        if isinstance(part, Batch) and isinstance(part.content, Left):
            return Batch(Part(parts, part.content.index), part.info, part.axis)
        return Part(parts, part.index) if isinstance(part, Left) else NotImplemented

    return _mapped(value, refer)


def request_of(
    method: str | Control,
    message: Any,
    through: tuple[str, ...],
    references_of: Callable[[Call], Sequence[Reference] | None],
) -> tuple[bytes, list[Any]]:
    """Return a request as bytes, which are the same for all that are alike, and its arguments.

    Args:
        method: of the actor's object, or a control.
        message: what the flow sends.
        through: the installed functions that the reply passes through.
        references_of: as of `packed`.
    """
    if message is NOTHING:
        return _request(method, NOTHING, through), []
    message, arguments = packed(message, references_of)
    if isinstance(message, _Place):
        return _request(method, message, through), arguments
    return _request(method, None, through), [message, *arguments]


@lru_cache
def _request(method: str | Control, message: Nothing | _Place | None, through: tuple[str, ...]) -> bytes:
    """Return a request as bytes; a message that is None is the first argument."""
    return pickle.dumps((method, message, through), 5)


def received(request: bytes, arguments: Sequence[Any]) -> Request:
    """Return the request that `request_of` gave.

    Raises:
        Exception: the error of a call that was to be the message.
    """
    method, message, through = _asked(request)
    if message is NOTHING:
        return Request(method, NOTHING, through)
    if message is None:
        message, *arguments = arguments
    return Request(method, unpacked(message, arguments), through)


@lru_cache
def _asked(request: bytes) -> tuple[str | Control, Nothing | _Place | None, tuple[str, ...]]:
    asked: tuple[Any, Any, Any] = pickle.loads(request)
    return asked


def packed(message: Any, references_of: Callable[[Call], Sequence[Reference] | None]) -> tuple[Any, list[Reference]]:
    """Return a message with places for what is an argument of its own, and those arguments.

    Args:
        message: what the flow sends.
        references_of: the outcome of a call of this engine, and the parts of its reply unless it came whole; None of a
            call elsewhere, which has finished.
    """
    arguments: list[Reference] = []
    numbers: dict[Reference, int] = {}

    def place(reference: Reference) -> int:
        if reference not in numbers:
            numbers[reference] = len(arguments)
            arguments.append(reference)
        return numbers[reference]

    def take(part: Any) -> Any:
        if isinstance(part, Part):
            return _Place(place(part.reference), part.index)
        if isinstance(part, Stored):
            return _Place(place(part.reference))
        if isinstance(part, LocalShared):
            return packed_here(part.value)
        if isinstance(part, Batch) and part.is_deferred:
            return Batch(packed_here(part.content), part.info, part.axis)
        if isinstance(part, Call):
            references = references_of(part)
            if references is None:
                return Outcome(packed_here(part.value), part.error, None, 0.0)
            number = len(arguments)
            arguments.extend(references)
            return _Place(number, num_references=len(references))
        return NotImplemented

    def packed_here(part: Any) -> Any:
        return _mapped(part, take)

    return packed_here(message), arguments


def unpacked(message: Any, arguments: Sequence[Any]) -> Any:
    """Return a message as it was sent, where it has arrived.

    Raises:
        Exception: the error of a call that was to be the message.
    """

    def content(part: Any) -> Any:
        if isinstance(part, _Place):
            argument = arguments[part.argument]
            return argument if part.index is None else argument[part.index]
        return NotImplemented

    def give(part: Any) -> Any:
        if isinstance(part, _Place) and part.num_references:
            outcome, *parts = arguments[part.argument : part.argument + part.num_references]
            value = _value_of(Outcome.from_bytes(outcome))
            return _together(value, parts[0]) if parts else value
        if isinstance(part, _Place):
            return LocalShared(content(part))
        if isinstance(part, Outcome):
            return _mapped(_value_of(part), give)
        if isinstance(part, Batch) and isinstance(part.content, Shared | _Place):
            return Batch(_mapped(part.content, content), part.info, part.axis)
        return NotImplemented

    return _mapped(message, give)


def _value_of(outcome: Outcome) -> Any:
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def _together(value: Any, parts: Sequence[Any]) -> Any:
    def give(part: Any) -> Any:
        if isinstance(part, Batch) and isinstance(part.content, Left):
            return Batch(parts[part.content.index], part.info, part.axis)
        return LocalShared(parts[part.index]) if isinstance(part, Left) else NotImplemented

    return _mapped(value, give)


def _mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return a tree in which `change` was asked of every node; where it answers NotImplemented, its parts are asked.

    What nobody changed is the same object.
    """
    kind = type(tree)
    if kind in _LEAVES:
        return tree
    changed = change(tree)
    if changed is not NotImplemented:
        return changed
    if kind is dict:
        values = {key: _mapped(value, change) for key, value in tree.items()}
        return values if any(values[key] is not tree[key] for key in tree) else tree
    if isinstance(tree, list | tuple):
        parts = [_mapped(part, change) for part in tree]
        if all(new is old for new, old in zip(parts, tree, strict=True)):
            return tree
        return kind._make(parts) if hasattr(kind, "_make") else kind(parts)
    if isinstance(tree, Mapping) or not is_dataclass(tree):
        return tree
    here: Any = tree
    moved = {}
    for field in fields(here):
        old = getattr(here, field.name)
        new = _mapped(old, change)
        if new is not old:
            moved[field.name] = new
    return replace(here, **moved) if moved else tree
