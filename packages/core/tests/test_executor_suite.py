"""The contract of executors finds faults: executors that are broken in one way, and a test that notices."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from rheos.executors.inline import DriverActor, InlineExecutor
from rheos.executors.protocol import NOTHING, Call, Control, LocalShared
from rheos.streams.actors import Placement
from rheos.testing.executor_suite import ExecutorSuite
from rheos.testing.executor_suite.gates import Diary

DRIVER = Placement.DRIVER
LEFT = Event()


class BrokenActor(DriverActor):
    """Does something else with a call that has finished."""

    def call(self, method: str | Control, message: Any = NOTHING, through: tuple[str, ...] = ()) -> Call:
        call = Call(self.name, method, message, through)
        self._completions.later(call, lambda call: self.after(self._host.execute(call)))
        return call

    def after(self, call: Call) -> Call:
        return call


class Hasty(BrokenActor):
    """Its newest message comes first."""

    def call(self, *arguments: Any) -> Call:
        call = super().call(*arguments)
        self._completions.on_driver.rotate(1)
        return call


class Writable(BrokenActor):
    """Its replies can be written to."""

    def after(self, call: Call) -> Call:
        call.value = copy.deepcopy(call.value)
        return call


class Repeating(BrokenActor):
    """Announces its calls twice."""

    def after(self, call: Call) -> Call:
        self._completions.announce(call)
        return call


class Flattening(BrokenActor):
    """Makes a RuntimeError of every error."""

    def after(self, call: Call) -> Call:
        call.error = call.error and RuntimeError(str(call.error))
        return call


class Converting(BrokenActor):
    """Makes lists of tuples, as JSON would."""

    def after(self, call: Call) -> Call:
        call.value = list(call.value) if isinstance(call.value, tuple) else call.value
        return call


class Lasting(BrokenActor):
    """Is not made anew."""

    def restart(self, times: int) -> Call:
        return self.call(Control.INSTALL, ("nothing", None))


class Open(DriverActor):
    """Does not close its object."""

    def close(self, grace_s: float) -> None:
        self._is_closed = True


class Swallowing(DriverActor):
    """Says nothing when its object cannot be closed."""

    def close(self, grace_s: float) -> None:
        try:
            super().close(grace_s)
        except OSError:
            return


class BrokenExecutor(InlineExecutor):
    """An executor whose actors are of a broken class."""

    def __init__(self, actor_class: type[DriverActor] = DriverActor) -> None:
        self._actor_class = actor_class

    def spawn(self, actor: Any, completions: Any) -> Any:
        return self._actor_class(actor, self.put, completions)


class Packing(BrokenExecutor):
    """Packs a value for everyone that reads it."""

    def put(self, value: Any) -> Any:
        class Packed(LocalShared[Any]):
            def get(self) -> Any:
                return copy.deepcopy(self.value)

        return Packed(value)


class Leaking(BrokenExecutor):
    """Leaves a thread behind."""

    def close(self) -> None:
        Thread(target=LEFT.wait, name="left behind").start()


class Suite(ExecutorSuite):
    """The contract of a given executor; its tests are called by hand."""

    is_parallel = False
    patience_s = 5.0
    made: Any = None

    def make_executor(self) -> Any:
        return self.made


Check = Callable[[Suite, Any, Diary], None]

FAULTS: list[tuple[Any, Check]] = [
    (
        lambda: BrokenExecutor(Hasty),
        lambda suite, executor, _: suite.test_messages_of_one_caller_reach_an_actor_in_the_order_of_sending(
            executor, DRIVER
        ),
    ),
    (
        lambda: BrokenExecutor(Writable),
        lambda suite, executor, _: suite.test_a_driver_that_writes_into_a_reply_gets_an_error(executor, "arrays"),
    ),
    (
        lambda: BrokenExecutor(Repeating),
        lambda suite, executor, _: suite.test_every_call_is_announced_once_in_the_order_of_the_mailbox(
            executor, DRIVER
        ),
    ),
    (
        lambda: BrokenExecutor(Flattening),
        lambda suite, executor, _: suite.test_an_error_of_an_actor_keeps_its_type_and_names_stage_item_and_source(
            executor, DRIVER
        ),
    ),
    (
        lambda: BrokenExecutor(Converting),
        lambda suite, executor, _: suite.test_what_is_sent_comes_back_equal_with_its_types(executor, DRIVER),
    ),
    (
        lambda: BrokenExecutor(Lasting),
        lambda suite, executor, _: suite.test_a_restart_makes_the_object_anew_behind_what_was_sent_before(
            executor, DRIVER
        ),
    ),
    (
        lambda: BrokenExecutor(Open),
        lambda suite, executor, diary: suite.test_actors_are_closed_once_and_in_reverse_order(executor, DRIVER, diary),
    ),
    (
        lambda: BrokenExecutor(Swallowing),
        lambda suite, executor, diary: suite.test_what_the_object_raises_when_it_is_closed_is_raised_once(
            executor, DRIVER, diary
        ),
    ),
    (
        Packing,
        lambda suite, executor, diary: suite.test_a_value_that_is_put_is_packed_once_and_read_by_all(executor, diary),
    ),
    (Leaking, lambda suite, _executor, _diary: suite.test_nothing_is_left_when_flow_and_executor_are_closed()),
]


@pytest.fixture
def suite() -> Iterator[Suite]:
    LEFT.clear()
    yield Suite()
    LEFT.set()


@pytest.mark.parametrize(("make", "check"), FAULTS)
def test_a_broken_executor_fails_and_a_sound_one_passes(make: Any, check: Check, suite: Suite, tmp_path: Path):
    suite.made = BrokenExecutor()
    check(suite, suite.made, Diary(str(tmp_path / "sound")))
    suite.made = make()

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(suite, suite.made, Diary(str(tmp_path / "broken")))
