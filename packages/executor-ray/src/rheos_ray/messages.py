"""Messages: what travels between the driver and an actor, and what of it stays where it is.

Large parts of a reply, the columns of batches and published weights, are its second return: they stay with the engine,
and the driver holds a `Part` in their place. Where a message has parts, calls or shared values in it, the references
that they stand for become arguments of their own, which the engine brings to the receiver before the call starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import ray
from ray import exceptions

from rheos.batches import Batch
from rheos.errors import ItemLost
from rheos.executors.host import ATOMS, freeze
from rheos.executors.protocol import Call, Control, LocalShared, Nothing, Shared
from rheos.reports import LearnerReport

__all__ = ["Left", "Outcome", "Part", "Reference", "Stored", "left_behind", "packed", "reply_of", "size_of", "unpacked"]

Reference: TypeAlias = "ray.ObjectRef[Any]"

_LEAVES = ATOMS | {Nothing, Control, np.ndarray}


class Outcome(NamedTuple):
    """What a call gave or raised."""

    value: Any
    error: Exception | None
    failed_in: str | None
    busy_s: float
    parts_size: int = 0
    """Bytes of its large parts, whether they stayed behind or came along."""


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
    """Of a reply: 1 if it came whole, 2 if its parts stayed behind."""


def fetched(reference: Reference) -> Any:
    """Return what a reference stands for."""
    try:
        return ray.get(reference)
    except (exceptions.ObjectLostError, exceptions.RayActorError) as error:
        raise ItemLost(f"a part of an item is gone with the machine that held it: {_first_line(error)}") from None


def left_behind(reply: Any) -> tuple[Any, list[Any]]:
    """Take the large parts out of a reply: return it with their places, and them."""
    parts: list[Any] = []

    def leave(part: Any) -> Any:
        if isinstance(part, Batch) and not isinstance(part.content, Left) and part.content:
            parts.append(part.columns)
            return Batch(Left(len(parts) - 1), part.info, part.axis)
        if isinstance(part, LearnerReport) and isinstance(part.weights, LocalShared):
            parts.append(part.weights.value)
            return part.with_weights(Left(len(parts) - 1))
        return NotImplemented

    return _mapped(reply, leave), parts


def size_of(parts: Sequence[Any]) -> int:
    """Return the bytes of the arrays in large parts."""
    arrays = (array for part in parts for array in getattr(part, "arrays", part).values())
    return sum(array.nbytes for array in arrays)


def reply_of(value: Any, parts: Reference) -> Any:
    """Return a reply as the driver has it: where parts stayed behind there are references to them."""

    def refer(part: Any) -> Any:
        if isinstance(part, Batch) and isinstance(part.content, Left):
            return Batch(Part(parts, part.content.index), part.info, part.axis)
        return Part(parts, part.index) if isinstance(part, Left) else NotImplemented

    return _mapped(value, refer)


def packed(message: Any, references_of: Callable[[Call], Sequence[Reference] | None]) -> tuple[Any, list[Reference]]:
    """Return a message with places for what is an argument of its own, and those arguments.

    Args:
        message: what the flow sends.
        references_of: the outcome of a call of this engine, and its parts if they stayed behind; None of a call
            elsewhere, which has finished.
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

    def give(part: Any) -> Any:
        if isinstance(part, _Place):
            if part.num_references:
                outcome, *parts = arguments[part.argument : part.argument + part.num_references]
                return _together(_value_of(outcome), parts[0]) if parts else _value_of(outcome)
            argument = arguments[part.argument]
            return argument if part.index is None else argument[part.index]
        if isinstance(part, Outcome):
            return _mapped(_value_of(part), give)
        if isinstance(part, Batch) and isinstance(part.content, Shared | _Place):
            return Batch(_mapped(part.content, give), part.info, part.axis)
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
        return parts[part.index] if isinstance(part, Left) else NotImplemented

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


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
