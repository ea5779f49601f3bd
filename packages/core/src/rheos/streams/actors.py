"""Actors as descriptions: a name and a factory. `run` starts those that its flow mentions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeVar, overload

from rheos.errors import FlowMistake

__all__ = ["Actor", "ActorGroup", "EndOfShard", "NotReady", "Placement", "Published", "Route"]

A_co = TypeVar("A_co", covariant=True)
M_co = TypeVar("M_co", covariant=True)


class Route(Enum):
    """To which actors of a group a message goes."""

    ANY = "any"
    """One of them in turn, passing over those whose window is full."""
    ALL = "all"
    """Every one (`tell` only)."""
    SOURCE = "source"
    """Every source of the item, each once; for `ask` exactly one."""


class Placement(Enum):
    """Where an actor lives. An executor that has no such place takes the nearest: `inline` has the driver only."""

    AUTO = "auto"
    """A source of items: `REMOTE`. Any other actor: `DRIVER` in a flow that does one thing after the other, whose
    driver would only wait for it, else `THREAD`, so that it does not hold up the rest."""
    DRIVER = "driver"
    """In the thread of the flow."""
    THREAD = "thread"
    """In a thread of its own in the driver's process."""
    REMOTE = "remote"
    """Where the executor puts its actors: a thread, another process, another machine."""


@dataclass(frozen=True)
class NotReady:
    """The reply of an actor that has nothing to give yet: its source is asked again once the flow has moved."""

    reason: str = ""


@dataclass(frozen=True)
class EndOfShard:
    """The reply of an actor that has no more to give: its shard ends, and the others go on."""


@dataclass(frozen=True, eq=False)
class Actor(Generic[A_co]):
    """The description of one actor: `factory()` makes its object where the actor lives.

    The factory travels to the actor, so on a distributed engine it must be importable there: a class, a
    function of a module, or a `functools.partial` of one.
    """

    name: str
    factory: Callable[[], A_co]
    placement: Placement = Placement.AUTO

    def __post_init__(self) -> None:
        """Check the placement."""
        if not isinstance(self.placement, Placement):
            raise FlowMistake(f"Actor({self.name!r}): placement={self.placement!r}, expected a Placement.")


class ActorGroup(Generic[A_co]):
    """The description of several actors of one role, named `<role>-<index>`.

    Args:
        role: the noun that the names begin with.
        count: how many, at least 1.
        factory: `factory(index)` makes the object of the actor with that index.
        placement: where they live.

    Example:
        >>> group = ActorGroup("rollout", 3, lambda index: object())
        >>> [actor.name for actor in group[:2]]
        ['rollout-0', 'rollout-1']
    """

    def __init__(
        self, role: str, count: int, factory: Callable[[int], A_co], *, placement: Placement = Placement.AUTO
    ) -> None:
        if not isinstance(count, int) or count < 1:
            raise FlowMistake(f"ActorGroup({role!r}): count={count!r}, expected a whole number of at least 1.")
        self.role = role
        self._actors = tuple(Actor(f"{role}-{index}", partial(factory, index), placement) for index in range(count))

    @classmethod
    def of(cls, role: str, actors: tuple[Actor[A_co], ...]) -> ActorGroup[A_co]:
        """Group actors that are already described."""
        if not actors:
            raise FlowMistake(f"The group {role!r} is empty: a group needs at least one actor.")
        group = cls.__new__(cls)
        group.role, group._actors = role, actors
        return group

    @overload
    def __getitem__(self, index: int) -> Actor[A_co]: ...
    @overload
    def __getitem__(self, index: slice) -> ActorGroup[A_co]: ...
    def __getitem__(self, index: int | slice) -> Actor[A_co] | ActorGroup[A_co]:
        """Return one actor, or a part of the group; the actors keep their names."""
        if isinstance(index, slice):
            return ActorGroup.of(self.role, self._actors[index])
        return self._actors[index]

    def __iter__(self) -> Iterator[Actor[A_co]]:
        """Iterate over the actors in the order of their index."""
        return iter(self._actors)

    def __len__(self) -> int:
        """Return the number of actors."""
        return len(self._actors)

    def __repr__(self) -> str:
        """Return the role and the number of actors."""
        return f"ActorGroup({self.role!r}, {len(self)})"


@dataclass(frozen=True)
class Published(Generic[M_co]):
    """A message that stands for what an actor published last; the flow fills it in when it is sent.

    An actor publishes with a `LearnerReport` that carries weights. Only if it has not published yet is it
    asked, with `method`, and once for all; so nobody waits for a busy actor (DESIGN 3.2.11). An actor whose replies
    are of another type publishes nothing: what it gave when it was asked stays the newest.
    """

    actor: Actor[Any]
    method: Callable[[Any], M_co]
