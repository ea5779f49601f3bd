"""The end: actors are closed once, the last one first, within the time that is given, and nothing is left behind."""

from __future__ import annotations

import gc
import threading
import time
import warnings
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rheos.errors import RheosWarning
from rheos.scheduler.flow import run
from rheos.scheduler.recovery import FailurePolicy
from rheos.streams.actors import Actor, ActorGroup, Placement
from rheos.streams.stream import Stream, from_actors, from_items
from rheos.testing.executor_suite.actors import Counter, Slow, counters
from rheos.testing.executor_suite.base import ContractBase, failure_of
from rheos.testing.executor_suite.troubles import Door, FailingDoor, Mortal, explode, mortals

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor
    from rheos.testing.executor_suite.gates import Diary, Gate

__all__ = ["EndsContract"]

PLACES = [Placement.DRIVER, Placement.THREAD, Placement.REMOTE]
CLOSED = ["c closed", "b closed", "a closed"]


class EndsContract(ContractBase):
    """However a flow ends, its actors are closed, and no thread and no process is left."""

    @pytest.mark.parametrize("place", PLACES)
    def test_actors_are_closed_once_and_in_reverse_order(
        self, executor: Executor, place: Placement, diary: Diary
    ) -> None:
        """The last one first; also if the flow is closed twice."""
        flow = run(_doors(diary, place), executor)
        self.take(flow, 2)

        flow.close()
        lines = diary.lines()
        flow.close()

        assert CLOSED == lines == diary.lines()
        assert [] == self.rest(flow)

    def test_actors_in_different_places_are_closed_in_reverse_order(self, executor: Executor, diary: Diary) -> None:
        """A learner on the driver behind those that it may still talk to."""
        doors = [Actor(name, partial(Door, diary, name), place) for name, place in zip("abc", PLACES, strict=True)]
        stream = from_items(range(5))
        for door in doors:
            stream = stream.ask(door, Door.echo)

        with run(stream, executor) as flow:
            self.take(flow, 2)

        assert CLOSED == diary.lines()

    def test_actors_are_closed_after_an_error_on_the_driver(self, executor: Executor, diary: Diary) -> None:
        """The error goes on as it was."""
        with pytest.raises(ZeroDivisionError), run(_doors(diary).map(explode), executor) as flow:
            self.take(flow, 1)

        assert CLOSED == diary.lines()

    def test_actors_of_a_flow_that_ended_are_closed_when_it_is_closed(self, executor: Executor, diary: Diary) -> None:
        """Until then they can still be asked."""
        with run(_doors(diary), executor) as flow:
            items = self.rest(flow)
            lines = diary.lines()

        assert (list(range(5)), []) == (items, lines)
        assert CLOSED == diary.lines()

    def test_actors_of_a_flow_that_is_forgotten_are_closed(self, executor: Executor, diary: Diary) -> None:
        """When it is collected."""
        flow = run(_doors(diary), executor)
        self.take(flow, 2)

        del flow
        gc.collect()

        assert CLOSED == diary.lines()

    def test_every_actor_is_closed_although_one_raises(self, executor: Executor, diary: Diary) -> None:
        """What it raises is raised at the end, with its name."""
        flow = run(_doors(diary, jammed="b"), executor)
        self.take(flow, 1)

        with pytest.raises(OSError, match="b is jammed") as caught:
            flow.close()

        assert CLOSED == diary.lines()
        assert "while b was closed" in caught.value.__notes__

    def test_an_actor_that_is_made_anew_is_closed_once_in_each_life(self, executor: Executor, diary: Diary) -> None:
        """The predecessor before its successor is made."""
        door = ActorGroup("door", 1, partial(FailingDoor, diary))
        stream = from_actors(door, FailingDoor.next).gather_sync()

        with (
            run(stream, executor, failures=FailurePolicy(1, 0.0)) as flow,
            pytest.warns(RheosWarning, match="door-0 failed"),
        ):
            self.take(flow, 2)

        assert ["made", "closed", "made", "closed"] == diary.lines()

    def test_an_actor_at_work_may_finish_within_the_grace(self, executor: Executor, diary: Diary, gate: Gate) -> None:
        """What else was sent to it is dropped."""
        door = Actor("a", partial(Door, diary, "a", gate.path), Placement.REMOTE)
        flow = run(from_items(range(9)).ask(door, Door.echo, in_flight=3), executor, grace_s=self.patience_s)
        self.waits(flow)
        timer = threading.Timer(0.5, gate.let_through, (1,))

        timer.start()
        flow.close()
        timer.join()

        assert ["a closed"] == diary.lines()

    def test_an_actor_that_does_not_finish_is_given_up_after_the_grace(self, executor: Executor, gate: Gate) -> None:
        """With a warning at most: closing is no failure of the run."""
        slow = ActorGroup("slow", 2, partial(Slow, gate.path))
        flow = run(from_actors(slow, Slow.next).gather_sync(), executor, grace_s=0.05)
        self.waits(flow)

        began_at = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            flow.close()
        took_s = time.perf_counter() - began_at
        gate.open()

        assert took_s < self.patience_s / 3
        assert {RheosWarning} >= {warning.category for warning in caught}

    def test_actors_without_work_are_closed_although_another_used_up_the_grace(
        self, executor: Executor, diary: Diary, gate: Gate
    ) -> None:
        """Also where a warning about the other is an error."""
        idle = Actor("a", partial(Door, diary, "a"), Placement.REMOTE)
        busy = Actor("b", partial(Door, diary, "b", gate.path), Placement.REMOTE)
        flow = run(from_items(range(5)).ask(idle, Door.echo).ask(busy, Door.echo), executor, grace_s=0.05)
        self.waits(flow)

        with warnings.catch_warnings(), suppress(RheosWarning):
            warnings.simplefilter("error")
            flow.close()

        assert "a closed" in diary.lines()

    def test_a_waiting_flow_is_stopped_from_another_thread(self, executor: Executor, gate: Gate) -> None:
        """And its actors can be asked afterwards."""
        slow = ActorGroup("slow", 1, partial(Slow, gate.path))
        flow = run(from_actors(slow, Slow.next).gather_sync(), executor, grace_s=self.patience_s)
        timer = threading.Timer(0.05, flow.stop)

        timer.start()
        items = self.rest(flow)
        timer.join()
        gate.open()
        everything = flow.ask(slow[0], Slow.everything)
        flow.close()

        assert ([], []) == (items, everything)

    def test_nothing_is_left_when_flow_and_executor_are_closed(self) -> None:
        """No thread, and no process."""
        before = self.left_behind()

        executor = self.make_executor()
        with run(from_actors(counters(4), Counter.next).gather_async(in_flight=2), executor) as flow:
            self.take(flow, 10)
        executor.close()

        assert set() == self.left_behind() - before

    def test_nothing_is_left_after_an_error(self, diary: Diary) -> None:
        """Of an actor, while others are asked."""
        before = self.left_behind()

        executor = self.make_executor()
        with run(from_actors(mortals(diary, 4), Mortal.next).gather_async(in_flight=2), executor) as flow:
            error = failure_of(flow)
        executor.close()

        assert isinstance(error, ConnectionError)
        assert set() == self.left_behind() - before

    def test_nothing_is_left_of_a_flow_that_is_forgotten(self) -> None:
        """Although it was in the middle of its work."""
        before = self.left_behind()

        executor = self.make_executor()
        flow = run(from_actors(counters(4), Counter.next).gather_async(in_flight=2), executor)
        self.take(flow, 10)
        del flow
        gc.collect()
        executor.close()

        assert set() == self.left_behind() - before


def _doors(diary: Diary, place: Placement = Placement.REMOTE, jammed: str = "") -> Stream[int]:
    """Five numbers that go through the doors a, b and c."""
    stream: Stream[int] = from_items(range(5))
    for name in "abc":
        stream = stream.ask(Actor(name, partial(Door, diary, name, is_jammed=name == jammed), place), Door.echo)
    return stream
