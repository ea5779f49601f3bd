"""The protocol itself, without a flow: starting, calling, announcing, making anew, closing."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rheos.errors import RheosError
from rheos.executors.protocol import Call, Completions, Control
from rheos.streams.actors import Actor, Placement
from rheos.testing.executor_suite.actors import Counter, Keeper, Numbering, Publisher, Reborn
from rheos.testing.executor_suite.base import ContractBase
from rheos.testing.executor_suite.troubles import Door, Raising, failing_factory

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor, RunningActor
    from rheos.testing.executor_suite.gates import Diary

__all__ = ["ProtocolContract"]

PLACES = [Placement.DRIVER, Placement.THREAD, Placement.REMOTE]


class ProtocolContract(ContractBase):
    """Spawn, call, announce, restart and close, in every place."""

    @pytest.mark.parametrize("place", PLACES)
    def test_an_actor_has_its_name_and_is_alive_until_it_is_closed(self, executor: Executor, place: Placement) -> None:
        """The name is that of the description."""
        actor = executor.spawn(Actor("counter", Counter, place), Completions())
        actor.wait_until_started()

        alive = [actor.alive]
        actor.close(5.0)
        alive.append(actor.alive)

        assert ("counter", [True, False]) == (actor.name, alive)

    @pytest.mark.parametrize("place", PLACES)
    def test_every_call_is_announced_once_in_the_order_of_the_mailbox(
        self, executor: Executor, place: Placement
    ) -> None:
        """Calls may be sent before the actor's object is there."""
        completions, (actor,) = _spawned(executor, Actor("counter", Counter, place))

        calls = [actor.call("next") for _ in range(5)]
        announced = self._announced(completions, 5, actor)

        assert [(0, number) for number in range(1, 6)] == [call.value for call in calls]
        assert list(map(id, calls)) == list(map(id, announced))
        assert completions.take() is None
        assert not completions.has_driver_work

    @pytest.mark.parametrize("place", PLACES)
    def test_a_call_that_failed_is_announced_with_its_error(self, executor: Executor, place: Placement) -> None:
        """Hosts return outcomes: what a method raises never ends the actor."""
        completions, (actor,) = _spawned(executor, Actor("raising", Raising, place))

        calls = [actor.call("at_3", 3), actor.call("at_3", 4)]
        self._announced(completions, 2, actor)

        assert [ZeroDivisionError, type(None)] == [type(call.error) for call in calls]
        assert [None, 4] == [call.value for call in calls]

    @pytest.mark.parametrize("place", PLACES)
    def test_a_call_says_when_it_began_and_when_it_ended(self, executor: Executor, place: Placement) -> None:
        """In seconds, so that the busy time of an actor can be told."""
        completions, (actor,) = _spawned(executor, Actor("counter", Counter, place))

        began_at = perf_counter()
        call = actor.call("next")
        self._announced(completions, 1)
        took_s = perf_counter() - began_at
        actor.close(5.0)

        assert 0.0 < call.began_at <= call.ended_at
        assert call.ended_at - call.began_at <= took_s

    @pytest.mark.parametrize("receiver", PLACES)
    @pytest.mark.parametrize("sender", PLACES)
    def test_a_call_is_a_message_and_stands_for_its_reply(
        self, executor: Executor, sender: Placement, receiver: Placement
    ) -> None:
        """Also between two places; the receiver waits for the reply, the driver does not."""
        sending, receiving = Actor("counter", Counter, sender), Actor("keeper", Keeper, receiver)
        completions, (counter, keeper) = _spawned(executor, sending, receiving)

        echo = keeper.call("echo", counter.call("next"))
        self._announced(completions, 2, keeper, counter)

        assert (0, 1) == echo.value

    @pytest.mark.parametrize("receiver", PLACES)
    @pytest.mark.parametrize("sender", PLACES)
    def test_a_call_whose_message_failed_fails_with_the_error_of_the_message(
        self, executor: Executor, sender: Placement, receiver: Placement
    ) -> None:
        """The method is not called."""
        sending, receiving = Actor("raising", Raising, sender), Actor("keeper", Keeper, receiver)
        completions, (raising, keeper) = _spawned(executor, sending, receiving)

        calls = [keeper.call("echo", raising.call("at_3", 3)), keeper.call("everything")]
        self._announced(completions, 3, keeper, raising)

        assert isinstance(calls[0].error, ZeroDivisionError)
        assert [] == calls[1].value

    @pytest.mark.parametrize("place", PLACES)
    def test_a_call_goes_through_the_functions_that_were_installed(self, executor: Executor, place: Placement) -> None:
        """Each actor has its own copy, whose state can be taken and given back."""
        completions, (actor,) = _spawned(executor, Actor("counter", Counter, place))
        numbering = Numbering()

        actor.call(Control.INSTALL, ("numbering", numbering))
        actor.call(Control.LOAD_FUNCTION_STATE, ("numbering", {"calls": 6}))
        call = actor.call("next", through=("numbering",))
        state = actor.call(Control.FUNCTION_STATE, "numbering")
        self._announced(completions, 4, actor)

        assert ((0, 1), 7) == call.value
        assert ({"calls": 7}, 0) == (state.value, numbering.calls)

    @pytest.mark.parametrize("place", PLACES)
    def test_a_restart_makes_the_object_anew_behind_what_was_sent_before(
        self, executor: Executor, place: Placement
    ) -> None:
        """The new object knows nothing of the old one."""
        completions, (actor,) = _spawned(executor, Actor("counter", Counter, place))

        before = [actor.call("next") for _ in range(2)]
        restart = actor.restart(1)
        after = [actor.call("next") for _ in range(2)]
        self._announced(completions, 5, actor)

        assert restart.error is None
        assert [(0, 1), (0, 2)] == [call.value for call in before] == [call.value for call in after]

    @pytest.mark.parametrize("place", PLACES)
    def test_an_object_that_is_made_anew_hears_how_often_that_was(self, executor: Executor, place: Placement) -> None:
        """So that it need not repeat what its predecessors did."""
        completions, (actor,) = _spawned(executor, Actor("reborn", Reborn, place))

        before = actor.call("told")
        actor.restart(1)
        once = actor.call("told")
        actor.restart(2)
        twice = actor.call("told")
        self._announced(completions, 5, actor)

        assert [0, 1, 2] == [before.value, once.value, twice.value]

    @pytest.mark.parametrize("place", PLACES)
    def test_an_object_that_cannot_be_made_raises_when_its_start_is_waited_for(
        self, executor: Executor, place: Placement
    ) -> None:
        """In `spawn` or in `wait_until_started`, with the type that the factory raised."""
        spawned: list[RunningActor] = []

        def start() -> None:
            spawned.append(executor.spawn(Actor("broken", failing_factory, place), Completions()))
            spawned[0].wait_until_started()

        with pytest.raises(LookupError, match="no such file"):
            start()
        for actor in spawned:
            actor.close(5.0)

    @pytest.mark.parametrize("place", PLACES)
    def test_an_actor_that_is_closed_twice_closes_its_object_once(
        self, executor: Executor, place: Placement, diary: Diary
    ) -> None:
        """And the object's `close` has returned when the first one returns."""
        actor = executor.spawn(Actor("door", _door(diary), place), Completions())
        actor.wait_until_started()

        actor.close(5.0)
        lines = diary.lines()
        actor.close(5.0)

        assert ["door closed"] == lines == diary.lines()

    @pytest.mark.parametrize("place", PLACES)
    def test_what_the_object_raises_when_it_is_closed_is_raised_once(
        self, executor: Executor, place: Placement, diary: Diary
    ) -> None:
        """The actor is closed all the same."""
        actor = executor.spawn(Actor("door", _door(diary, is_jammed=True), place), Completions())
        actor.wait_until_started()

        with pytest.raises(OSError, match="door is jammed"):
            actor.close(5.0)
        actor.close(5.0)

        assert not actor.alive
        assert ["door closed"] == diary.lines()

    def test_what_was_put_once_is_got_many_times(self, executor: Executor) -> None:
        """And is equal to what was put."""
        shared = executor.put({"weights": np.arange(3)})

        values = [shared.get()["weights"].tolist() for _ in range(3)]

        assert [[0, 1, 2]] * 3 == values

    def test_an_executor_may_be_closed_twice(self) -> None:
        """And is closed in the end in any case."""
        executor = self.make_executor()
        with_actor: Any = executor.spawn(Actor("publisher", Publisher, Placement.REMOTE), Completions())
        with_actor.wait_until_started()
        with_actor.close(5.0)

        executor.close()
        executor.close()

        assert not with_actor.alive

    def test_an_executor_has_the_name_by_which_it_is_chosen(self, executor: Executor) -> None:
        """`executor=<name>`: an identifier."""
        assert executor.name.replace("-", "_").isidentifier()

    def _announced(self, completions: Completions, count: int, *closed: RunningActor) -> list[Call]:
        """Take in so many calls, in the order in which they are announced, and close actors then."""
        announced: list[Call] = []
        give_up_at = perf_counter() + self.patience_s
        while len(announced) < count:
            if completions.has_driver_work:
                call: Call | None = completions.run_one_on_driver()
            else:
                call = completions.wait(give_up_at - perf_counter() if perf_counter() < give_up_at else 0.0)
            if call is not None:
                announced.append(call)
            elif perf_counter() >= give_up_at:
                raise RheosError(f"{len(announced)} of {count} calls were announced in {self.patience_s:g} s.")
        for actor in closed:
            actor.close(5.0)
        return announced


def _spawned(executor: Executor, *actors: Actor[Any]) -> tuple[Completions, list[RunningActor]]:
    """Start actors that announce their calls in one place, and return it and them."""
    completions = Completions()
    return completions, [executor.spawn(actor, completions) for actor in actors]


def _door(diary: Diary, *, is_jammed: bool = False) -> partial[Door]:
    return partial(Door, diary, "door", is_jammed=is_jammed)
