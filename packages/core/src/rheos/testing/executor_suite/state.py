"""State: a flow that is cut between two items, and goes on in a new run with new actors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rheos.scheduler.flow import run
from rheos.streams.actors import Actor, ActorGroup, Placement
from rheos.streams.stream import from_actors, from_items
from rheos.testing.executor_suite.actors import Counter, Keeper, Numbering, counters
from rheos.testing.executor_suite.base import ContractBase

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor

__all__ = ["StateContract"]

PLACES = [Placement.DRIVER, Placement.THREAD, Placement.REMOTE]


class StateContract(ContractBase):
    """What is in flight at a cut finishes and is part of the state; nothing is lost, and nothing comes twice."""

    def test_a_flow_that_is_cut_goes_on_as_if_it_had_not_been(self, executor: Executor) -> None:
        """The one that was cut, and the one that was restored; also the functions at the actors."""
        group = counters(3)
        stream = from_actors(group, Counter.next).map(Numbering()).gather_sync()

        with run(stream, executor) as flow:
            self.take(flow, 3)
            state = flow.state_dict()
            counts = [flow.ask(actor, Counter.state_dict) for actor in group]
            uncut = self.take(flow, 3)
        with run(stream, executor) as restored:
            for actor, count in zip(group, counts, strict=True):
                restored.ask(actor, Counter.load_state_dict, count)
            restored.load_state_dict(state)
            after = self.take(restored, 3)

        assert [tuple(((index, number), number) for index in range(3)) for number in (4, 5, 6)] == uncut == after

    @pytest.mark.parametrize("taken", [1, 2, 7])
    @pytest.mark.parametrize("in_flight", [1, 3])
    def test_items_that_were_in_flight_at_a_cut_come_once(self, executor: Executor, in_flight: int, taken: int) -> None:
        """Of every shard, in their order, whatever had been asked for and not been given."""
        group = counters(3)
        stream = from_actors(group, Counter.next).map(Numbering()).gather_async(in_flight=in_flight)

        with run(stream, executor) as flow:
            items = self.take(flow, taken)
            state = flow.state_dict()
            counts = [flow.ask(actor, Counter.state_dict) for actor in group]
        with run(stream, executor) as restored:
            for actor, count in zip(group, counts, strict=True):
                restored.ask(actor, Counter.load_state_dict, count)
            restored.load_state_dict(state)
            items += self.take(restored, 30)

        for index in range(3):
            own = [(number, call) for (shard, number), call in items if shard == index]
            assert [(number, number) for number in range(1, len(own) + 1)] == own

    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("taken", [1, 5])
    def test_messages_that_were_in_flight_at_a_cut_are_answered_once(
        self, executor: Executor, place: Placement, taken: int
    ) -> None:
        """In the order of the items."""
        group = ActorGroup("keeper", 2, Keeper, placement=place)
        stream = from_items(range(20)).ask(group, Keeper.echo, in_flight=3)

        with run(stream, executor) as flow:
            items = self.take(flow, taken)
            state = flow.state_dict()
        with run(stream, executor) as restored:
            restored.load_state_dict(state)
            items += self.rest(restored)

        assert list(range(20)) == items

    def test_a_flow_whose_state_was_taken_goes_on_with_what_was_in_flight(self, executor: Executor) -> None:
        """Between any two items."""
        keeper = Actor("keeper", Keeper)
        stream = from_items(range(12)).tell(keeper, Keeper.keep).ask(keeper, Keeper.echo, in_flight=3)
        items = []

        with run(stream, executor) as flow:
            for _ in range(12):
                items += self.take(flow, 1)
                flow.state_dict()
            rest = self.rest(flow)
            kept = flow.ask(keeper, Keeper.everything)

        assert (list(range(12)), []) == (items, rest)
        assert [number for number in range(12) for _ in range(2)] == kept
