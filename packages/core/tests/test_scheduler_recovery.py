"""Recovery: a source that fails is made anew in the same round, in time, and nobody else loses anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rheos import ActorGroup, Published, Route, from_actors, run
from rheos.errors import FlowMistake
from rheos.executors.protocol import Executor
from rheos.scheduler.flow import Flow
from rheos.scheduler.recovery import FailurePolicy
from rheos.testing.executors import ManualExecutor
from rheos.testing.failing import FragileTeam, item_now, methods_waiting
from rheos.testing.fakes import CountingLearner, StampingWorker, counting_learner

AT_ONCE = FailurePolicy(max_restarts=3, backoff_s=0.0)


def take(flow: Flow[Any], count: int) -> list[Any]:
    with flow:
        return [next(flow) for _ in range(count)]


def take_until(flow: Flow[Any], is_enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Return items until there are enough: on threads, chance decides how many come from whom."""
    taken: list[Any] = []
    with flow:
        while not is_enough(taken):
            taken.append(flow.next(timeout_s=60))
    return taken


# the same round


def test_a_worker_that_fails_gives_its_part_of_the_same_round_once_it_is_made_anew(executor: Executor, warned: Any):
    team = FragileTeam(3, {(1, 0): 2})

    rounds = take(run(team.give().gather_sync(), executor, failures=AT_ONCE), 3)

    assert [
        ((0, 0, 1), (1, 0, 1), (2, 0, 1)),
        ((0, 0, 2), (1, 1, 1), (2, 0, 2)),
        ((0, 0, 3), (1, 1, 2), (2, 0, 3)),
    ] == rounds
    assert (1, 0) == team.closed[0], "the predecessor is closed before its successor is made"


def test_the_others_are_asked_once_a_round_whatever_becomes_of_one(warned: Any):
    team, manual = FragileTeam(2, {(0, 0): 1}), ManualExecutor()
    flow = run(team.give().gather_sync(), manual, failures=AT_ONCE)
    item_now(flow)

    manual.actors["worker-0"].finish()
    item_now(flow), item_now(flow)

    assert ["restart", "give"] == methods_waiting(manual, "worker-0")
    assert ["give"] == methods_waiting(manual, "worker-1")


def test_a_worker_that_is_made_anew_gets_the_weights_of_now_and_not_those_of_then(executor: Executor, warned: Any):
    team, version = FragileTeam(2, {(1, 0): 3}), iter(range(10, 100))
    rounds = team.give(first=lambda _: next(version)).gather_sync()

    take(run(rounds, executor, failures=AT_ONCE), 4)

    assert {10, 11} == {*team.newest[0].loaded, *team.first[1].loaded}
    assert [12] == team.newest[1].loaded


def test_a_worker_that_is_made_anew_acts_with_the_newest_published_weights(warned: Any):
    learner, made = counting_learner(), Counter[int]()

    class Fragile(StampingWorker):
        def __init__(self, index: int) -> None:
            super().__init__(f"rollout-{index}")
            made[index] += 1
            self.limit = 3 if made[index] == 1 and index == 1 else 100

        def rollout(self) -> Any:
            if self.rollouts + 1 >= self.limit:
                raise ZeroDivisionError
            return super().rollout()

    workers = ActorGroup("rollout", 2, Fragile)
    newest = Published(learner, CountingLearner.weights)
    flow = run(
        from_actors(workers, Fragile.rollout, first=(Fragile.load, lambda _: newest))
        .gather_sync()
        .tap(lambda batches: versions.append([batch.info.version_min for batch in batches]))
        .map(lambda batches: batches[0])
        .ask(learner, CountingLearner.update)
        .tell(workers, Fragile.load, message=lambda _: newest, route=Route.ALL),
        failures=AT_ONCE,
    )
    versions: list[list[int]] = []

    take(flow, 5)

    assert [[0, 0], [1, 1], [2, 2], [3, 3], [4, 4]] == versions
    assert 2 == made[1]


def test_the_functions_at_an_actor_are_installed_again_and_begin_anew(executor: Executor, warned: Any):
    class Numbered:
        count = 0

        def __call__(self, item: Any) -> Any:
            self.count += 1
            return (*item, self.count)

    team = FragileTeam(2, {(1, 0): 3})

    rounds = take(run(team.give().map(Numbered()).gather_sync(), executor, failures=AT_ONCE), 4)

    assert [(1, 0, 1, 1), (1, 0, 2, 2), (1, 1, 1, 1), (1, 1, 2, 2)] == [round_[1] for round_ in rounds]
    assert [1, 2, 3, 4] == [round_[0][-1] for round_ in rounds]


def test_functions_and_first_message_come_before_the_first_request_of_the_new_actor(warned: Any):
    team, manual = FragileTeam(1, {(0, 0): 1}), ManualExecutor()
    flow = run(team.give(first=lambda _: 7).map(str).gather_sync(), manual, failures=AT_ONCE)
    item_now(flow)

    manual.actors["worker-0"].finish(3)
    item_now(flow), item_now(flow)

    assert ["restart", "install", "load", "give"] == methods_waiting(manual, "worker-0")


def test_a_function_at_the_actor_that_raises_is_a_failure_of_the_actor(executor: Executor, warned: Any):
    def picky(item: Any) -> Any:
        if item[:3] == (0, 0, 2):
            raise KeyError("picky")
        return item

    rounds = take(run(FragileTeam(1).give().map(picky).gather_sync(), executor, failures=AT_ONCE), 3)

    assert [((0, 0, 1),), ((0, 1, 1),), ((0, 1, 2),)] == rounds


# gather_async


def test_a_shard_that_fails_among_others_goes_on_where_its_successor_begins(executor: Executor, warned: Any):
    team = FragileTeam(3, {(0, 0): 4, (2, 0): 1})
    flow = run(team.give().gather_async(in_flight=2), executor, failures=AT_ONCE)

    taken = take_until(flow, lambda taken: {(0, 1), (2, 1)} <= {item[:2] for item in taken[:-40]})

    counts = {who: [item[2] for item in taken if item[:2] == who] for who in {item[:2] for item in taken}}
    assert [1, 2, 3] == counts[0, 0]
    assert (2, 0) not in counts
    assert [[*range(1, len(counted) + 1)] for counted in counts.values()] == list(counts.values())


@pytest.mark.parametrize("in_flight", [2, 3])
def test_what_else_was_sent_to_a_failed_actor_is_no_second_failure(in_flight: int, warned: list[str]):
    team, manual = FragileTeam(1, {(0, 0): 1}), ManualExecutor()
    flow = run(team.give().gather_async(in_flight=in_flight), manual, failures=AT_ONCE)
    item_now(flow)

    manual.actors["worker-0"].finish(in_flight)  # they all fail
    item_now(flow), item_now(flow)

    assert ["restart", *["give"] * in_flight] == methods_waiting(manual, "worker-0")
    assert 1 == len(warned)


def test_requests_that_were_sent_behind_the_failure_and_answered_late_are_asked_again_in_full(warned: list[str]):
    team, manual = FragileTeam(1, {(0, 0): 1}), ManualExecutor()
    flow = run(team.give().gather_async(in_flight=3), manual, failures=AT_ONCE)
    item_now(flow)

    manual.actors["worker-0"].finish()
    item_now(flow), item_now(flow)
    assert ["give", "give", "restart", "give"] == methods_waiting(manual, "worker-0")
    manual.actors["worker-0"].finish(2)
    item_now(flow), item_now(flow)

    assert ["restart", "give", "give", "give"] == methods_waiting(manual, "worker-0")
    assert 1 == len(warned)


# when, and how often


def test_the_pause_before_a_restart_doubles_each_time(restart_clock: Any, warned: list[str]):
    team, manual = FragileTeam(1, {(0, incarnation): 1 for incarnation in range(3)}), ManualExecutor()
    policy = FailurePolicy(max_restarts=3, backoff_s=10.0)
    flow = run(team.give().gather_sync(), manual, failures=policy)
    item_now(flow)

    for pause_s in (10.0, 20.0, 40.0):
        manual.actors["worker-0"].finish()
        item_now(flow)
        restart_clock.now += pause_s - 0.001
        assert None is item_now(flow)
        assert [] == methods_waiting(manual, "worker-0")
        restart_clock.now += 0.002
        item_now(flow), item_now(flow)
        assert ["restart", "give"] == methods_waiting(manual, "worker-0")
        manual.actors["worker-0"].finish()

    manual.actors["worker-0"].finish()
    assert ((0, 3, 1),) == item_now(flow)
    assert ["10 s", "20 s", "40 s"] == [text.partition(" made anew in ")[2].partition(" (")[0] for text in warned]


def test_the_pause_grows_to_64_times_its_beginning_and_no_further(warned: list[str]):
    team = FragileTeam(1, {(0, incarnation): 1 for incarnation in range(2_000)})

    assert [((0, 2_000, 1),)] == take(run(team.give().gather_sync(), failures=FailurePolicy(2_000, 1e-9)), 1)

    assert [f"{1e-9 * 2 ** min(number, 6):g} s" for number in range(2_000)] == [
        text.partition(" made anew in ")[2].partition(" (")[0] for text in warned
    ]


def test_two_actors_wait_for_their_own_restarts(restart_clock: Any, warned: Any):
    team, manual = FragileTeam(2, {(0, 0): 1, (1, 0): 1}), ManualExecutor()
    flow = run(team.give().gather_sync(), manual, failures=FailurePolicy(3, 10.0))
    item_now(flow)
    manual.actors["worker-0"].finish()
    item_now(flow)
    restart_clock.now = 5.0
    manual.actors["worker-1"].finish()
    item_now(flow)

    restart_clock.now = 11.0
    item_now(flow), item_now(flow)

    assert ["restart", "give"] == methods_waiting(manual, "worker-0")
    assert [] == methods_waiting(manual, "worker-1")


def test_the_flow_wakes_for_a_restart_that_is_due_although_nothing_is_announced(warned: Any):
    flow = run(FragileTeam(1, {(0, 0): 1}).give().gather_sync(), failures=FailurePolicy(1, backoff_s=0.05))

    assert ((0, 1, 1),) == flow.next(timeout_s=60)


def test_an_actor_that_fails_too_often_ends_the_flow_with_its_last_error(executor: Executor, warned: list[str]):
    team = FragileTeam(2, {(1, incarnation): 1 for incarnation in range(9)})

    with (
        pytest.raises(ZeroDivisionError, match="worker 1 failed") as caught,
        run(team.give().gather_sync(), executor, failures=FailurePolicy(2, 0.0)) as flow,
    ):
        next(flow)

    assert 3 == team.made[1]
    assert 2 == len(warned)
    assert "worker-1 had been made anew 2 times, max_restarts=2" in caught.value.__notes__
    assert [True] == [note.endswith("from worker-1") for note in caught.value.__notes__ if note.startswith("in stage")]


def test_without_restarts_the_first_failure_ends_the_flow(executor: Executor):
    team = FragileTeam(2, {(1, 0): 1})

    with pytest.raises(ZeroDivisionError), run(team.give().gather_sync(), executor) as flow:
        next(flow)

    assert Counter({0: 1, 1: 1}) == team.made


def test_a_warning_names_the_actor_the_count_and_the_cause(executor: Executor, warned: list[str]):
    team = FragileTeam(2, {(1, 0): 1, (1, 1): 2})

    take(run(team.give().gather_sync(), executor, failures=AT_ONCE), 3)

    assert [
        "worker-1 failed and is made anew in 0 s (restart 1 of 3): ZeroDivisionError: worker 1 failed",
        "worker-1 failed and is made anew in 0 s (restart 2 of 3): ZeroDivisionError: worker 1 failed",
    ] == warned


@pytest.mark.parametrize(
    "numbers", [{"max_restarts": -1}, {"backoff_s": -0.1}, {"min_healthy": 0}], ids=lambda numbers: str(*numbers)
)
def test_a_policy_that_makes_no_sense_is_refused(numbers: dict[str, Any]):
    with pytest.raises(FlowMistake, match="expected max_restarts"):
        FailurePolicy(**numbers)
