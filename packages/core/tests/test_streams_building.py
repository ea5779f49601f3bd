"""Building a stream has no effect, and the graph knows where each stage was written."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rheos import Actor, ActorGroup, Route, Stream, concurrently, from_actors, from_items, round_robin, run
from rheos.errors import FlowMistake
from rheos.testing.fakes import CountingLearner, StampingWorker, counting_learner, fake_actor, stamping_workers

HERE = Path(__file__).name


def must_not_run(*_: object) -> Any:
    raise AssertionError("building a stream ran this")


class Untouchable:
    def __init__(self, index: int = 0) -> None:
        must_not_run()

    def give(self) -> int:
        return must_not_run()

    def take(self, item: object) -> object:
        return must_not_run()

    def __iter__(self):
        return must_not_run()


def line_here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def everything() -> Stream[Any]:
    """Every word of the vocabulary in one stream, over parts that must not be touched."""
    group, single = ActorGroup("many", 3, Untouchable), Actor("one", Untouchable)
    shards = from_actors(group, Untouchable.give, first=(Untouchable.take, must_not_run)).map(must_not_run)
    left, right = shards.gather_async(in_flight=2).tee(2, max_lag=3)
    items = from_items(Untouchable.__new__(Untouchable)).map(must_not_run).flat_map(must_not_run).filter(must_not_run)
    asked = items.tap(must_not_run).ask(single, Untouchable.take, in_flight=2, ordered=False)
    told = left.tell(group, Untouchable.take, message=must_not_run, route=Route.SOURCE).drain()
    branches = round_robin(asked, from_actors(group, Untouchable.give).gather_sync(), weights=(1, 0.1))
    return concurrently(told, right, branches).through(lambda stream: stream)


def test_building_looking_and_checking_start_nothing_and_draw_nothing():
    stream = everything()

    looked = (stream.check(), stream.explain(), stream.to_mermaid())

    assert () == looked[0]


def test_an_actor_is_made_when_the_flow_runs_and_not_before():
    made: list[int] = []
    group = ActorGroup("worker", 2, lambda index: made.append(index) or StampingWorker(str(index)))

    stream = from_actors(group, StampingWorker.rollout).gather_sync()
    before = list(made)
    with run(stream):
        after = list(made)

    assert ([], [0, 1]) == (before, after)


def test_actors_that_a_flow_does_not_mention_are_not_started():
    workers = ActorGroup("worker", 4, lambda index: StampingWorker(str(index)) if index < 2 else must_not_run())

    with run(from_actors(workers[:2], StampingWorker.rollout).gather_sync()) as flow:
        sources = [batch.info.sources for batch in next(flow)]

    assert [("0",), ("1",)] == sources


def test_every_stage_knows_the_file_and_line_where_it_was_written():
    first = from_items([1]).map(str)
    line = line_here() - 1
    # fmt: off
    second = (
        first
        .filter(bool)
    )
    # fmt: on

    assert f"{HERE}:{line}" == str(first.node.origin)
    assert str(Path(__file__)) == first.node.origin.file
    assert f"{HERE}:{line + 5}" == str(second.node.origin)


@pytest.mark.parametrize(
    ("stream", "label"),
    [
        (from_items([1]).map(must_not_run), "map(must_not_run)"),
        (from_items([1]).map(partial(must_not_run, 1)), "map(must_not_run)"),
        (from_items([1]).map(lambda x: x), "map(<lambda>)"),
        (from_items([1]).ask(counting_learner(), CountingLearner.update), "ask(CountingLearner.update)"),
        (
            from_items([1]).ask(counting_learner(), CountingLearner.update, in_flight=2),
            "ask(CountingLearner.update, in_flight=2)",
        ),
        (
            from_items([1]).tell(stamping_workers(2), StampingWorker.load, route=Route.ALL),
            "tell(StampingWorker.load, all)",
        ),
        (from_actors(stamping_workers(2), StampingWorker.rollout).gather_async(3), "gather_async(in_flight=3)"),
        (round_robin(from_items([1]), from_items([1]), weights=(1, 0.5)), "round_robin(1:1/2)"),
    ],
)
def test_a_label_is_the_verb_with_what_a_reader_knows_it_by(stream: Stream[Any], label: str):
    assert label == stream.node.label


def test_explain_gives_a_line_a_stage_with_what_it_reads_and_where_it_was_written():
    left, right = from_items([1]).tee(2)
    text = concurrently(left.map(str), right.map(repr)).explain().splitlines()

    assert [
        "  1  from_items",
        "  2  tee(2, max_lag=8)",
        "  3  branch(0)",
        "  4  map(str)",
        "  5  branch(1)  <- 2",
        "  6  map(repr)",
        "  7  concurrently  <- 4, 6",
    ] == [line.partition("[")[0].rstrip() for line in text]
    assert all(f"[{HERE}:" in line for line in text)


def test_mermaid_draws_stages_data_and_messages():
    workers = stamping_workers(2)
    stream = from_actors(workers, StampingWorker.rollout).gather_sync().tell(workers, StampingWorker.load)

    assert """\
flowchart TD
    s1["1: from_actors(StampingWorker.rollout x 2)"]
    a1(["rollout-0 ... rollout-1"])
    a1 -.-> s1
    s2["2: gather_sync"]
    s1 --> s2
    s3["3: tell(StampingWorker.load)"]
    s2 --> s3
    s3 -.-> a1
""" == stream.to_mermaid()


def test_labels_are_escaped_in_a_drawing():
    assert '"2: map(&lt;lambda&gt;)"' in from_items([1]).map(lambda x: x).to_mermaid()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: from_items([1]).map(3), "map: got 3, expected a function of one item"),
        (lambda: from_items([1]).ask([], list.append), r"got \[\], expected an Actor or an ActorGroup"),
        (lambda: from_items([1]).ask(fake_actor("a", []), lambda a, x: x), "ask: got .*, expected a method"),
        (
            lambda: from_items([1]).ask(fake_actor("a", []), list.append, in_flight=0),
            "in_flight=0, expected a whole number of at least 1",
        ),
        (
            lambda: from_items([1]).tell(fake_actor("a", []), list.append, in_flight=0),
            "in_flight=0, expected a whole number of at least 1",
        ),
        (lambda: from_items([1]).ask(fake_actor("a", []), list.append, route=Route.ALL), "several replies an item"),
        (lambda: from_items([1]).tee(0), "count=0, expected a whole number of at least 1"),
        (lambda: from_items([1]).tee(2, max_lag=-1), "max_lag=-1, expected a whole number of at least 0"),
        (lambda: from_actors(stamping_workers(1), StampingWorker.rollout).gather_async(0), "in_flight=0"),
        (lambda: from_actors(stamping_workers(1), StampingWorker.load, 1, 2), "2 arguments"),
        (lambda: round_robin(from_items([1]), weights=(0,)), "a finite number above 0"),
        (lambda: round_robin(from_items([1]), from_items([1]), weights=(1,)), "for 2 streams"),
        (lambda: round_robin(from_items([1]), weights=(float("nan"),)), "a finite number above 0"),
        (lambda: round_robin(from_items([1]), weights=(float("inf"),)), "a finite number above 0"),
        (lambda: round_robin(from_items([1]), weights=("a",)), "a finite number above 0"),
        (
            lambda: from_items([1]).ask(fake_actor("a", []), list.append, in_flight=1.5),
            "in_flight=1.5, expected a whole",
        ),
        (lambda: from_items([1]).tee("2"), "count='2', expected a whole number"),
        (lambda: from_items([1]).tee(True), "count=True, expected a whole number"),
        (lambda: ActorGroup("worker", "3", Untouchable), "count='3', expected a whole number"),
        (lambda: from_items(5), "got 5, expected what every run can go through"),
        (lambda: from_items(iter([1])), "list_iterator.*make it a list"),
        (lambda: concurrently(5), "got 5, expected streams"),
        (
            lambda: concurrently(from_actors(stamping_workers(1), StampingWorker.rollout)),
            "gather a ShardedStream first",
        ),
        (lambda: concurrently(), "no streams"),
        (lambda: round_robin(), "no streams"),
        (lambda: ActorGroup("worker", 0, Untouchable), "count=0, expected a whole number of at least 1"),
        (lambda: stamping_workers(2)[2:], "empty"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(build: Any, words: str):
    with pytest.raises(FlowMistake, match=words):
        build()


def test_a_refusal_names_the_line_of_the_user():
    with pytest.raises(FlowMistake, match=rf"\[{HERE}:{line_here() + 1}\]"):
        from_items([1]).tee(0)


def test_a_part_of_a_group_keeps_the_names_of_its_actors():
    group = stamping_workers(3)

    assert ["rollout-1", "rollout-2"] == [actor.name for actor in group[1:]]
    assert group[2] is group[1:][1]
    assert "ActorGroup('rollout', 3)" == repr(group)
