"""Properties of random small programs: cutting and going on, bounds, ends, and every item in every branch once."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rheos import (
    Actor,
    ActorGroup,
    NotReady,
    Published,
    Route,
    Stream,
    concurrently,
    from_actors,
    from_items,
    round_robin,
    run,
)
from rheos.errors import FlowStalled, FlowTimeout
from rheos.scheduler.flow import Flow
from rheos.testing.executors import ManualExecutor
from rheos.testing.fakes import CountingLearner, StampingWorker, fake_actor, fake_group, spied

Program = tuple[Any, ...]

FEW = settings(
    max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
MANY = settings(FEW, max_examples=2000, derandomize=False)


# parts of programs


class Recorder:
    """Counts and remembers what it was sent; every reply says how many came before."""

    def __init__(self, name: str, ready_after: int = 0) -> None:
        self.name = name
        self.ready_after = ready_after
        self.count = 0
        self.log: list[Any] = []

    def give(self) -> Any:
        self.count += 1
        if self.count <= self.ready_after or (self.ready_after and self.count % 4 == 0):
            return NotReady()
        return self.name, self.count

    def echo(self, item: Any) -> Any:
        self.log.append(item)
        return item

    def reply(self, item: Any) -> Any:
        self.log.append(item)
        return item, len(self.log)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "log": list(self.log)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.log = state["count"], list(state["log"])


class Memory:
    """A function with a memory, in a program or at an actor: numbers what passes."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, item: Any) -> Any:
        self.count += 1
        return item, self.count

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


class Pairs(Memory):
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
        return {"count": self.count, "parts": list(self.parts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.parts = state["count"], list(state["parts"])


class EverySecond(Memory):
    """A message function with a memory: a message for every second item."""

    def __call__(self, item: Any) -> Any:
        self.count += 1
        return ("message", item) if self.count % 2 == 0 else None


def chosen(item: Any) -> bool:
    return crc32(repr(item).encode()) % 3 > 0


@dataclass
class Built:
    """A program as a stream, and what a test looks at."""

    actors: dict[str, Actor[Any]] = field(default_factory=dict)
    bounds: dict[str, int] = field(default_factory=dict)
    taps: list[list[Any]] = field(default_factory=list)
    stream: Stream[Any] = field(init=False)

    def group(self, count: int, bound: int, make: Callable[[str], Any] = Recorder) -> ActorGroup[Any]:
        role = f"role{len(self.actors)}"
        group = fake_group(role, [make(f"{role}-{index}") for index in range(count)])
        for actor in group:
            self.actors[actor.name] = actor
            self.bounds[actor.name] = bound
        return group

    def objects(self) -> dict[str, Any]:
        return {name: spied(actor) for name, actor in self.actors.items()}

    def tap(self, stream: Stream[Any]) -> Stream[Any]:
        self.taps.append([])
        return stream.tap(self.taps[-1].append)


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
            shards = built.group(count, 1, lambda name: Recorder(name, ready_after))
            return from_actors(shards, Recorder.give).gather_sync()
        case "async":
            count, in_flight, ready_after = rest
            shards = built.group(count, in_flight + 2, lambda name: Recorder(name, ready_after))
            source = from_actors(shards, Recorder.give, first=(Recorder.echo, lambda _: "first"))
            return source.map(Memory()).gather_async(in_flight=in_flight)
        case "loop":
            count, in_flight, publish_every = rest
            return _loop(built, count, in_flight, publish_every)
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
    workers = built.group(count, 3 * in_flight + 10, StampingWorker)
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
                stream = stream.filter(chosen)
            case "pairs":
                stream = stream.flat_map(Pairs())
            case "tap":
                stream = built.tap(stream)
            case "drain":
                stream = stream.drain()
            case "ask":
                count, in_flight, ordered = rest
                stream = stream.ask(built.group(count, in_flight), Recorder.reply, in_flight=in_flight, ordered=ordered)
            case "echo":
                count, in_flight, ordered = rest
                stream = stream.ask(built.group(count, in_flight), Recorder.echo, in_flight=in_flight, ordered=ordered)
            case "tell":
                count, in_flight, route = rest
                stream = stream.tell(built.group(count, in_flight), Recorder.echo, in_flight=in_flight, route=route)
            case "tell some":
                count, in_flight, route = rest
                group = built.group(count, in_flight)
                stream = stream.tell(group, Recorder.echo, message=EverySecond(), in_flight=in_flight, route=route)
            case _:
                raise AssertionError(word)
    return stream


# strategies

small = st.integers(1, 3)
routes = st.sampled_from([Route.ANY, Route.ALL])
keeping = st.one_of(
    st.tuples(st.just("same")),
    st.tuples(st.just("tap")),
    st.tuples(st.just("echo"), small, small, st.booleans()),
    st.tuples(st.sampled_from(["tell", "tell some"]), small, small, routes),
)
any_stage = st.one_of(
    keeping,
    st.tuples(st.sampled_from(["map", "filter", "pairs"])),
    st.tuples(st.just("ask"), small, small, st.booleans()),
)
endless = st.one_of(
    st.tuples(st.just("sync"), small, st.integers(0, 2)),
    st.tuples(st.just("async"), small, small, st.integers(0, 2)),
    st.tuples(st.just("loop"), small, small, small),
)
items = st.tuples(st.just("items"), st.integers(0, 12))
weights = st.tuples(*[st.sampled_from([1, 2, 3, 0.5, 0.1])] * 2)


def grown(sources: st.SearchStrategy[Program], stage: st.SearchStrategy[Any], *, ratios: bool) -> Any:
    def longer(part: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
        chain = st.lists(stage, max_size=3).map(tuple)
        chains = st.lists(chain, min_size=2, max_size=3).map(tuple)
        words: list[st.SearchStrategy[Any]] = [
            st.tuples(st.just("then"), part, chain),
            st.tuples(st.just("tee"), part, st.integers(0, 3), chains),
            st.tuples(st.just("both"), part, part),
        ]
        if ratios:
            words.append(st.tuples(st.just("turns"), part, part, weights))
        return st.one_of(words)

    return st.recursive(sources, longer, max_leaves=4)


any_program = grown(st.one_of(items, endless), any_stage, ratios=True)
finite_program = grown(items, keeping, ratios=False)


# running them


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


def actors_after(flow: Flow[Any], built: Built) -> dict[str, Any]:
    """Let everything that was sent finish, and return what the actors are then."""
    flow.state_dict()
    return {name: summary(one) for name, one in built.objects().items()}


def summary(one: Any) -> Any:
    if isinstance(one, CountingLearner):
        return one.updates, one.asked_for_weights, [batch.info for batch in one.seen]
    return one.state_dict()


def check_cut_and_restored_is_uncut(program: Program, cut: int, total: int = 24) -> None:
    uncut, before, after = build(program), build(program), build(program)
    uncut_flow = run(uncut.stream)
    expected = take(uncut_flow, total)
    cut = min(cut, len([item for item in expected if item not in ("end", "stalled")]))

    flow = run(before.stream)
    first = take(flow, cut)
    state = flow.state_dict()
    states = copy.deepcopy({name: one.state_dict() for name, one in before.objects().items()})
    taps = copy.deepcopy(before.taps)
    going_on = first + take(flow, total - cut)

    restored = run(after.stream)
    restored.load_state_dict(state)  # as it was when it was cut: going on did not change it
    for name, actor in after.actors.items():
        if name in restored_names(restored):
            restored.ask(actor, type(spied(actor)).load_state_dict, states[name])
    rest = take(restored, total - cut)

    assert expected == going_on, "a flow that was looked at goes on as if nothing had been"
    assert expected == first + rest, "a flow that was cut and restored goes on as if nothing had been"
    assert [tap[: len(seen)] for tap, seen in zip(uncut.taps, taps, strict=True)] == taps
    assert uncut.taps == [seen + more for seen, more in zip(taps, after.taps, strict=True)]
    if expected[-1:] != ["stalled"]:
        assert actors_after(uncut_flow, uncut) == actors_after(restored, after)


def restored_names(flow: Flow[Any]) -> set[str]:
    return set(flow._engine._actors)


def run_in_any_order(program: Program, seed: int, most: int) -> tuple[Built, list[Any]]:
    """Run with an executor that finishes calls of the actors in a random order; watch the bounds at every step."""
    built, manual, choose = build(program), ManualExecutor(), random.Random(seed)
    flow = run(built.stream, manual)
    taken: list[Any] = []
    for _ in range(10_000):
        if len(taken) >= most:
            return built, taken
        try:
            taken.append(flow.next(timeout_s=0))
        except StopIteration:
            return built, [*taken, "end"]
        except FlowStalled:
            return built, [*taken, "stalled"]
        except FlowTimeout:
            pass
        for name, bound in built.bounds.items():
            assert len(manual.actors[name].waiting) <= bound
        busy = [actor for actor in manual.actors.values() if actor.waiting]
        if busy and choose.random() < 0.7:
            ready = [actor for actor in busy if message_is_there(actor.waiting[0].message)]
            choose.choice(ready).finish()
    raise AssertionError(f"no end in sight: {taken}")


def message_is_there(message: Any) -> bool:
    return getattr(message, "finished", True)


# cut and restored


@FEW
@given(any_program, st.integers(0, 20))
def test_a_program_that_is_cut_and_restored_goes_on_as_if_uncut(program: Program, cut: int):
    check_cut_and_restored_is_uncut(program, cut)


@pytest.mark.slow
@MANY
@given(any_program, st.integers(0, 20))
def test_many_programs_that_are_cut_and_restored_go_on_as_if_uncut(program: Program, cut: int):
    check_cut_and_restored_is_uncut(program, cut)


@FEW
@given(any_program)
def test_a_program_gives_the_same_whenever_it_is_run(program: Program):
    one, other = build(program), build(program)

    assert take(run(one.stream), 24) == take(run(other.stream), 24)
    assert one.taps == other.taps


@FEW
@given(finite_program)
def test_two_runs_of_one_stream_do_not_disturb_each_other(program: Program):
    alone, shared = build(program), build(program)
    expected = take(run(alone.stream), 24)

    one, other = run(shared.stream), run(shared.stream)
    taken: tuple[list[Any], list[Any]] = ([], [])
    for _ in range(24):
        for flow, part in ((one, taken[0]), (other, taken[1])):
            if "end" not in part:
                part.extend(take(flow, 1))

    assert ([item for item in expected if item != "end"],) * 2 == tuple(
        [item for item in part if item != "end"] for part in taken
    )


@pytest.mark.parametrize("cut", range(20))
def test_a_message_of_which_only_some_actors_have_room_is_cut_and_restored(cut: int):
    told = ("then", ("items", 8), (("tell", 3, 1, Route.ALL),))

    check_cut_and_restored_is_uncut(("both", told, ("items", 12)), cut)


@pytest.mark.parametrize("cut", range(12))
@pytest.mark.parametrize("publish_every", [1, 4])
def test_workers_and_a_learner_that_are_cut_and_restored_go_on_as_if_uncut(cut: int, publish_every: int):
    check_cut_and_restored_is_uncut(("both", ("loop", 3, 2, publish_every), ("async", 2, 2, 1)), cut)


# bounds and ends


@FEW
@given(any_program, st.integers(0, 2**32))
def test_bounds_hold_and_nothing_hangs_in_whatever_order_calls_finish(program: Program, seed: int):
    run_in_any_order(program, seed, most=24)


@pytest.mark.slow
@MANY
@given(any_program, st.integers(0, 2**32))
def test_bounds_of_many_programs_hold_and_nothing_hangs(program: Program, seed: int):
    run_in_any_order(program, seed, most=24)


def delivered(program: Program) -> Counter[Any]:
    """How often each item should come out of a finite program."""
    word, *rest = program
    if word == "items":
        return Counter(dict.fromkeys(range(rest[0]), 1))
    if word == "both":
        return delivered(rest[0]) + delivered(rest[1])
    once = delivered(rest[0])
    times = len(rest[2]) if word == "tee" else 1
    return Counter({item: count * times for item, count in once.items()})


def check_every_item_once(program: Program, taken: list[Any]) -> None:
    assert "end" == taken[-1]
    assert delivered(program) == Counter(index for _, index in taken[:-1])


@FEW
@given(finite_program)
def test_every_item_is_delivered_exactly_once_to_every_branch(program: Program):
    check_every_item_once(program, take(run(build(program).stream), 10_000))


@FEW
@given(finite_program, st.integers(0, 2**32))
def test_every_item_is_delivered_exactly_once_in_whatever_order_calls_finish(program: Program, seed: int):
    _, taken = run_in_any_order(program, seed, most=10_000)

    check_every_item_once(program, taken)


@pytest.mark.slow
@MANY
@given(finite_program, st.integers(0, 2**32))
def test_every_item_of_many_programs_is_delivered_exactly_once(program: Program, seed: int):
    _, taken = run_in_any_order(program, seed, most=10_000)

    check_every_item_once(program, taken)
