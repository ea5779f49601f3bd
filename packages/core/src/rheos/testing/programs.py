"""Programs as words and numbers, for property tests of the scheduler: what they are made of, and how they are built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from rheos.errors import FlowStalled
from rheos.scheduler.flow import Flow
from rheos.streams.actors import Actor, ActorGroup, NotReady, Published, Route
from rheos.streams.stream import Stream, concurrently, from_actors, from_items, round_robin
from rheos.testing.fakes import CountingLearner, StampingWorker, fake_actor, fake_group, spied

__all__ = ["Built", "Memory", "Program", "Recorder", "build", "take"]

Program = tuple[Any, ...]
"""A program as words and numbers, so that a test that fails shows it."""


class Recorder:
    """Counts and remembers what it was sent; every reply says how many came before."""

    def __init__(self, name: str, ready_after: int = 0) -> None:
        self.name = name
        self.ready_after = ready_after
        self.count = 0
        self.log: list[Any] = []

    def give(self) -> Any:
        """Return the next item of this shard, or that it is not ready."""
        self.count += 1
        if self.count <= self.ready_after or (self.ready_after and self.count % 4 == 0):
            return NotReady()
        return self.name, self.count

    def echo(self, item: Any) -> Any:
        """Remember an item, and return it."""
        self.log.append(item)
        return item

    def reply(self, item: Any) -> Any:
        """Remember an item, and return it with the count of all so far."""
        self.log.append(item)
        return item, len(self.log)

    def state_dict(self) -> dict[str, Any]:
        """Return what it remembers."""
        return {"count": self.count, "log": list(self.log)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.count, self.log = state["count"], list(state["log"])


class Memory:
    """A function with a memory, in a program or at an actor: numbers what passes."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, item: Any) -> Any:
        """Return an item and its number."""
        self.count += 1
        return item, self.count

    def state_dict(self) -> dict[str, Any]:
        """Return what it remembers."""
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.count = state["count"]


class _Pairs(Memory):
    """Collects two items into one, gives three for every fifth, and gives what is left at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Any] = []

    def __call__(self, item: Any) -> list[Any]:
        self.count += 1
        self.parts.append(item)
        if self.count % 5 == 0:
            return [item, item, *self.finish()]
        return self.finish() if len(self.parts) >= 2 else []

    def finish(self) -> list[Any]:
        parts, self.parts = self.parts, []
        return [tuple(parts)] if parts else []

    def state_dict(self) -> dict[str, Any]:
        """Return what it remembers."""
        return {"count": self.count, "parts": list(self.parts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.count, self.parts = state["count"], list(state["parts"])


class _EverySecond(Memory):
    """A message function with a memory: a message for every second item."""

    def __call__(self, item: Any) -> Any:
        self.count += 1
        return ("message", item) if self.count % 2 == 0 else None


def _chosen(item: Any) -> bool:
    return crc32(repr(item).encode()) % 3 > 0


@dataclass
class Built:
    """A program as a stream, and what a test looks at."""

    actors: dict[str, Actor[Any]] = field(default_factory=dict)
    """By name."""
    roles: dict[str, str] = field(default_factory=dict)
    """What the actors of a role are there for, by the role: a word of the program."""
    bounds: dict[str, int] = field(default_factory=dict)
    """How many calls each actor may have in its mailbox at most."""
    taps: list[list[Any]] = field(default_factory=list)
    """What passed at each tap."""
    stream: Stream[Any] = field(init=False)

    def group(self, word: str, count: int, bound: int, make: Callable[[str], Any] = Recorder) -> ActorGroup[Any]:
        """Describe actors of a new role."""
        role = f"role{len(self.actors)}"
        self.roles[role] = word
        group = fake_group(role, [make(f"{role}-{index}") for index in range(count)])
        for actor in group:
            self.actors[actor.name] = actor
            self.bounds[actor.name] = bound
        return group

    def sources(self) -> set[str]:
        """Return the names of the actors that are sources."""
        return {name for name in self.actors if self.roles.get(name.split("-")[0]) in ("sync", "async", "loop")}

    def objects(self) -> dict[str, Any]:
        """Return what is behind the actors."""
        return {name: spied(actor) for name, actor in self.actors.items()}

    def tap(self, stream: Stream[Any]) -> Stream[Any]:
        """Keep what passes here."""
        seen: list[Any] = []
        self.taps.append(seen)
        return stream.tap(seen.append)


def build(program: Program) -> Built:
    """Make the stream of a program, with actors of its own."""
    built = Built()
    built.stream = _stream(program, built)
    return built


def _stream(program: Program, built: Built) -> Stream[Any]:
    word, *rest = program
    match word:
        case "items":
            (count,) = rest
            number = len(built.taps) + len(built.actors)
            return built.tap(from_items([(f"items{number}", index) for index in range(count)]))
        case "sync":
            count, ready_after = rest
            shards = built.group(word, count, 1, lambda name: Recorder(name, ready_after))
            return from_actors(shards, Recorder.give).gather_sync()
        case "async":
            count, in_flight, ready_after = rest
            shards = built.group(word, count, in_flight + 2, lambda name: Recorder(name, ready_after))
            source = from_actors(shards, Recorder.give, first=(Recorder.echo, lambda _: "first"))
            return source.map(Memory()).gather_async(in_flight=in_flight)
        case "loop":
            count, in_flight, publish_every = rest
            return _loop(built, count, in_flight, publish_every)
        case "branch":
            number, part = rest
            return _stream(part, built).map(lambda item: (number, item))
        case "both":
            return concurrently(*(_stream(part, built) for part in rest))
        case "turns":
            *parts, weights = rest
            return round_robin(*(_stream(part, built) for part in parts), weights=weights)
        case "tee":
            part, max_lag, chains = rest
            branches = _stream(part, built).tee(len(chains), max_lag=max_lag)
            return concurrently(*(_chain(branch, chain, built) for branch, chain in zip(branches, chains, strict=True)))
        case "then":
            part, chain = rest
            return _chain(_stream(part, built), chain, built)
    raise AssertionError(word)


def _loop(built: Built, count: int, in_flight: int, publish_every: int) -> Stream[Any]:
    """Workers that act with what a learner publishes."""
    workers = built.group("loop", count, 3 * in_flight + 10, StampingWorker)
    learner = built.actors.setdefault(
        f"learner{len(built.actors)}", fake_actor(f"learner{len(built.actors)}", CountingLearner(publish_every))
    )
    newest = Published(learner, CountingLearner.weights)
    return (
        from_actors(workers, StampingWorker.rollout, first=(StampingWorker.load, lambda _: newest))
        .gather_async(in_flight=in_flight)
        .ask(learner, CountingLearner.update, in_flight=2)
        .tell(workers, StampingWorker.load, message=lambda _: newest, route=Route.SOURCE)
        .map(lambda learned: (learned.version, learned.info.version_min, learned.info.sources))
    )


def _chain(stream: Stream[Any], chain: tuple[Any, ...], built: Built) -> Stream[Any]:
    for word, *rest in chain:
        match word:
            case "map":
                stream = stream.map(Memory())
            case "same":
                stream = stream.map(lambda item: item)
            case "filter":
                stream = stream.filter(_chosen)
            case "pairs":
                stream = stream.flat_map(_Pairs())
            case "tap":
                stream = built.tap(stream)
            case "drain":
                stream = stream.drain()
            case "ask":
                count, in_flight, ordered = rest
                stream = stream.ask(
                    built.group(word, count, in_flight), Recorder.reply, in_flight=in_flight, ordered=ordered
                )
            case "echo":
                count, in_flight, ordered = rest
                stream = stream.ask(
                    built.group(word, count, in_flight), Recorder.echo, in_flight=in_flight, ordered=ordered
                )
            case "tell":
                count, in_flight, route = rest
                stream = stream.tell(
                    built.group(word, count, in_flight), Recorder.echo, in_flight=in_flight, route=route
                )
            case "tell some":
                count, in_flight, route = rest
                group = built.group(word, count, in_flight)
                stream = stream.tell(group, Recorder.echo, message=_EverySecond(), in_flight=in_flight, route=route)
            case _:
                raise AssertionError(word)
    return stream


def take(flow: Flow[Any], count: int) -> list[Any]:
    """Return the next items, then "end" or "stalled" where the flow gives no more."""
    taken: list[Any] = []
    while len(taken) < count:
        try:
            taken.append(next(flow))
        except StopIteration:
            return [*taken, "end"]
        except FlowStalled:
            return [*taken, "stalled"]
    return taken
