"""The end of a flow: closed, stopped, interrupted, forgotten."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from rheos import Actor, Published, Stream, concurrently, from_actors, from_items, run
from rheos.errors import FlowTimeout, RheosWarning, UserExit
from rheos.executors.threads import ThreadsExecutor
from rheos.streams.actors import Placement
from rheos.testing.executors import ManualExecutor
from rheos.testing.fakes import StampingWorker, fake_actor, fake_group, spied, stamping_workers


class Door:
    """Writes its name into a list when it is closed."""

    def __init__(self, name: str, closed: list[str]) -> None:
        self.name = name
        self.closed = closed

    def close(self) -> None:
        self.closed.append(self.name)

    def echo(self, item: Any) -> Any:
        return item


class Jammed(Door):
    """Cannot be closed."""

    def close(self) -> None:
        super().close()
        raise OSError(f"{self.name} is jammed")


def through(*doors: Actor[Any]) -> Stream[int]:
    stream = from_items(range(100))
    for door in doors:
        stream = stream.ask(door, Door.echo)
    return stream


@pytest.fixture
def closed() -> list[str]:
    return []


def test_actors_are_closed_in_reverse_order(closed: list[str]):
    doors = [fake_actor(name, Door(name, closed)) for name in "abc"]

    run(through(*doors)).close()

    assert ["c", "b", "a"] == closed


def test_closing_twice_closes_once(closed: list[str]):
    flow = run(through(fake_actor("a", Door("a", closed))))

    flow.close()
    flow.close()

    assert ["a"] == closed


def test_a_closed_flow_has_ended():
    flow = run(from_items(range(100)))
    next(flow)

    flow.close()

    assert [] == list(flow)


def test_a_flow_that_cannot_be_built_closes_the_actors_that_it_started(closed: list[str]):
    class Uncopyable:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __call__(self, item: Any) -> Any:
            return item

        def state_dict(self) -> dict[str, Any]:
            return {}

    with pytest.raises(TypeError, match="lock"):
        run(through(fake_actor("a", Door("a", closed))).map(Uncopyable()))

    assert ["a"] == closed


def test_leaving_the_block_closes(closed: list[str]):
    with run(through(fake_actor("a", Door("a", closed)))) as flow:
        next(flow)
        assert [] == closed

    assert ["a"] == closed


def test_an_error_in_the_block_closes_and_goes_on(closed: list[str]):
    def fail_inside() -> None:
        with run(through(fake_actor("a", Door("a", closed)))) as flow:
            next(flow)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()

    assert ["a"] == closed


def test_an_error_in_the_flow_closes_and_goes_on(closed: list[str]):
    stream = through(fake_actor("a", Door("a", closed))).map(lambda item: 1 // item)

    with pytest.raises(ZeroDivisionError), run(stream) as flow:
        next(flow)

    assert ["a"] == closed


def test_every_actor_is_closed_although_one_cannot_be(closed: list[str]):
    doors = [
        fake_actor("a", Door("a", closed)),
        fake_actor("b", Jammed("b", closed)),
        fake_actor("c", Door("c", closed)),
    ]

    with pytest.raises(OSError, match="b is jammed") as caught:
        run(through(*doors)).close()

    assert ["c", "b", "a"] == closed
    assert ["while b was closed"] == caught.value.__notes__


def test_an_actor_that_cannot_be_closed_does_not_hide_the_error_of_the_flow(closed: list[str]):
    stream = through(fake_actor("a", Jammed("a", closed))).map(lambda item: 1 // item)

    with pytest.raises(ZeroDivisionError) as caught, run(stream) as flow:
        next(flow)

    assert ["a"] == closed
    assert any("OSError: a is jammed" in note for note in caught.value.__notes__)


def test_a_flow_that_is_forgotten_closes_its_actors(closed: list[str]):
    flow = run(through(fake_actor("a", Door("a", closed))))
    next(flow)

    del flow
    gc.collect()

    assert ["a"] == closed


def test_a_flow_that_failed_and_is_forgotten_closes_its_actors(closed: list[str]):
    flow = run(through(fake_actor("a", Door("a", closed))).map(lambda item: 1 // item))
    with pytest.raises(ZeroDivisionError):
        next(flow)

    del flow
    gc.collect()

    assert ["a"] == closed


def test_an_executor_can_run_another_flow_afterwards():
    manual = ManualExecutor()

    for _ in range(2):
        with run(from_actors(stamping_workers(1), StampingWorker.rollout).gather_sync(), manual) as flow:
            with pytest.raises(TimeoutError):
                flow.next(timeout_s=0)
            manual.actors["rollout-0"].finish()
            assert 1 == len(next(flow))


# threads


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


class Blocked(Door):
    """Works until it is let go."""

    def __init__(self, name: str, closed: list[str]) -> None:
        super().__init__(name, closed)
        self.is_free, self.has_begun, self.calls = threading.Event(), threading.Event(), 0

    def give(self) -> int:
        self.calls += 1
        self.has_begun.set()
        self.is_free.wait()
        return self.calls


def blocked_flow(count: int, grace_s: float) -> tuple[Any, list[Blocked]]:
    doors = [Blocked(f"blocked-{index}", []) for index in range(count)]
    stream = from_actors(fake_group("blocked", doors), Blocked.give).gather_async(in_flight=3)
    flow = run(stream, ThreadsExecutor(), grace_s=grace_s)
    with pytest.raises(TimeoutError):
        flow.next(timeout_s=0)
    for door in doors:
        door.has_begun.wait()
    return flow, doors


def test_only_the_actor_that_does_not_end_in_time_is_left_behind_and_named():
    flow, (free, stuck, other) = blocked_flow(3, grace_s=0.2)
    free.is_free.set()
    other.is_free.set()

    with pytest.warns(RheosWarning, match=r"blocked-1 still works on blocked-1\.give") as caught:
        flow.close()

    assert 1 == len(caught)
    assert [["blocked-0"], [], ["blocked-2"]] == [free.closed, stuck.closed, other.closed]
    (thread,) = of_flow("blocked-1")
    stuck.is_free.set()
    thread.join(10)
    assert ["blocked-1"] == stuck.closed, "it is closed by its own thread, once it is free"


@pytest.mark.parametrize("when", ["made", "closed"])
def test_an_actor_that_does_not_come_to_be_or_to_an_end_is_named(when: str):
    is_free = threading.Event()

    class Slow(Door):
        def __init__(self) -> None:
            if when == "made":
                is_free.wait()

        def close(self) -> None:
            is_free.wait()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    stream = through(Actor("slow", Slow, Placement.THREAD))

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
    flow, doors = blocked_flow(2, grace_s=30.0)
    letting_go = threading.Timer(0.1, lambda: [door.is_free.set() for door in doors])
    letting_go.start()

    flow.close()

    assert [1, 1] == [door.calls for door in doors]
    assert [] == of_flow("blocked-")
    letting_go.join()


def test_a_flow_whose_actors_do_not_come_to_rest_in_the_time_given_says_who():
    flow, doors = blocked_flow(1, grace_s=30.0)

    with pytest.raises(FlowTimeout, match=r"Not finished in 0.05 s: blocked-0.give, blocked-0.give, blocked-0.give"):
        flow.state_dict(timeout_s=0.05)
    doors[0].is_free.set()

    assert 3 <= len(flow.state_dict()["engine"]["announcements"]), "it goes on as if nothing had been"
    assert [1, 2, 3, 4] == [next(flow) for _ in range(4)]
    flow.close()


@pytest.mark.parametrize("when", ["made", "asked", "closed"])
def test_an_actor_in_a_thread_that_raises_an_interrupt_of_its_own_does_not_hang_the_flow(when: str):
    class Interrupting(Door):
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

    actor = Actor("interrupting", Interrupting, Placement.THREAD)

    with pytest.raises(UserExit, match="interrupting"), run(through(actor), ThreadsExecutor()) as flow:
        next(flow)

    assert [] == of_flow("interrupting")


# stop


def test_a_flow_that_is_stopped_ends_between_two_items_and_keeps_its_actors(closed: list[str]):
    door = fake_actor("a", Door("a", closed))
    with run(through(door)) as flow:
        next(flow)
        flow.stop()

        assert [] == list(flow)
        assert [] == closed
        assert "still there" == flow.ask(door, Door.echo, "still there")


def test_a_stage_may_stop_its_own_flow_and_its_item_still_comes():
    flow = run(from_items(range(100)).tap(lambda item: flow.stop() if item == 3 else None))

    assert [0, 1, 2, 3] == list(flow)


def test_a_waiting_flow_is_stopped_from_another_thread():
    flow = run(from_actors(stamping_workers(1), StampingWorker.rollout).gather_sync(), ManualExecutor())
    thread = threading.Timer(0.05, flow.stop)

    thread.start()

    assert [] == list(flow)
    thread.join()


def test_a_flow_that_is_stopped_again_and_again_always_ends():
    """The token of `stop` may be taken in at any point of a pass; none of these may hang."""
    for delay in range(40):
        flow = run(from_actors(stamping_workers(1), StampingWorker.rollout).gather_sync(), ManualExecutor())
        thread = threading.Timer(delay * 1e-5, flow.stop)
        thread.start()

        with pytest.raises(StopIteration):
            flow.next(timeout_s=30)

        thread.join()


def test_a_waiting_flow_is_stopped_from_a_signal_handler():
    flow = run(from_actors(stamping_workers(1), StampingWorker.rollout).gather_sync(), ManualExecutor())
    before = signal.signal(signal.SIGALRM, lambda *_: flow.stop())

    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)

        assert [] == list(flow)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_busy_flow_is_stopped_from_a_signal_handler():
    class Endless:
        def __iter__(self) -> Iterator[int]:
            return iter(int, 1)

    flow = run(concurrently(from_items(Endless()).drain(), from_items(Endless()).drain()))
    before = signal.signal(signal.SIGALRM, lambda *_: flow.stop())

    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)

        assert [] == list(flow)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupt_in_an_actor_reaches_the_caller_and_the_actors_are_closed(closed: list[str]):
    class Interrupted(Door):
        def echo(self, item: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), run(through(fake_actor("a", Interrupted("a", closed)))) as flow:
        next(flow)

    assert ["a"] == closed


def test_a_stopped_flow_can_be_saved_and_a_new_run_goes_on_where_it_stopped():
    stream = from_items(range(6)).map(lambda item: item * 10)
    flow = run(stream)
    first = [next(flow) for _ in range(2)]
    flow.stop()
    first += list(flow)

    going_on = run(stream)
    going_on.load_state_dict(flow.state_dict())

    assert [0, 10] == first
    assert [20, 30, 40, 50] == list(going_on)


def test_a_worker_that_was_spied_on_was_closed():
    workers = stamping_workers(2)

    with run(from_actors(workers, StampingWorker.rollout).gather_sync()) as flow:
        next(flow)

    assert [True, True] == [spied(worker).is_closed for worker in workers]


def test_ctrl_c_while_an_actor_is_closed_closes_the_others_all_the_same(closed: list[str]):
    class Interrupted(Door):
        def close(self) -> None:
            super().close()
            raise KeyboardInterrupt

    doors = [fake_actor("a", Door("a", closed)), fake_actor("b", Interrupted("b", closed))]

    with pytest.raises(KeyboardInterrupt):
        run(through(*doors)).close()

    assert ["b", "a"] == closed


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
