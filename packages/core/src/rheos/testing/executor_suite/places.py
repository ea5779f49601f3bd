"""Places: where actors live, how many there may be, and flows side by side and inside one another."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from rheos.scheduler.flow import Flow, run
from rheos.streams.actors import Actor, ActorGroup, Placement, Route
from rheos.streams.stream import from_actors, from_items
from rheos.testing.executor_suite.actors import Counter, Keeper, Nested, Place, counters
from rheos.testing.executor_suite.base import ContractBase, failure_of

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor

__all__ = ["PlacesContract"]

PLACES = [Placement.DRIVER, Placement.THREAD, Placement.REMOTE]


class PlacesContract(ContractBase):
    """An actor lives where its description says, or in the nearest place that there is."""

    def test_an_actor_that_is_placed_on_the_driver_is_made_and_works_in_its_thread(self, executor: Executor) -> None:
        """On every executor."""
        place = Actor("place", Place, Placement.DRIVER)

        with run(from_items([1]).ask(place, Place.ask), executor) as flow:
            reply = self.rest(flow)

        here = (os.getpid(), threading.get_ident())
        assert [(here, here)] == reply

    def test_an_actor_that_is_placed_in_a_thread_is_made_and_works_in_one_of_this_process(
        self, executor: Executor
    ) -> None:
        """In another one than the driver's, where there are others."""
        place = Actor("place", Place, Placement.THREAD)

        with run(from_items([1, 2]).ask(place, Place.ask), executor) as flow:
            replies = self.rest(flow)

        ((process, thread),) = {where for reply in replies for where in reply}
        assert os.getpid() == process
        assert self.is_parallel == (thread != threading.get_ident())

    def test_every_actor_that_is_remote_has_a_place_of_its_own(self, executor: Executor) -> None:
        """It is made where it works; where everything is on the driver, that is everybody's place."""
        group = ActorGroup("place", 3, Place, placement=Placement.REMOTE)

        with run(from_actors(group, Place.next).gather_sync(), executor) as flow:
            rounds = self.take(flow, 2)

        own = [{where for round_ in rounds for where in round_[index]} for index in range(3)]
        here = (os.getpid(), threading.get_ident())
        assert [1, 1, 1] == list(map(len, own))
        assert (3 if self.is_parallel else 1) == len(set.union(*own))
        assert self.is_parallel == (here not in set.union(*own))

    def test_a_learner_is_on_the_driver_in_a_synchronous_flow_and_else_in_a_thread(self, executor: Executor) -> None:
        """`Placement.AUTO`: where the driver would only wait for it, it works itself."""
        group, learner = counters(2), Actor("learner", Place)
        source = from_actors(group, Counter.next)

        with run(source.gather_sync().ask(learner, Place.ask), executor) as flow:
            ((synchronous, _),) = self.take(flow, 1)
        with run(source.gather_async().ask(learner, Place.ask), executor) as flow:
            ((asynchronous, _),) = self.take(flow, 1)

        here = (os.getpid(), threading.get_ident())
        assert here == synchronous
        assert os.getpid() == asynchronous[0]
        assert self.is_parallel == (here != asynchronous)

    @pytest.mark.parametrize("receiver", PLACES)
    @pytest.mark.parametrize("sender", PLACES)
    def test_one_flow_joins_actors_in_different_places(
        self, executor: Executor, sender: Placement, receiver: Placement
    ) -> None:
        """The run has one wait for all of them."""
        source = ActorGroup("counter", 2, Counter, placement=sender)
        keeper = Actor("keeper", Keeper, receiver)
        stream = from_actors(source, Counter.next).gather_async().ask(keeper, Keeper.echo, in_flight=2)

        with run(stream, executor) as flow:
            items = self.take(flow, 20)

        for index in range(2):
            own = [number for shard, number in items if shard == index]
            assert list(range(1, len(own) + 1)) == own

    def test_many_actors_answer_and_are_told(self, executor: Executor) -> None:
        """As many as `many` says."""
        group = ActorGroup("keeper", self.many, Keeper)
        stream = from_actors(group, Keeper.told).gather_sync().tell(group, Keeper.keep, message=len, route=Route.ALL)

        with run(stream, executor) as flow:
            rounds = self.take(flow, 3)

        assert [tuple((index, told) for index in range(self.many)) for told in range(3)] == rounds

    def test_two_flows_run_on_one_executor_at_a_time(self, executor: Executor) -> None:
        """Each with actors of its own, although they have the same names; one may end before the other."""
        stream = from_actors(counters(2), Counter.next).gather_sync()

        with run(stream, executor) as first:
            with run(stream, executor) as second:
                rounds = [self.take(flow, 1)[0] for flow in (first, second, first, first, second)]
            rounds += self.take(first, 1)

        assert [((0, number), (1, number)) for number in (1, 1, 2, 3, 2, 4)] == rounds

    def test_two_flows_run_on_one_executor_in_two_threads(self, executor: Executor) -> None:
        """Whoever runs a flow is its driver."""
        stream = from_actors(counters(2), Counter.next).gather_sync()
        rounds: dict[int, list[tuple[tuple[int, int], ...]]] = {}

        def drive(number: int) -> None:
            with run(stream, executor) as flow:
                rounds[number] = self.take(flow, 20)

        drivers = [threading.Thread(target=drive, args=(number,)) for number in range(2)]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()

        assert [((0, number), (1, number)) for number in range(1, 21)] == rounds[0] == rounds[1]

    def test_one_flow_runs_after_another_on_one_executor(self, executor: Executor) -> None:
        """Nothing is left of the first."""
        stream = from_actors(counters(2), Counter.next).gather_sync()

        rounds = []
        for _ in range(3):
            with run(stream, executor) as flow:
                rounds += self.take(flow, 2)

        assert [((0, number), (1, number)) for number in (1, 2)] * 3 == rounds

    @pytest.mark.parametrize("place", PLACES)
    def test_an_actor_may_run_a_flow_of_its_own(self, executor: Executor, place: Placement) -> None:
        """In a method: two rounds of two actors for the first item, three for the second."""
        nested = Actor("nested", Nested, place)

        with run(from_items([2, 3]).ask(nested, Nested.total), executor) as flow:
            totals = self.rest(flow)

        assert [2 * (1 + 2), 2 * (1 + 2 + 3)] == totals

    @pytest.mark.parametrize("place", PLACES)
    def test_an_error_in_a_flow_inside_an_actor_reaches_the_outer_flow(
        self, executor: Executor, place: Placement
    ) -> None:
        """With the type that it had."""
        nested = Actor("nested", Nested, place)
        flow: Flow[object] = run(from_items([1, 3]).ask(nested, Nested.failing), executor)

        with flow:
            items = self.take(flow, 1)
            error = failure_of(flow)

        assert ([[1]], ZeroDivisionError) == (items, type(error))
