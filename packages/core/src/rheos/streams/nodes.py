"""The graph of a flow: one frozen node a stage, made without effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from rheos.streams.actors import Actor, ActorGroup, Route
from rheos.streams.origins import Origin

__all__ = [
    "Ask",
    "Concurrently",
    "Drain",
    "Filter",
    "FlatMap",
    "FromActors",
    "FromItems",
    "GatherAsync",
    "GatherSync",
    "Map",
    "Node",
    "RoundRobin",
    "ShardMap",
    "Tap",
    "Tee",
    "TeeBranch",
    "Tell",
    "label_of",
    "stages",
]


def label_of(function: object) -> str:
    """Return the name that a reader knows a function, a method or a callable object by."""
    name = getattr(function, "__qualname__", None)
    if name is None:
        inner = getattr(function, "func", None)
        return label_of(inner) if inner is not None else type(function).__name__
    return str(name).rsplit("<locals>.", 1)[-1]


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """A stage: where it was written, what it takes its items from, and what its verb needs to know."""

    verb: ClassVar[str] = ""
    origin: Origin
    inputs: tuple[Node, ...] = ()

    def detail(self) -> str:
        """Return what stands between the parentheses of the label."""
        return ""

    def actors(self) -> tuple[Actor[Any], ...]:
        """Return the actors that the stage mentions."""
        return ()

    @property
    def label(self) -> str:
        """The verb with its detail, as error notes and drawings name the stage: `ask(Learner.update)`."""
        detail = self.detail()
        return f"{self.verb}({detail})" if detail else self.verb


@dataclass(frozen=True, eq=False, kw_only=True)
class FromItems(Node):
    """A finite source."""

    verb = "from_items"
    items: Iterable[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class FromActors(Node):
    """A source of shards: the replies of one method of every actor of a group."""

    verb = "from_actors"
    group: ActorGroup[Any]
    method: Callable[..., Any]
    arguments: tuple[Any, ...]
    first: tuple[Callable[..., Any], Callable[[Any], Any]] | None

    def detail(self) -> str:
        """Return the method and how many actors answer it."""
        return f"{label_of(self.method)} x {len(self.group)}"

    def actors(self) -> tuple[Actor[Any], ...]:
        """Return the group's actors."""
        return tuple(self.group)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Function(Node):
    function: Callable[[Any], Any]

    def detail(self) -> str:
        """Return the function's name."""
        return label_of(self.function)


class ShardMap(_Function):
    """A function that runs where the actor lives."""

    verb = "map at the actor"


class Map(_Function):
    """A function on the driver, one item to one item."""

    verb = "map"


class FlatMap(_Function):
    """A function on the driver, one item to any number of items."""

    verb = "flat_map"


class Filter(_Function):
    """A predicate on the driver."""

    verb = "filter"


class Tap(_Function):
    """An effect on the driver; the item goes on."""

    verb = "tap"


class GatherSync(Node):
    """A barrier over shards."""

    verb = "gather_sync"


@dataclass(frozen=True, eq=False, kw_only=True)
class GatherAsync(Node):
    """Items of shards as they are ready."""

    verb = "gather_async"
    in_flight: int

    def detail(self) -> str:
        """Return the bound of each shard."""
        return f"in_flight={self.in_flight}"


@dataclass(frozen=True, eq=False, kw_only=True)
class _Message(Node):
    group: ActorGroup[Any]
    method: Callable[..., Any]
    in_flight: int
    route: Route

    def actors(self) -> tuple[Actor[Any], ...]:
        """Return the actors that may get a message."""
        return tuple(self.group)


@dataclass(frozen=True, eq=False, kw_only=True)
class Ask(_Message):
    """A message whose reply goes on."""

    verb = "ask"
    ordered: bool

    def detail(self) -> str:
        """Return the method, and the bound where it is not 1."""
        return label_of(self.method) + (f", in_flight={self.in_flight}" if self.in_flight != 1 else "")


@dataclass(frozen=True, eq=False, kw_only=True)
class Tell(_Message):
    """A message whose item goes on."""

    verb = "tell"
    message: Callable[[Any], Any] | None

    def detail(self) -> str:
        """Return the method, and the route where it is not the usual one."""
        return label_of(self.method) + (f", {self.route.value}" if self.route is not Route.ANY else "")


@dataclass(frozen=True, eq=False, kw_only=True)
class Tee(Node):
    """One stream read by several."""

    verb = "tee"
    count: int
    max_lag: int

    def detail(self) -> str:
        """Return the number of branches and the bound."""
        return f"{self.count}, max_lag={self.max_lag}"


@dataclass(frozen=True, eq=False, kw_only=True)
class TeeBranch(Node):
    """One of the readers of a tee; the one with index 0 drives."""

    verb = "branch"
    index: int

    def detail(self) -> str:
        """Return the index."""
        return str(self.index)


class Drain(Node):
    """Works, emits nothing."""

    verb = "drain"


class Concurrently(Node):
    """Whichever child is ready."""

    verb = "concurrently"


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundRobin(Node):
    """Children in exact fractions."""

    verb = "round_robin"
    weights: tuple[Fraction, ...]

    def detail(self) -> str:
        """Return the weights."""
        return ":".join(str(weight) for weight in self.weights)


def stages(root: Node) -> tuple[Node, ...]:
    """Return every node that the root needs, each once, inputs before what reads them: stage 1 comes first."""
    order: dict[int, Node] = {}
    path: list[tuple[Node, Iterator[Node]]] = [(root, iter(root.inputs))]
    while path:
        node, rest = path[-1]
        for child in rest:
            if id(child) not in order:
                path.append((child, iter(child.inputs)))
                break
        else:
            path.pop()
            order.setdefault(id(node), node)
    return tuple(order.values())
