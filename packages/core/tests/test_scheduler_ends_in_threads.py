"""The end of a flow whose actors work in threads: none is left behind but one that does not end in time."""

from __future__ import annotations

import gc
import signal
import threading
from contextlib import suppress
from typing import Any

import pytest

from rheos import Actor, Published, from_actors, from_items, run
from rheos.errors import FlowTimeout, RheosWarning, UserExit
from rheos.executors.threads import ThreadsExecutor
from rheos.streams.actors import Placement
from rheos.testing.fakes import StampingWorker, fake_group, spied


def of_flow(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


def test_an_unfinished_flow_that_is_forgotten_leaves_no_thread():
    workers = fake_group("forgotten", [StampingWorker(f"forgotten-{index}") for index in range(4)])
    flow = run(from_actors(workers, StampingWorker.rollout).gather_async(in_flight=2), ThreadsExecutor())
    next(flow)
    assert 4 == len(of_flow("forgotten-"))

    del flow
    gc.collect()

    assert [] == of_flow("forgotten-")
    assert [True] * 4 == [spied(worker).is_closed for worker in workers]


def test_a_flow_on_threads_that_failed_leaves_no_thread():
    workers = fake_group("failing", [StampingWorker(f"failing-{index}") for index in range(3)])
    stream = from_actors(workers, StampingWorker.rollout).gather_async().map(lambda batch: 1 // 0)

    with pytest.raises(ZeroDivisionError), run(stream, ThreadsExecutor()) as flow:
        next(flow)

    assert [] == of_flow("failing-")


class Blocked:
    """Works until it is let go; counts how often it was closed."""

    def __init__(self) -> None:
        self.is_free, self.has_begun = threading.Event(), threading.Event()
        self.calls = self.closed = 0

    def give(self) -> int:
        self.calls += 1
        self.has_begun.set()
        self.is_free.wait()
        return self.calls

    def close(self) -> None:
        self.closed += 1


def blocked_flow(count: int, grace_s: float) -> tuple[Any, list[Blocked]]:
    actors = [Blocked() for _ in range(count)]
    stream = from_actors(fake_group("blocked", actors), Blocked.give).gather_async(in_flight=3)
    flow = run(stream, ThreadsExecutor(), grace_s=grace_s)
    with pytest.raises(TimeoutError):
        flow.next(timeout_s=0)
    for actor in actors:
        actor.has_begun.wait()
    return flow, actors


def test_only_the_actor_that_does_not_end_in_time_is_left_behind_and_named():
    flow, (free, stuck, other) = blocked_flow(3, grace_s=0.2)
    free.is_free.set()
    other.is_free.set()

    with pytest.warns(RheosWarning, match=r"blocked-1 still works on blocked-1\.give") as caught:
        flow.close()

    assert 1 == len(caught)
    assert [1, 0, 1] == [free.closed, stuck.closed, other.closed]
    (thread,) = of_flow("blocked-1")
    stuck.is_free.set()
    thread.join(10)
    assert 1 == stuck.closed, "it is closed by its own thread, once it is free"


@pytest.mark.parametrize("when", ["made", "closed"])
def test_an_actor_that_does_not_come_to_be_or_to_an_end_is_named(when: str):
    is_free = threading.Event()

    class Slow:
        def __init__(self) -> None:
            if when == "made":
                is_free.wait()

        def echo(self, item: int) -> int:
            return item

        def close(self) -> None:
            is_free.wait()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    stream = from_items(range(100)).ask(Actor("slow", Slow, Placement.THREAD), Slow.echo)

    def start_and_close() -> None:
        with suppress(KeyboardInterrupt):
            run(stream, ThreadsExecutor(), grace_s=0.05).close()

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        if when == "made":
            signal.setitimer(signal.ITIMER_REAL, 0.5)  # the driver waits for it by then
        with pytest.warns(RheosWarning, match=f"slow is still being {when} when the time to end is over"):
            start_and_close()
    finally:
        signal.signal(signal.SIGALRM, before)
        is_free.set()


def test_what_was_sent_but_has_not_begun_is_dropped_when_a_flow_is_closed():
    flow, actors = blocked_flow(2, grace_s=30.0)
    letting_go = threading.Timer(0.1, lambda: [actor.is_free.set() for actor in actors])
    letting_go.start()

    flow.close()

    assert [1, 1] == [actor.calls for actor in actors]
    assert [] == of_flow("blocked-")
    letting_go.join()


def test_a_flow_whose_actors_do_not_come_to_rest_in_the_time_given_says_who():
    flow, (actor,) = blocked_flow(1, grace_s=30.0)

    with pytest.raises(FlowTimeout, match=r"Not finished in 0.05 s: blocked-0.give, blocked-0.give, blocked-0.give"):
        flow.state_dict(timeout_s=0.05)
    actor.is_free.set()

    assert 3 <= len(flow.state_dict()["engine"]["announcements"]), "it goes on as if nothing had been"
    assert [1, 2, 3, 4] == [next(flow) for _ in range(4)]
    flow.close()


@pytest.mark.parametrize("when", ["made", "asked", "closed"])
def test_an_actor_in_a_thread_that_raises_an_interrupt_of_its_own_does_not_hang_the_flow(when: str):
    class Interrupting:
        def __init__(self) -> None:
            if when == "made":
                raise KeyboardInterrupt

        def echo(self, item: Any) -> Any:
            if when == "asked":
                raise KeyboardInterrupt
            return item

        def close(self) -> None:
            if when == "closed":
                raise KeyboardInterrupt

    stream = from_items(range(100)).ask(Actor("interrupting", Interrupting, Placement.THREAD), Interrupting.echo)

    with pytest.raises(UserExit, match="interrupting"), run(stream, ThreadsExecutor()) as flow:
        next(flow)

    assert [] == of_flow("interrupting")


def test_ctrl_c_in_a_call_on_the_driver_lets_a_thread_go_that_waits_for_it():
    class Learning:
        def weights(self) -> Any:
            raise KeyboardInterrupt

    learner = Actor("learner", Learning, Placement.DRIVER)
    workers = fake_group("patient", [StampingWorker("patient-0")])
    newest = Published(learner, Learning.weights)
    stream = from_actors(workers, StampingWorker.rollout, first=(StampingWorker.load, lambda _: newest)).gather_sync()

    with pytest.raises(KeyboardInterrupt), run(stream, ThreadsExecutor(), grace_s=30.0) as flow:
        next(flow)

    assert [] == of_flow("patient-")
