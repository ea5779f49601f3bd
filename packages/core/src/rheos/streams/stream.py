"""Stream and ShardedStream: the closed vocabulary in which flows are written. Nothing here has an effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, overload

from rheos.errors import FlowMistake
from rheos.streams import nodes
from rheos.streams.actors import Actor, ActorGroup, EndOfShard, NotReady, Published, Route
from rheos.streams.origins import caller

if TYPE_CHECKING:
    from rheos.executors.protocol import Shared
    from rheos.streams.check import Mistake

__all__ = ["ShardedStream", "Stream", "concurrently", "from_actors", "from_items", "round_robin"]

__tracebackhide__ = True

A = TypeVar("A")
M = TypeVar("M")
R = TypeVar("R")
U = TypeVar("U")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Stream(Generic[T_co]):
    """A stream of items, as a value: what `run` would do, not something that is happening.

    Every method gives a new stream, which takes over this one; to read a stream twice, `tee` it.
    """

    def __init__(self, node: nodes.Node) -> None:
        self.node = node

    # values

    def map(self, function: Callable[[T_co], U]) -> Stream[U]:
        """Apply a function to every item, on the driver."""
        return Stream(nodes.Map(origin=caller(), inputs=(self.node,), function=_callable("map", function)))

    def flat_map(self, function: Callable[[T_co], Iterable[U]]) -> Stream[U]:
        """Apply a function that gives any number of items for each, on the driver.

        A function object with a method `finish() -> Iterable[U]` is asked once more at the end of the stream.
        """
        return Stream(nodes.FlatMap(origin=caller(), inputs=(self.node,), function=_callable("flat_map", function)))

    def filter(self, predicate: Callable[[T_co], bool]) -> Stream[T_co]:
        """Let only those items go on for which the predicate is true."""
        return Stream(nodes.Filter(origin=caller(), inputs=(self.node,), function=_callable("filter", predicate)))

    def tap(self, function: Callable[[T_co], object]) -> Stream[T_co]:
        """Run a function on every item for its effect, on the driver, and pass the item on."""
        return Stream(nodes.Tap(origin=caller(), inputs=(self.node,), function=_callable("tap", function)))

    # messages

    def ask(
        self,
        actors: Actor[A] | ActorGroup[A],
        method: Callable[[A, T_co], R],
        *,
        in_flight: int = 1,
        route: Route = Route.ANY,
        ordered: bool = True,
    ) -> Stream[R]:
        """Send every item to an actor; the reply goes on in its place.

        Args:
            actors: one actor or a group.
            method: of the actor's class or Protocol; takes the item.
            in_flight: how many items an actor may have, from being sent until its reply is taken, at least 1.
            route: `Route.ANY` or `Route.SOURCE`.
            ordered: keep the order of the items; else the order in which the replies come.
        """
        if route is Route.ALL:
            raise FlowMistake(f"[{caller()}] ask(route=Route.ALL) would have several replies an item: use tell.")
        return Stream(
            nodes.Ask(
                origin=caller(),
                inputs=(self.node,),
                group=_group(actors),
                method=_method("ask", method),
                in_flight=_at_least_one("ask", "in_flight", in_flight),
                route=route,
                ordered=ordered,
            )
        )

    @overload
    def tell(
        self,
        actors: Actor[A] | ActorGroup[A],
        method: Callable[[A, T_co], object],
        *,
        in_flight: int = 8,
        route: Route = Route.ANY,
    ) -> Stream[T_co]: ...
    @overload
    def tell(
        self,
        actors: Actor[A] | ActorGroup[A],
        method: Callable[[A, M], object],
        *,
        message: Callable[[T_co], M | Shared[M] | Published[M] | None],
        in_flight: int = 8,
        route: Route = Route.ANY,
    ) -> Stream[T_co]: ...
    def tell(
        self,
        actors: Actor[Any] | ActorGroup[Any],
        method: Callable[[Any, Any], object],
        *,
        message: Callable[[T_co], Any] | None = None,
        in_flight: int = 8,
        route: Route = Route.ANY,
    ) -> Stream[T_co]:
        """Send a message for every item, and pass the item on at once.

        Args:
            actors: one actor or a group.
            method: of the actor's class or Protocol; takes the message.
            message: makes the message of the item: a value, a `Shared` or a `Published`; None sends nothing.
                Without it the item is the message.
            in_flight: how many messages an actor may have unacknowledged before the stage waits, at least 1.
            route: who gets it.
        """
        return Stream(
            nodes.Tell(
                origin=caller(),
                inputs=(self.node,),
                group=_group(actors),
                method=_method("tell", method),
                message=None if message is None else _callable("tell(message=...)", message),
                in_flight=_at_least_one("tell", "in_flight", in_flight),
                route=route,
            )
        )

    # shape

    def tee(self, count: int, *, max_lag: int = 8) -> tuple[Stream[T_co], ...]:
        """Read the stream by several branches, each of which sees every item.

        The first branch drives: it takes the next item only while no other branch holds more than `max_lag`
        unread ones.
        """
        origin = caller()
        tee = nodes.Tee(
            origin=origin,
            inputs=(self.node,),
            count=_at_least_one("tee", "count", count),
            max_lag=_at_least("tee", "max_lag", max_lag, 0),
        )
        return tuple(Stream(nodes.TeeBranch(origin=origin, inputs=(tee,), index=index)) for index in range(count))

    def drain(self) -> Stream[Never]:
        """Do the work and emit nothing; the stream merges with any other."""
        return Stream(nodes.Drain(origin=caller(), inputs=(self.node,)))

    def through(self, function: Callable[[Stream[T_co]], Stream[U]]) -> Stream[U]:
        """Return `function(self)`: a named part of a flow."""
        return function(self)

    # looking at it

    def check(self) -> tuple[Mistake, ...]:
        """Return the mistakes that can be seen without running it; `run` refuses a flow that has one."""
        from rheos.streams.check import mistakes

        return mistakes(self.node)

    def explain(self) -> str:
        """Return the flow as text, a line a stage, with the place where each was written."""
        from rheos.streams.drawings import explain

        return explain(self.node)

    def to_mermaid(self) -> str:
        """Return the flow as a Mermaid flowchart."""
        from rheos.streams.drawings import to_mermaid

        return to_mermaid(self.node)


class ShardedStream(Generic[T_co]):
    """A stream of which each actor of a group holds a part; nothing has been sent to the driver yet."""

    def __init__(self, node: nodes.FromActors | nodes.ShardMap) -> None:
        self.node = node

    def map(self, function: Callable[[T_co], U]) -> ShardedStream[U]:
        """Apply a function to every item where its actor lives; each actor has its own deep copy of it."""
        return ShardedStream(nodes.ShardMap(origin=caller(), inputs=(self.node,), function=_callable("map", function)))

    def gather_sync(self) -> Stream[tuple[T_co, ...]]:
        """Join the shards by a barrier: one tuple a round, in the order of the shards.

        The requests of a round are sent only when the consumer comes back for it, behind every message that
        was sent while the round before was processed.
        """
        return Stream(nodes.GatherSync(origin=caller(), inputs=(self.node,)))

    def gather_async(self, in_flight: int = 1) -> Stream[T_co]:
        """Give items as they are ready, with at most `in_flight` outstanding a shard."""
        bound = _at_least_one("gather_async", "in_flight", in_flight)
        return Stream(nodes.GatherAsync(origin=caller(), inputs=(self.node,), in_flight=bound))


First = tuple[Callable[[A, M], object], Callable[[Any], "M | Shared[M] | Published[M] | None"]]


@overload
def from_actors(
    group: ActorGroup[A], method: Callable[[A], T | NotReady | EndOfShard], *, first: First[A, Any] | None = None
) -> ShardedStream[T]: ...
@overload
def from_actors(
    group: ActorGroup[A],
    method: Callable[[A, M], T | NotReady | EndOfShard],
    argument: M,
    /,
    *,
    first: First[A, Any] | None = None,
) -> ShardedStream[T]: ...
def from_actors(
    group: ActorGroup[Any],
    method: Callable[..., Any],
    *arguments: Any,
    first: First[Any, Any] | None = None,
) -> ShardedStream[Any]:
    """Make a source of the replies of every actor of a group.

    Args:
        group: the actors; the item of shard i is a reply of actor i.
        method: of the actor's class or Protocol. Where it gives `NotReady` it is asked again later,
            and never after `EndOfShard`.
        arguments: nothing, or the one argument of every request.
        first: `(method, message)`: sent to each actor before its first request; `message` is called with None.
    """
    if len(arguments) > 1:
        raise FlowMistake(f"[{caller()}] from_actors: {len(arguments)} arguments for {method}: a message takes one.")
    return ShardedStream(
        nodes.FromActors(
            origin=caller(),
            group=_group(group),
            method=_method("from_actors", method),
            arguments=arguments,
            first=None if first is None else (_method("first", first[0]), _callable("first", first[1])),
        )
    )


def from_items(items: Iterable[T]) -> Stream[T]:
    """Make a finite source; for tests and offline data.

    Every run iterates over `items` anew, and a restored one skips what was given: so it must be a list, or another
    iterable that can be gone through again. Arrays in it become read-only.

    Raises:
        FlowMistake: for an iterator, or what is not iterable at all.
    """
    if not hasattr(items, "__iter__") or isinstance(items, Iterator):
        raise FlowMistake(
            f"[{caller()}] from_items: got {items!r}, expected what every run can go through: make it a list."
        )
    return Stream(nodes.FromItems(origin=caller(), items=items))


def concurrently(*streams: Stream[T]) -> Stream[T]:
    """Merge streams: whichever is ready, fairly; ends when all have ended."""
    _streams("concurrently", streams)
    return Stream(nodes.Concurrently(origin=caller(), inputs=tuple(stream.node for stream in streams)))


def round_robin(*streams: Stream[T], weights: tuple[float | Fraction, ...] | None = None) -> Stream[T]:
    """Merge streams in exact fractions, no randomness; ends when any of them ends.

    Args:
        streams: the children, which take their turns in this order.
        weights: how many items of each a cycle takes, all 1 by default. Fractions are exact (0.1 is 1/10) and
            what remains of one is carried to the next cycle.
    """
    _streams("round_robin", streams)
    given = (1,) * len(streams) if weights is None else weights
    if len(given) != len(streams) or not all(map(_is_positive, given)):
        raise FlowMistake(
            f"[{caller()}] round_robin: weights {given} for {len(streams)} streams: give each a finite number above 0."
        )
    exact = tuple(Fraction(str(weight)) if isinstance(weight, float) else Fraction(weight) for weight in given)
    return Stream(nodes.RoundRobin(origin=caller(), inputs=tuple(stream.node for stream in streams), weights=exact))


def _is_positive(weight: object) -> bool:
    return isinstance(weight, int | float | Fraction) and 0 < weight < inf


def _group(actors: Actor[A] | ActorGroup[A]) -> ActorGroup[A]:
    if isinstance(actors, Actor):
        return ActorGroup.of(actors.name, (actors,))
    if isinstance(actors, ActorGroup):
        return actors
    raise FlowMistake(f"[{caller()}] got {actors!r}, expected an Actor or an ActorGroup.")


def _method(verb: str, method: Callable[..., Any]) -> Callable[..., Any]:
    if not getattr(method, "__name__", "<lambda>").isidentifier():
        raise FlowMistake(
            f"[{caller()}] {verb}: got {method!r}, expected a method of the actor's class or Protocol,"
            " such as Learner.update: it is called by its name where the actor lives."
        )
    return method


def _callable(verb: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if not callable(function):
        raise FlowMistake(f"[{caller()}] {verb}: got {function!r}, expected a function of one item.")
    return function


def _at_least(verb: str, name: str, number: int, least: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise FlowMistake(f"[{caller()}] {verb}: {name}={number!r}, expected a whole number of at least {least}.")
    return number


def _at_least_one(verb: str, name: str, number: int) -> int:
    return _at_least(verb, name, number, 1)


def _streams(verb: str, streams: tuple[Stream[Any], ...]) -> None:
    if not streams:
        raise FlowMistake(f"[{caller()}] {verb}() of no streams: give at least one.")
    for stream in streams:
        if not isinstance(stream, Stream):
            raise FlowMistake(f"[{caller()}] {verb}: got {stream!r}, expected streams; gather a ShardedStream first.")
