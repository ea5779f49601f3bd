"""Recovery that fails: actors that are given up, that cannot be made anew, or that are not to blame."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import pytest

from rheos import ActorGroup, EndOfShard, Published, concurrently, from_actors, run
from rheos.errors import ActorDied, FlowMistake
from rheos.executors.protocol import Executor
from rheos.scheduler.flow import Flow
from rheos.scheduler.recovery import FailurePolicy
from rheos.testing.executors import ManualExecutor
from rheos.testing.failing import FragileTeam, FragileWorker, item_now, methods_waiting, state_by_hand
from rheos.testing.fakes import CountingLearner, fake_actor

AT_ONCE = FailurePolicy(max_restarts=3, backoff_s=0.0)


def take(flow: Flow[Any], count: int) -> list[Any]:
    with flow:
        return [next(flow) for _ in range(count)]


# giving up


def test_an_actor_is_given_up_while_enough_are_left_and_the_rounds_go_on_without_it(
    executor: Executor, warned: list[str]
):
    team = FragileTeam(3, {(1, incarnation): 2 for incarnation in range(9)})
    policy = FailurePolicy(1, 0.0, min_healthy=2)

    rounds = take(run(team.give().gather_sync(), executor, failures=policy), 4)

    assert [[0, 1, 2], [0, 1, 2], [0, 2], [0, 2]] == [[index for index, _, _ in round_] for round_ in rounds]
    assert "worker-1 is given up after 1 restart, 2 of 3 go on: ZeroDivisionError: worker 1 failed" == warned[-1]


def test_a_group_that_would_become_too_small_ends_the_flow(executor: Executor, warned: list[str]):
    fails = {(index, incarnation): 2 for index in (0, 1) for incarnation in range(9)}
    policy = FailurePolicy(1, 0.0, min_healthy=2)

    with (
        pytest.raises(ZeroDivisionError) as caught,
        run(FragileTeam(3, fails).give().gather_async(), executor, failures=policy) as flow,
    ):
        list(flow)

    (note,) = [note for note in caught.value.__notes__ if "min_healthy" in note]
    assert note.endswith("max_restarts=1; 1 of 3 would be left, min_healthy=2")
    assert 1 == len([text for text in warned if "given up" in text])


def test_a_shard_that_is_given_up_is_not_asked_again_by_gather_async(executor: Executor, warned: list[str]):
    team = FragileTeam(2, {(0, 0): 1, (0, 1): 1})
    taken: list[Any] = []

    with run(team.give().gather_async(in_flight=2), executor, failures=FailurePolicy(1, 0.0, 1)) as flow:
        while not any("given up" in text for text in warned):
            taken.append(next(flow))
        taken += [next(flow) for _ in range(20)]

    assert [(1, 0, count) for count in range(1, len(taken) + 1)] == taken
    assert 2 == team.made[0]


def test_a_group_that_is_given_up_to_its_last_actor_never_ends_like_a_success(executor: Executor, warned: Any):
    fails = {(index, incarnation): 1 for index in range(3) for incarnation in range(9)}

    with (
        pytest.raises(ZeroDivisionError),
        run(FragileTeam(3, fails).give().gather_async(), executor, failures=FailurePolicy(1, 0.0, 1)) as flow,
    ):
        next(flow)


# failing again on the way


def test_a_factory_that_fails_at_the_restart_is_tried_again(executor: Executor, warned: list[str]):
    team = FragileTeam(2, {(1, 0): 2}, unborn=[(1, 1), (1, 2)])

    rounds = take(run(team.give().gather_sync(), executor, failures=AT_ONCE), 3)

    assert [(1, 0, 1), (1, 3, 1), (1, 3, 2)] == [round_[1] for round_ in rounds]
    assert [
        ("restart 1 of 3", "ZeroDivisionError"),
        ("restart 2 of 3", "OSError"),
        ("restart 3 of 3", "OSError"),
    ] == [(text.partition("(")[2].partition(")")[0], text.split(": ")[1]) for text in warned]


def test_a_factory_that_fails_at_every_restart_ends_the_flow_with_its_error(executor: Executor, warned: Any):
    team = FragileTeam(1, {(0, 0): 1}, unborn=[(0, 1), (0, 2)])

    with (
        pytest.raises(OSError, match="worker 0 was not born") as caught,
        run(team.give().gather_sync(), executor, failures=FailurePolicy(2, 0.0)) as flow,
    ):
        next(flow)

    assert "while worker-0 was made anew" in caught.value.__notes__
    assert [(0, 0)] == team.closed, "what was closed is not closed again"


def test_a_first_message_that_fails_is_a_failure_like_any_other(executor: Executor, warned: list[str]):
    team = FragileTeam(2, deaf=[(1, 0), (1, 1)])

    rounds = take(run(team.give(first=lambda _: 5).gather_sync(), executor, failures=AT_ONCE), 2)

    assert [((0, 0, 1), (1, 2, 1)), ((0, 0, 2), (1, 2, 2))] == rounds
    assert ["OSError: worker 1 is deaf"] * 2 == [text.partition("): ")[2] for text in warned]


def test_a_first_message_that_always_fails_ends_the_flow_with_the_source_as_its_place(warned: Any):
    team = FragileTeam(1, deaf=[(0, incarnation) for incarnation in range(9)])

    with pytest.raises(OSError, match="deaf") as caught:
        next(run(team.give(first=lambda _: 5).gather_sync(), failures=FailurePolicy(1, 0.0)))

    assert [True] == [note.startswith("in stage 1: from_actors(") for note in caught.value.__notes__ if "stage" in note]


def test_a_first_message_that_cannot_be_made_is_a_mistake_of_the_driver_and_no_failure_of_the_actor():
    flow = run(FragileTeam(1).give(first=lambda _: 1 // 0).gather_sync(), failures=AT_ONCE)

    with pytest.raises(ZeroDivisionError):
        next(flow)


def test_what_a_worker_gives_after_its_first_message_failed_is_not_taken(warned: list[str]):
    team, manual = FragileTeam(1, deaf=[(0, 0)]), ManualExecutor()
    flow = run(team.give(first=lambda _: 5).gather_async(in_flight=2), manual, failures=AT_ONCE)
    item_now(flow)

    manual.actors["worker-0"].finish(3)

    assert None is item_now(flow)
    item_now(flow)
    assert ["restart", "load", "give", "give"] == methods_waiting(manual, "worker-0")
    assert 1 == len(warned)


def test_what_a_worker_gave_before_it_failed_is_taken(warned: Any):
    team, manual = FragileTeam(1, {(0, 0): 2}), ManualExecutor()
    flow = run(team.give().gather_async(in_flight=2), manual, failures=AT_ONCE)
    item_now(flow)

    manual.actors["worker-0"].finish(2)
    state = state_by_hand(flow, manual)  # where the failure is announced before what came before it

    assert (0, 0, 1) == item_now(flow)
    restored = run(FragileTeam(1).give().gather_async(in_flight=2))
    restored.load_state_dict(state)
    assert [(0, 0, 1), (0, 0, 1), (0, 0, 2)] == take(restored, 3)


def test_a_learner_that_cannot_give_its_weights_is_not_taken_for_a_failure_of_the_worker(executor: Executor):
    class Broken(CountingLearner):
        def weights(self) -> Any:
            raise MemoryError("no weights")

    team, learner = FragileTeam(2), fake_actor("learner", Broken())
    rounds = team.give(first=lambda _: Published(learner, Broken.weights)).gather_sync()

    with pytest.raises(MemoryError, match="no weights"), run(rounds, executor, failures=AT_ONCE) as flow:
        next(flow)

    assert Counter({0: 1, 1: 1}) == team.made


# when nobody is left


def test_what_only_a_given_up_actor_could_be_asked_is_an_error(executor: Executor, warned: list[str]):
    team = FragileTeam(2, {(0, 0): 1, (0, 1): 1})
    stream = team.give().gather_async().ask(team.workers[:1], FragileWorker.take)

    with (
        pytest.raises(ActorDied, match=r"^worker-0: given up, so nobody can be asked\."),
        run(stream, executor, failures=FailurePolicy(1, 0.0, 1)) as flow,
    ):
        list(flow)


def test_what_only_a_given_up_actor_could_be_told_is_lost_and_counted(executor: Executor, warned: list[str]):
    team = FragileTeam(2, {(0, 0): 1, (0, 1): 1})
    stream = team.give().gather_async().tell(team.workers[:1], FragileWorker.take)

    with run(stream, executor, failures=FailurePolicy(1, 0.0, 1)) as flow:
        while team.made[0] < 2 or not warned[-1].startswith("worker-0 is given up"):
            next(flow)  # on threads, when that comes is for them to say
        before = flow.statistics().stages[-1]
        list(islice(flow, 20))
        after = flow.statistics().stages[-1]

        assert 20 == after.items - before.items
        assert after.lost - before.lost == 20


def test_an_actor_of_two_groups_is_given_up_only_where_enough_are_left_in_both(executor: Executor, warned: list[str]):
    team = FragileTeam(2, {(0, incarnation): 1 for incarnation in range(3)})
    alone = from_actors(team.workers[:1], FragileWorker.give).gather_sync().map(lambda round_: round_[0])

    with (
        pytest.raises(ZeroDivisionError) as caught,
        run(concurrently(alone, team.give().gather_async()), executor, failures=FailurePolicy(1, 0.0, 1)) as flow,
    ):
        list(islice(flow, 200))

    assert any("0 of 1 would be left" in note for note in caught.value.__notes__)


class Finite:
    """Gives two items, says that it has no more, and fails when it is asked once more."""

    def __init__(self, index: int) -> None:
        self.given = 0

    def give(self) -> Any:
        self.given += 1
        if self.given > 3:
            raise ZeroDivisionError
        return EndOfShard() if self.given == 3 else self.given


def test_a_shard_that_has_ended_is_not_made_anew(executor: Executor):
    stream = from_actors(ActorGroup("finite", 1, Finite), Finite.give).gather_async(in_flight=3)

    with run(stream, executor, failures=AT_ONCE) as flow:
        taken = list(flow)

    assert [1, 2] == taken


# policies that make no sense


@pytest.mark.parametrize(
    "wrong", [{"max_restarts": "x"}, {"max_restarts": -1}, {"backoff_s": -1.0}, {"min_healthy": 0}]
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any]):
    with pytest.raises(FlowMistake, match=r"^FailurePolicy\(.*expected max_restarts"):
        FailurePolicy(**wrong)


def test_more_healthy_actors_than_there_are_cannot_be_wanted():
    with pytest.raises(FlowMistake, match=r"min_healthy is more than the 2 of worker-0, worker-1\."):
        run(FragileTeam(2).give().gather_sync(), failures=FailurePolicy(1, 0.0, min_healthy=3))


def test_without_restarts_an_actor_can_be_given_up_at_once(executor: Executor, warned: list[str]):
    team = FragileTeam(2, {(0, 0): 2})

    rounds = take(run(team.give().gather_sync(), executor, failures=FailurePolicy(0, 0.0, min_healthy=1)), 3)

    assert [2, 1, 1] == [len(round_) for round_ in rounds]
    assert ["worker-0 is given up, 1 of 2 go on: ZeroDivisionError: worker 0 failed"] == warned
