"""Bounds, order and the one wait, on an executor whose calls finish when the test says so."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from rheos import ActorGroup, Route, concurrently, from_actors, from_items, round_robin, run
from rheos.errors import FlowTimeout
from rheos.scheduler.flow import Flow
from rheos.testing.executors import ManualExecutor
from rheos.testing.fakes import StampingWorker, fake_actor, fake_group, spied, stamping_workers


class Echo:
    """Gives back what it is sent; counts its own items."""

    def __init__(self) -> None:
        self.count = 0
        self.got: list[Any] = []

    def next(self) -> int:
        self.count += 1
        return self.count

    def echo(self, item: Any) -> Any:
        self.got.append(item)
        return item


def echoes(count: int, role: str = "echo") -> ActorGroup[Echo]:
    return fake_group(role, [Echo() for _ in range(count)])


def nothing_comes(flow: Flow[Any], timeout_s: float = 0) -> bool:
    try:
        flow.next(timeout_s=timeout_s)
    except FlowTimeout:
        return True
    return False


def waiting(manual: ManualExecutor) -> list[int]:
    return [len(actor.waiting) for actor in manual.actors.values()]


@pytest.fixture
def manual() -> ManualExecutor:
    return ManualExecutor()


# bounds


@pytest.mark.parametrize("in_flight", [1, 3])
def test_gather_async_has_at_most_in_flight_requests_outstanding_a_shard(manual: ManualExecutor, in_flight: int):
    flow = run(from_actors(echoes(2), Echo.next).gather_async(in_flight=in_flight), manual)

    assert nothing_comes(flow)
    assert nothing_comes(flow)

    assert [in_flight, in_flight] == waiting(manual)


def test_gather_sync_has_one_request_outstanding_a_shard(manual: ManualExecutor):
    flow = run(from_actors(echoes(3), Echo.next).gather_sync(), manual)

    assert nothing_comes(flow)
    manual.actors["echo-1"].finish()
    assert nothing_comes(flow)

    assert [1, 0, 1] == waiting(manual)


@pytest.mark.parametrize("in_flight", [1, 4])
def test_ask_takes_exactly_as_many_items_as_its_actors_may_have(manual: ManualExecutor, in_flight: int):
    taken: list[int] = []
    flow = run(from_items(range(100)).tap(taken.append).ask(echoes(2), Echo.echo, in_flight=in_flight), manual)

    assert nothing_comes(flow)

    assert 2 * in_flight == len(taken)
    assert [in_flight, in_flight] == waiting(manual)


def test_a_reply_that_nobody_takes_keeps_its_place_in_the_window(manual: ManualExecutor):
    taken: list[int] = []
    echo = fake_actor("echo", Echo())
    asked = from_items(range(100)).tap(taken.append).ask(echo, Echo.echo, in_flight=2)
    flow = run(round_robin(asked, from_actors(echoes(1, "slow"), Echo.next).gather_async()), manual)

    assert nothing_comes(flow)
    manual.actors["echo"].finish(2)
    assert 0 == flow.next()
    for _ in range(3):  # it is the turn of the other child, which has nothing
        assert nothing_comes(flow)

    assert 2 == len(taken)


def test_tell_has_at_most_in_flight_messages_unacknowledged(manual: ManualExecutor):
    flow = run(from_items(range(100)).tell(fake_actor("echo", Echo()), Echo.echo, in_flight=3), manual)

    passed = [flow.next(timeout_s=0) for _ in range(3)]
    held = nothing_comes(flow)
    manual.actors["echo"].finish()
    passed.append(flow.next(timeout_s=0))

    assert held
    assert [0, 1, 2, 3] == passed
    assert [3] == waiting(manual)


def test_tell_to_all_sends_to_those_that_have_room_and_waits_for_the_others(manual: ManualExecutor):
    group = echoes(2)
    flow = run(from_items(range(10)).tell(group, Echo.echo, in_flight=1, route=Route.ALL), manual)

    flow.next()
    manual.actors["echo-0"].finish()
    held = nothing_comes(flow)
    manual.actors["echo-1"].finish()
    flow.next()
    for name in ("echo-0", "echo-1"):
        manual.actors[name].finish()

    assert held
    assert [[0, 1], [0, 1]] == [spied(actor).got for actor in group]


def test_a_message_in_turn_passes_over_an_actor_whose_window_is_full(manual: ManualExecutor):
    flow = run(from_items(range(10)).tell(echoes(2), Echo.echo, in_flight=2), manual)

    for _ in range(4):
        flow.next()
    manual.actors["echo-1"].finish(2)
    for _ in range(2):
        flow.next()

    assert [2, 2] == waiting(manual)
    assert [4, 5] == [call.message for call in manual.actors["echo-1"].waiting]


def test_a_tee_holds_no_more_than_its_lag_for_a_branch_that_is_behind(manual: ManualExecutor):
    taken: list[int] = []
    left, right = from_items(range(100)).tap(taken.append).tee(2, max_lag=4)
    slow = right.ask(fake_actor("slow", Echo()), Echo.echo)
    flow = run(concurrently(left.drain(), slow), manual)

    assert nothing_comes(flow, timeout_s=0.05)  # time for the steps that use items up

    assert 1 + 4 + 1 == len(taken)  # one with the actor; one more than the lag, for "more than" stops it


@pytest.mark.parametrize("taken", [1, 2, 9])
@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_consumer_that_stalls_stops_every_producer_after_exactly_the_bound(in_flight: int, taken: int):
    workers = stamping_workers(3)

    with run(from_actors(workers, StampingWorker.rollout).gather_async(in_flight=in_flight)) as flow:
        for _ in range(taken):
            next(flow)
        for worker in workers:
            flow.ask(worker, StampingWorker.state_dict)  # whatever was sent before is done by now

    assert 3 * in_flight + taken - 1 == sum(spied(worker).rollouts for worker in workers)


def test_a_consumer_that_stalls_behind_a_barrier_stops_every_producer_after_the_round():
    workers = stamping_workers(3)

    with run(from_actors(workers, StampingWorker.rollout).gather_sync()) as flow:
        next(flow), next(flow)
        flow.ask(workers[2], StampingWorker.state_dict)

    assert [2, 2, 2] == [spied(worker).rollouts for worker in workers]


# order


def test_ask_keeps_the_order_of_the_items_whatever_the_order_of_the_replies(manual: ManualExecutor):
    flow = run(from_items("abc").ask(echoes(3), Echo.echo), manual)

    assert nothing_comes(flow)
    manual.actors["echo-2"].finish()
    manual.actors["echo-1"].finish()
    held = nothing_comes(flow)
    manual.actors["echo-0"].finish()

    assert held
    assert list("abc") == list(flow)


def test_an_unordered_ask_gives_replies_as_they_come(manual: ManualExecutor):
    flow = run(from_items("abc").ask(echoes(3), Echo.echo, ordered=False), manual)

    assert nothing_comes(flow)
    for name in ("echo-2", "echo-0", "echo-1"):
        manual.actors[name].finish()

    assert list("cab") == list(flow)


def test_gather_async_gives_items_as_they_come(manual: ManualExecutor):
    flow = run(from_actors(echoes(2), Echo.next).map(str).gather_async(), manual)

    assert nothing_comes(flow)
    manual.actors["echo-1"].finish(2)  # the function that is installed, and the request

    assert "1" == flow.next(timeout_s=0)


def test_the_messages_of_one_flow_reach_an_actor_in_the_order_in_which_they_were_sent(manual: ManualExecutor):
    echo = fake_actor("echo", Echo())
    stream = from_items([1, 2, 3]).tell(echo, Echo.echo, message=lambda x: -x).tell(echo, Echo.echo)
    flow = run(stream, manual)

    for _ in range(3):
        flow.next()

    assert [-1, 1, -2, 2, -3, 3] == [call.message for call in manual.actors["echo"].waiting]


# one wait


def test_a_call_on_the_driver_never_runs_inside_the_sending_of_another():
    depth, deepest = 0, 0

    class Nested:
        def work(self, item: int) -> int:
            nonlocal depth, deepest
            depth += 1
            deepest = max(deepest, depth)
            depth -= 1
            return item

    def sending(item: int) -> int:
        assert depth == 0
        return item

    one, other = fake_actor("one", Nested()), fake_actor("other", Nested())
    stream = from_items(range(20)).ask(one, Nested.work, in_flight=3).tell(other, Nested.work, message=sending)

    assert list(range(20)) == list(run(stream))
    assert 1 == deepest


def test_first_everything_is_sent_and_then_the_driver_works():
    sent_when_the_first_ran: list[int] = []
    sent: list[int] = []

    class Slow:
        def work(self, item: int) -> int:
            sent_when_the_first_ran.append(len(sent))
            return item

    stream = from_items(range(10)).tap(sent.append).ask(fake_actor("slow", Slow()), Slow.work, in_flight=4)

    next(run(stream))

    assert 4 == sent_when_the_first_ran[0]


def test_a_waiting_flow_polls_nothing(manual: ManualExecutor):
    echo = fake_actor("echo", Echo())
    flow = run(from_items([1]).ask(echo, Echo.echo), manual)
    polls = 0
    poll = flow._root.poll

    def counting_poll() -> Any:
        nonlocal polls
        polls += 1
        return poll()

    flow._root.poll = counting_poll  # type: ignore[method-assign]

    for _ in range(5):
        with pytest.raises(FlowTimeout):
            flow.next(timeout_s=0.02)

    assert polls <= 3 * 5  # before and after the wait of each call, and once behind the first move


def test_a_reply_from_another_thread_wakes_the_flow(manual: ManualExecutor):
    flow = run(from_items([7]).ask(fake_actor("echo", Echo()), Echo.echo), manual)
    assert nothing_comes(flow)
    thread = threading.Timer(0.05, manual.actors["echo"].finish)

    thread.start()

    assert 7 == flow.next(timeout_s=30)
    thread.join()


def test_a_timeout_names_what_is_outstanding_and_the_flow_goes_on_with_the_next_call(manual: ManualExecutor):
    flow = run(from_actors(echoes(2), Echo.next).gather_sync(), manual)
    assert nothing_comes(flow)
    manual.actors["echo-0"].finish()

    with pytest.raises(FlowTimeout, match=r"gather_sync \[test_scheduler_bounds.py:\d+\]: waits for echo-1"):
        flow.next(timeout_s=0.01)
    manual.actors["echo-1"].finish()

    assert (1, 1) == flow.next(timeout_s=0)


def test_a_timeout_of_nothing_still_gives_what_is_there():
    assert 1 == run(from_items([1])).next(timeout_s=0)
