"""Failures: errors that are raised again and again, actors that are made anew, and those that are given up."""

from __future__ import annotations

import os
import re
import warnings
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rheos.errors import ActorDied, RheosWarning, UserExit, UserStopIteration
from rheos.reports import LearnerReport
from rheos.scheduler.flow import run
from rheos.scheduler.recovery import FailurePolicy
from rheos.streams.actors import Actor, Placement, Published, Route
from rheos.streams.stream import Stream, from_actors, from_items
from rheos.testing.executor_suite.actors import Counter, Numbering, Publisher, counters
from rheos.testing.executor_suite.base import ContractBase, failure_of
from rheos.testing.executor_suite.troubles import Door, Given, Mortal, Raising, explode, failing_factory, mortals

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor
    from rheos.testing.executor_suite.gates import Diary

__all__ = ["FailuresContract"]

PLACES = [Placement.DRIVER, Placement.THREAD, Placement.REMOTE]
SOON = FailurePolicy(max_restarts=3, backoff_s=0.01)


class FailuresContract(ContractBase):
    """An error keeps its type and says where it came about; what fails is made anew, and the rest loses nothing."""

    @pytest.mark.parametrize("place", PLACES)
    def test_an_error_of_an_actor_keeps_its_type_and_names_stage_item_and_source(
        self, executor: Executor, place: Placement
    ) -> None:
        """As a note; the message is the user's own."""
        with run(from_items(range(5)).ask(Actor("raising", Raising, place), Raising.at_3), executor) as flow:
            error = failure_of(flow)

        assert (ZeroDivisionError, "at 3") == (type(error), str(error))
        assert _has_note(error, r"in stage 2: ask\(Raising\.at_3\) \[.+:\d+\], item 4")

    def test_an_error_of_a_source_names_the_actor(self, executor: Executor, diary: Diary) -> None:
        """Which of many it was."""
        with run(from_actors(mortals(diary, 3), Mortal.next).gather_async(), executor) as flow:
            error = failure_of(flow)

        assert isinstance(error, ConnectionError)
        assert _has_note(error, r"in stage 2: gather_async.* \[.+:\d+\], item \d+ from mortal-1")

    def test_an_error_of_a_function_at_the_actor_names_that_function(self, executor: Executor) -> None:
        """Its stage, not the one that asked."""
        stream = from_actors(counters(2), Counter.next).map(explode).map(str).gather_sync()

        with run(stream, executor) as flow:
            error = failure_of(flow)

        assert isinstance(error, ZeroDivisionError)
        assert _has_note(error, r"in stage 2: map at the actor\(explode\) \[.+:\d+\], item 1 from counter-\d")

    def test_an_error_of_a_function_on_the_driver_names_stage_and_item(self, executor: Executor) -> None:
        """Also with actors before it."""
        with run(from_actors(counters(2), Counter.next).gather_sync().map(explode), executor) as flow:
            error = failure_of(flow)

        assert isinstance(error, ZeroDivisionError)
        assert _has_note(error, r"in stage 3: map\(explode\) \[.+:\d+\], item 1 from counter-0, counter-1")

    @pytest.mark.parametrize("place", PLACES)
    def test_the_same_error_is_raised_again_and_again_and_never_an_end(
        self, executor: Executor, place: Placement
    ) -> None:
        """Also once the flow is closed."""
        with run(from_items(range(5)).ask(Actor("raising", Raising, place), Raising.at_3), executor) as flow:
            errors = [failure_of(flow) for _ in range(3)]
        errors.append(failure_of(flow))

        assert [id(errors[0])] * 4 == list(map(id, errors))

    @pytest.mark.parametrize("place", PLACES)
    def test_the_items_before_an_error_are_given(self, executor: Executor, place: Placement) -> None:
        """In their order."""
        stream = from_items(range(5)).ask(Actor("raising", Raising, place), Raising.at_3, in_flight=2)

        with run(stream, executor) as flow:
            items = self.take(flow, 2)
            error = failure_of(flow)

        assert ([0, 1], ZeroDivisionError) == (items, type(error))

    @pytest.mark.parametrize("place", PLACES)
    def test_what_python_reads_as_an_end_is_an_error(self, executor: Executor, place: Placement) -> None:
        """A user's StopIteration must not look like the end of the stream."""
        with run(from_items([1]).ask(Actor("raising", Raising, place), Raising.stop_iteration), executor) as flow:
            error = failure_of(flow)

        assert isinstance(error, UserStopIteration)
        assert "Raising.stop_iteration raised StopIteration" in str(error)

    @pytest.mark.parametrize("place", PLACES)
    def test_what_would_end_the_program_is_an_error(self, executor: Executor, place: Placement) -> None:
        """A user's SystemExit ends neither the driver nor the place where the actor lives."""
        raising = Actor("raising", Raising, place)

        with run(from_items([1]).ask(raising, Raising.system_exit), executor) as flow:
            error = failure_of(flow)
            reply = flow.ask(raising, Raising.at_3, 7)

        assert isinstance(error, UserExit)
        assert "Raising.system_exit raised SystemExit(1)" in str(error)
        assert 7 == reply

    @pytest.mark.parametrize("place", PLACES)
    def test_an_actor_that_cannot_be_made_is_named_and_those_before_it_are_closed(
        self, executor: Executor, place: Placement, diary: Diary
    ) -> None:
        """`run` raises what the factory raised."""
        door = Actor("door", _door(diary), place)
        stream = from_items([1]).ask(door, Door.echo).ask(Actor("broken", failing_factory, place), Raising.at_3)

        with pytest.raises(LookupError, match="no such file") as caught:
            run(stream, executor)

        assert _has_note(caught.value, "while broken was started")
        assert ["door closed"] == diary.lines()

    def test_an_error_beside_the_flow_is_raised_there_and_the_flow_goes_on(self, executor: Executor) -> None:
        """`flow.ask` is no stage."""
        raising = Actor("raising", Raising, Placement.REMOTE)

        with run(from_items([1, 2, 4]).ask(raising, Raising.at_3), executor) as flow:
            before = self.take(flow, 1)
            with pytest.raises(ZeroDivisionError, match="at 3"):
                flow.ask(raising, Raising.at_3, 3)
            after = self.rest(flow)

        assert ([1], [2, 4]) == (before, after)

    # made anew

    def test_a_shard_that_fails_is_made_anew_and_answers_in_the_same_round_with_the_current_weights(
        self, executor: Executor, diary: Diary
    ) -> None:
        """Nobody else loses anything, and the round is whole."""
        rounds: list[tuple[Given, ...]] = []

        with (
            run(_learning(diary, rounds), executor, failures=SOON) as flow,
            pytest.warns(RheosWarning, match=r"mortal-1 failed and is made anew .*ConnectionError: life 1"),
        ):
            self.take(flow, 4)

        expected = [[Given(index, 1, n, n - 1) for index in range(3)] for n in range(1, 5)]
        expected[2][1], expected[3][1] = Given(1, 2, 1, 2), Given(1, 2, 2, 3)
        assert expected == [list(round_) for round_ in rounds]

    @pytest.mark.parametrize("in_flight", [1, 3])
    def test_items_of_the_others_are_not_lost_when_a_shard_is_made_anew(
        self, executor: Executor, diary: Diary, in_flight: int
    ) -> None:
        """The numbers of every life are without a gap, and the one that failed goes on."""
        stream = from_actors(mortals(diary, 3), Mortal.next).gather_async(in_flight=in_flight)

        with warnings.catch_warnings(), run(stream, executor, failures=SOON) as flow:
            warnings.simplefilter("ignore", RheosWarning)
            items = self.take_until(flow, lambda item: (item.shard, item.life) == (1, 2), 5)

        numbers = defaultdict[tuple[int, int], list[int]](list)
        for item in items:
            numbers[item.shard, item.life].append(item.number)
        assert {(0, 1), (1, 1), (1, 2), (2, 1)} >= set(numbers)
        assert [1, 2] == numbers[1, 1]
        assert [list(range(1, len(own) + 1)) for own in numbers.values()] == list(numbers.values())

    def test_an_actor_that_is_no_source_is_not_made_anew(self, executor: Executor, diary: Diary) -> None:
        """A learner would take its state with it: its error ends the run."""
        raising = Actor("raising", Raising)
        stream = from_actors(mortals(diary, 2, lives=0), Mortal.next).gather_sync().map(len)

        with run(stream.map(lambda count: count + 1).ask(raising, Raising.at_3), executor, failures=SOON) as flow:
            error = failure_of(flow)

        assert (ZeroDivisionError, "at 3") == (type(error), str(error))
        assert ["0", "1"] == sorted(diary.lines())

    def test_functions_are_installed_again_in_an_actor_that_is_made_anew(
        self, executor: Executor, diary: Diary
    ) -> None:
        """They begin anew there."""
        stream = from_actors(mortals(diary, 2), Mortal.next).map(Numbering()).gather_sync()

        with run(stream, executor, failures=SOON) as flow, pytest.warns(RheosWarning, match="mortal-1 failed"):
            rounds = self.take(flow, 4)

        assert [1, 2, 3, 4] == [round_[0][1] for round_ in rounds]
        assert [(1, 1), (1, 2), (2, 1), (2, 2)] == [(round_[1][0].life, round_[1][1]) for round_ in rounds]

    def test_a_shard_that_fails_too_often_ends_the_run_with_its_last_error(
        self, executor: Executor, diary: Diary
    ) -> None:
        """After `max_restarts`."""
        stream = from_actors(mortals(diary, 2, lives=9), Mortal.next).gather_sync()

        with run(stream, executor, failures=FailurePolicy(2, 0.01)) as flow, pytest.warns(RheosWarning) as warned:
            error = failure_of(flow)

        assert ["1 of 2", "2 of 2"] == [re.findall(r"restart (.+)\)", str(warning.message))[0] for warning in warned]
        assert (ConnectionError, "life 3") == (type(error), str(error))
        assert _has_note(error, "mortal-1 had been made anew 2 times, max_restarts=2")
        assert ["0", "1", "1", "1"] == sorted(diary.lines())

    def test_a_shard_that_is_given_up_leaves_the_others_while_enough_are_healthy(
        self, executor: Executor, diary: Diary
    ) -> None:
        """`min_healthy`: the rounds go on without it."""
        stream = from_actors(mortals(diary, 3, lives=9), Mortal.next).gather_sync()

        with (
            run(stream, executor, failures=FailurePolicy(1, 0.01, min_healthy=2)) as flow,
            pytest.warns(RheosWarning) as warned,
        ):
            rounds = self.take(flow, 6)

        assert re.match(r"mortal-1 is given up .*2 of 3 go on", str(warned[-1].message))
        assert [[0, 1, 2]] * 4 + [[0, 2]] * 2 == [[item.shard for item in round_] for round_ in rounds]
        assert [1, 2, 3, 4, 5, 6] == [round_[0].number for round_ in rounds]

    def test_an_actor_whose_process_is_gone_is_made_anew_in_the_same_round(
        self, executor: Executor, diary: Diary
    ) -> None:
        """Where actors have processes of their own."""
        self._needs_processes(executor, diary)

        rounds: list[tuple[Given, ...]] = []

        with (
            run(_learning(diary, rounds, is_killed=True), executor, failures=SOON) as flow,
            pytest.warns(RheosWarning, match="mortal-1 failed and is made anew"),
        ):
            self.take(flow, 4)

        assert [[(0, 1), (1, 1), (2, 1)]] * 2 + [[(0, 1), (1, 2), (2, 1)]] * 2 == [
            [(item.shard, item.life) for item in round_] for round_ in rounds
        ]
        assert [Given(1, 2, 1, 2), Given(1, 2, 2, 3)] == [round_[1] for round_ in rounds[2:]]

    def test_an_actor_whose_process_is_gone_is_an_error_that_names_it(self, executor: Executor, diary: Diary) -> None:
        """Where actors have processes of their own, and are not made anew."""
        self._needs_processes(executor, diary)

        with run(from_actors(mortals(diary, 2, is_killed=True), Mortal.next).gather_sync(), executor) as flow:
            error = failure_of(flow)

        assert isinstance(error, ActorDied)
        assert "mortal-1" in str(error)

    def _needs_processes(self, executor: Executor, diary: Diary) -> None:
        group = mortals(type(diary)(f"{diary.path}-of-processes"), 1)
        with run(from_actors(group, Mortal.process).gather_sync(), executor) as flow:
            if os.getpid() in self.take(flow, 1)[0]:
                pytest.skip("actors live in this process, and cannot die alone")


def _learning(diary: Diary, rounds: list[tuple[Given, ...]], *, is_killed: bool = False) -> Stream[LearnerReport]:
    """Rounds of three actors of which one fails; each round makes new weights, which all get, and is noted."""
    group, learner = mortals(diary, 3, is_killed=is_killed), Actor("learner", Publisher)
    newest = Published(learner, Publisher.weights)
    return (
        from_actors(group, Mortal.next, first=(Mortal.load, lambda _: newest))
        .gather_sync()
        .tap(rounds.append)
        .ask(learner, Publisher.update)
        .tell(group, Mortal.load, message=lambda _: newest, route=Route.ALL)
    )


def _door(diary: Diary) -> partial[Door]:
    return partial(Door, diary, "door")


def _has_note(error: BaseException, pattern: str) -> bool:
    return any(re.fullmatch(pattern, note) for note in getattr(error, "__notes__", []))
