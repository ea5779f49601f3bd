"""Items are values: arrays in them are read-only wherever somebody else may hold them, and a class is an item, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rheos import (
    Batch,
    EndOfShard,
    Flow,
    NotReady,
    Published,
    Route,
    Stream,
    concurrently,
    from_actors,
    from_items,
    run,
)
from rheos.errors import FlowError
from rheos.testing.fakes import CountingLearner, StampingWorker, counting_learner, fake_actor, fake_group
from rheos.testing.programs import Recorder


@dataclass(frozen=True)
class Tree:
    array: Any
    parts: tuple[Any, ...] = ()


def mutate(array: Any) -> None:
    array[0] = 99


@pytest.mark.parametrize(
    ("make", "inside"),  # made anew for each test, or what one froze would be frozen for all
    [
        (lambda: np.zeros(2), lambda value: value),
        (lambda: {"a": {"b": np.zeros(2)}}, lambda value: value["a"]["b"]),
        (lambda: [np.zeros(2)], lambda value: value[0]),
        (lambda: (1, np.zeros(2)), lambda value: value[1]),
        (lambda: Tree(1, (np.zeros(2),)), lambda value: value.parts[0]),
        (lambda: Tree(np.zeros(2)), lambda value: value.array),
        (lambda: Batch({"rewards": np.zeros(2)}), lambda value: value["rewards"]),
    ],
)
@pytest.mark.parametrize("where", ["reply", "message", "first message", "tee", "gather", "function at the actor"])
def test_an_array_in_a_flow_is_read_only_wherever_somebody_else_may_hold_it(make: Any, inside: Any, where: str):
    value = make()

    def spoil(item: Any) -> Any:
        mutate(inside(item))
        return item

    class Holder:
        def give(self) -> Any:
            return value

        def take(self, _: Any) -> Any:
            return value

        def spoil(self, item: Any) -> None:
            spoil(item)

    group = fake_group("holder", [Holder()])
    left, right = from_items([value]).tee(2)
    stream: Stream[Any] = {
        "reply": from_items([1]).ask(group, Holder.take).map(spoil),
        "message": from_items([value]).tell(group, Holder.spoil),
        "first message": from_actors(group, Holder.give, first=(Holder.spoil, lambda _: value)).gather_sync(),
        "tee": concurrently(left.map(spoil), right),
        "gather": from_actors(group, Holder.give).gather_sync().map(lambda items: spoil(items[0])),
        "function at the actor": from_actors(group, Holder.give).map(spoil).gather_sync(),
    }[where]

    with pytest.raises(ValueError, match="read-only"):
        list(run(stream))


def test_published_weights_are_read_only():
    class Spoiling(StampingWorker):
        def load(self, weights: Any) -> None:
            mutate(weights.arrays["policy/bias"])

    learner = counting_learner()
    stream = from_items([Batch({})]).ask(learner, CountingLearner.update)
    spoiled = stream.tell(
        fake_group("worker", [Spoiling("worker-0")]),
        Spoiling.load,
        message=lambda _: Published(learner, CountingLearner.weights),
        route=Route.ALL,
    )

    with pytest.raises(ValueError, match="read-only"):
        list(run(spoiled))


def test_an_actor_that_goes_on_writing_to_a_buffer_that_it_gave_away_gets_an_error():
    class Reusing:
        def __init__(self) -> None:
            self.buffer = np.zeros(4)

        def give(self) -> Any:
            self.buffer[0] += 1
            return self.buffer[:2]

    flow = run(from_actors(fake_group("reusing", [Reusing()]), Reusing.give).gather_sync())
    (first,) = next(flow)

    with pytest.raises(ValueError, match="read-only"):
        next(flow)
    assert first.tolist() == [1, 0]


@pytest.mark.parametrize("source", ["items", "map", "flat_map"])
def test_a_stage_behind_a_message_cannot_change_what_was_sent(source: str):
    recorder, made = fake_actor("recorder", Recorder("recorder")), np.zeros(2)
    stream = {
        "items": from_items([made]),
        "map": from_items([1]).map(lambda _: made),
        "flat_map": from_items([1]).flat_map(lambda _: [made]),
    }[source]

    with pytest.raises(ValueError, match="read-only"):
        list(run(stream.tell(recorder, Recorder.echo).tap(mutate)))


def test_a_class_is_an_item_like_any_other():
    assert [Tree] == list(run(from_items([Tree]).ask(fake_actor("recorder", Recorder("recorder")), Recorder.echo)))


@pytest.mark.parametrize("word", [NotReady, EndOfShard])
def test_the_class_of_an_answer_in_place_of_one_is_an_error_that_says_so(word: type):
    class Lazy:
        def give(self) -> Any:
            return word

    stream = from_actors(fake_group("lazy", [Lazy()]), Lazy.give).gather_async()

    with pytest.raises(FlowError, match=rf"^lazy-0.give gave the class {word.__name__}: return {word.__name__}\(\)\."):
        next(run(stream))


def test_what_a_flow_gives_is_typed_as_a_flow():
    assert isinstance(run(from_items([1])), Flow)
