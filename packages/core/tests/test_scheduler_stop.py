"""The end of a flow: closed, forgotten, interrupted, stopped."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rheos import Actor, Flow, Stream, concurrently, from_actors, from_items, run
from rheos.testing.executors import ManualExecutor
from rheos.testing.fakes import StampingWorker, fake_actor, spied, stamping_workers


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


def test_a_worker_that_was_spied_on_was_closed():
    workers = stamping_workers(2)

    with run(from_actors(workers, StampingWorker.rollout).gather_sync()) as flow:
        next(flow)

    assert [True, True] == [spied(worker).is_closed for worker in workers]


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


def test_an_interrupt_in_an_actor_reaches_the_caller_and_the_actors_are_closed(closed: list[str]):
    class Interrupted(Door):
        def echo(self, item: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), run(through(fake_actor("a", Interrupted("a", closed)))) as flow:
        next(flow)

    assert ["a"] == closed


def test_ctrl_c_while_an_actor_is_closed_closes_the_others_all_the_same(closed: list[str]):
    class Interrupted(Door):
        def close(self) -> None:
            super().close()
            raise KeyboardInterrupt

    doors = [fake_actor("a", Door("a", closed)), fake_actor("b", Interrupted("b", closed))]

    with pytest.raises(KeyboardInterrupt):
        run(through(*doors)).close()

    assert ["b", "a"] == closed


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


def items_until_a_signal_handler_stops(flow: Flow[Any]) -> list[Any]:
    before = signal.signal(signal.SIGALRM, lambda *_: flow.stop())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        return list(flow)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_waiting_flow_is_stopped_from_a_signal_handler():
    flow = run(from_actors(stamping_workers(1), StampingWorker.rollout).gather_sync(), ManualExecutor())

    assert [] == items_until_a_signal_handler_stops(flow)


def test_a_busy_flow_is_stopped_from_a_signal_handler():
    class Endless:
        def __iter__(self) -> Iterator[int]:
            return iter(int, 1)

    flow = run(concurrently(from_items(Endless()).drain(), from_items(Endless()).drain()))

    assert [] == items_until_a_signal_handler_stops(flow)


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
