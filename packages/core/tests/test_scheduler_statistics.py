"""What a running flow measures: stages, actors, the bottleneck; and the trace of who did what and when."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import pytest

from rheos import ActorGroup, FailurePolicy, Published, Route, from_actors, from_items, run
from rheos.errors import RheosWarning
from rheos.executors.threads import ThreadsExecutor
from rheos.scheduler.statistics import ActorStatistics, FlowStatistics, Mean, StageStatistics
from rheos.testing.executors import ManualExecutor
from rheos.testing.fakes import CountingLearner, StampingWorker, counting_learner, fake_actor, stamping_workers


class Box:
    """Keeps what it gets."""

    def put(self, item: int) -> int:
        return item


class Clock:
    """Gives a number, and takes its time."""

    def __init__(self, index: int) -> None:
        self.seconds = 0.01

    def give(self) -> float:
        until = perf_counter() + self.seconds
        while perf_counter() < until:
            pass
        return until


class Breaking:
    """Fails in its first life, at its second request."""

    lives = 0

    def __init__(self, index: int) -> None:
        type(self).lives += 1
        self.life, self.requests = type(self).lives, 0

    def give(self) -> int:
        self.requests += 1
        if (self.life, self.requests) == (1, 2):
            raise ValueError("broken")
        return self.requests


def test_every_stage_counts_what_it_gave():
    flow = run(from_items(range(10)).filter(lambda item: item % 2 == 0).flat_map(lambda item: [item, item]))

    assert 10 == len(list(flow))

    assert [10, 5, 10] == [stage.items for stage in flow.statistics().stages]


def test_a_stage_is_named_as_in_notes():
    flow = run(from_items([1]).map(abs))

    (items, absolute) = flow.statistics().stages

    assert items.name.startswith("stage 1: from_items [test_scheduler_statistics.py:")
    assert absolute.name.startswith("stage 2: map(abs) [test_scheduler_statistics.py:")


def test_what_an_actor_has_not_answered_is_outstanding():
    manual, box = ManualExecutor(), fake_actor("box", Box())
    flow = run(from_items(range(9)).tell(box, Box.put, in_flight=8), manual)
    for _ in range(3):
        next(flow)

    manual.actors["box"].finish()
    next(flow)

    assert 3 == flow.statistics().stages[-1].outstanding


def test_the_lag_of_a_learner_is_that_of_the_weights_that_acted():
    workers, learner = stamping_workers(2), counting_learner()
    newest = Published(learner, CountingLearner.weights)
    stream = (
        from_actors(workers, StampingWorker.rollout, first=(StampingWorker.load, lambda _: newest))
        .gather_sync()
        .flat_map(list)
        .ask(learner, CountingLearner.update)
        .tell(workers, StampingWorker.load, message=lambda _: newest, route=Route.ALL)
    )

    with run(stream) as flow:
        for _ in range(4):
            next(flow)
        stages = flow.statistics().stages

    assert (0.5, 1) == stages[2].lag  # the second batch of each round is learned from one update later
    assert stages[2].age_s is not None
    assert stages[2].age_s > 0.0
    assert stages[0].lag is None


def test_the_work_of_an_actor_on_the_driver_is_the_drivers():
    flow = run(from_actors(ActorGroup("clock", 2, Clock), Clock.give).gather_sync())
    for _ in range(5):
        next(flow)

    found = flow.statistics()

    assert 0.05 <= found.actors["clock-0"].busy_s <= found.wall_s
    assert found.actors["clock-0"].is_on_driver
    assert 1.0 == found.driver_busy
    assert found.bottleneck.startswith("driver busy 100%, most of it in stage 2: gather_sync [")
    assert found.stages[0].busy_s >= 0.1


def test_the_driver_waits_for_threads():
    with run(from_actors(ActorGroup("clock", 1, Clock), Clock.give).gather_sync(), ThreadsExecutor()) as flow:
        for _ in range(10):
            next(flow)
        found = flow.statistics()

    assert not found.actors["clock-0"].is_on_driver
    assert found.driver_busy < 0.7
    assert found.bottleneck.startswith("clock busy ")


def test_shares_are_those_since_an_earlier_look_and_means_over_a_role():
    def look(wall_s: float, waited_s: float, *busy_s: float) -> FlowStatistics:
        actors = {f"w-{index}": ActorStatistics("w", seconds, 0, False) for index, seconds in enumerate(busy_s)}
        return FlowStatistics(wall_s, waited_s, (), actors)

    assert {"driver": 0.75, "w": 0.4} == look(20.0, 5.0, 10.0, 6.0).busy_since()
    assert {"driver": 0.5, "w": 0.7} == look(20.0, 5.0, 10.0, 6.0).busy_since(look(10.0, 0.0, 2.0, 0.0))


def test_a_mean_of_nothing_is_none():
    mean = Mean()

    assert mean.value is None

    for value in (-2.0, -1.0, -3.0):
        mean.add(value)

    assert (-2.0, -1.0) == (mean.value, mean.most)


def test_a_stage_is_described_in_a_line():
    stage = StageStatistics("stage 1: ask(f) [f.py:1]", 1200, 3.0, 2, lost=1, age_s=0.0123, lag=(1.25, 3))

    described = "1,200 items, busy 3.00 s (30%), 2 outstanding, 1 lost, age 12.3 ms, lag 1.25 (most 3)"

    assert described == stage.describe(10.0)


def test_explain_with_statistics_says_who_was_busy_and_what_the_bottleneck_is():
    flow = run(from_actors(ActorGroup("clock", 2, Clock), Clock.give).gather_sync())
    next(flow)

    *stages, busy, bottleneck = flow.explain(stats=True).splitlines()

    assert stages[-1].endswith("s (100%)") or "busy 0.0" in stages[-1]
    assert "of which busy: driver 100%, clock " in busy
    assert bottleneck.startswith("bottleneck: driver busy 100%, most of it in stage 2")


def test_restarts_are_counted():
    Breaking.lives = 0
    stream = from_actors(ActorGroup("worker", 1, Breaking), Breaking.give).gather_sync()

    with run(stream, failures=FailurePolicy(1, backoff_s=0.0)) as flow:
        with pytest.warns(RheosWarning, match="restart 1 of 1"):
            taken = [next(flow) for _ in range(3)]
        found = flow.statistics()

    assert [(1,), (1,), (2,)] == taken
    assert (1, 1) == (found.restarts, found.actors["worker-0"].restarts)


# the trace


def events(path: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(path.read_text())
    return found


def test_the_trace_has_a_lane_for_the_driver_and_each_actor(tmp_path: Path):
    stream = from_actors(ActorGroup("clock", 3, Clock), Clock.give).gather_sync()

    with run(stream, ThreadsExecutor(), trace=tmp_path / "trace.json") as flow:
        next(flow)

    lanes = {event["args"]["name"]: event["tid"] for event in events(tmp_path / "trace.json") if event["ph"] == "M"}  # type: ignore[index]
    assert {"driver", "clock-0", "clock-1", "clock-2"} == set(lanes)
    assert 4 == len(set(lanes.values()))


def test_a_call_is_in_the_trace_where_it_was_and_as_long_as_it_took(tmp_path: Path):
    path = tmp_path / "trace.json"

    with run(from_actors(ActorGroup("clock", 1, Clock), Clock.give).gather_sync(), trace=path) as flow:
        for _ in range(3):
            next(flow)

    calls = [event for event in events(path) if event["name"] == "give"]
    assert 3 == len(calls)
    assert all(1e4 <= call["dur"] < 1e6 for call in calls)  # type: ignore[operator]
    assert all(
        one["ts"] + one["dur"] <= other["ts"]  # type: ignore[operator]
        for one, other in pairwise(calls)
    )


def test_a_call_that_failed_says_so(tmp_path: Path):
    path = tmp_path / "trace.json"
    Breaking.lives = 0

    with (
        run(from_actors(ActorGroup("worker", 1, Breaking), Breaking.give).gather_sync(), trace=path) as flow,
        pytest.raises(ValueError, match="broken"),
    ):
        list(flow)

    assert [None, {"failed": True}] == [event.get("args") for event in events(path) if event["name"] == "give"]


def test_a_trace_is_whole_also_where_the_flow_cannot_start(tmp_path: Path):
    class Never:
        def __init__(self, index: int) -> None:
            raise OSError("no")

        def give(self) -> int:
            return 0

    with pytest.raises(OSError, match="no"):
        run(from_actors(ActorGroup("never", 1, Never), Never.give).gather_sync(), trace=tmp_path / "trace.json")

    assert ["driver"] == [event["args"]["name"] for event in events(tmp_path / "trace.json")]  # type: ignore[index]


def test_where_nobody_is_busy_there_is_no_bottleneck():
    actors = {"w-0": ActorStatistics("w", 1.0, 0, False)}

    found = FlowStatistics(10.0, 9.0, (), actors)

    assert "none: nobody is busy half of the time, and the driver waited 90% of it" == found.bottleneck
