"""Order and freshness: whose messages come first, and how old the weights are that act."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from rheos.batches import Batch
from rheos.scheduler.flow import run
from rheos.streams.actors import Actor, ActorGroup, Placement, Published, Route
from rheos.streams.stream import from_actors, from_items
from rheos.testing.executor_suite.actors import Finite, Keeper, Publisher, Slow, finite, stamping_workers
from rheos.testing.executor_suite.base import ContractBase
from rheos.testing.fakes import CountingLearner, StampingWorker, versions_in

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor
    from rheos.testing.executor_suite.gates import Gate

__all__ = ["OrderContract"]

PLACES = [Placement.DRIVER, Placement.THREAD, Placement.REMOTE]


class OrderContract(ContractBase):
    """Messages of one caller in order, replies in order or as they come, barriers, lags, and ends of shards."""

    @pytest.mark.parametrize("place", PLACES)
    def test_messages_of_one_caller_reach_an_actor_in_the_order_of_sending(
        self, executor: Executor, place: Placement
    ) -> None:
        """Whichever stage sends them."""
        keeper = Actor("keeper", Keeper, place)
        numbers = from_items(range(50)).tell(keeper, Keeper.keep, message=_negative)

        with run(numbers.ask(keeper, Keeper.echo, in_flight=4), executor) as flow:
            self.rest(flow)
            kept = flow.ask(keeper, Keeper.everything)

        assert [sent for number in range(50) for sent in (-1 - number, number)] == kept

    @pytest.mark.parametrize("in_flight", [1, 3])
    def test_replies_go_on_in_the_order_of_the_items(self, executor: Executor, in_flight: int) -> None:
        """Although some actors take longer than others."""
        group = ActorGroup("slow", 3, partial(Slow, ""))

        with run(from_items(range(30)).ask(group, Slow.echo_unevenly, in_flight=in_flight), executor) as flow:
            items = self.rest(flow)

        assert list(range(30)) == items

    def test_replies_that_need_not_be_ordered_all_come_once_and_each_actor_keeps_its_order(
        self, executor: Executor
    ) -> None:
        """`ordered=False` is the order of completion."""
        group = ActorGroup("keeper", 3, Keeper)

        with run(from_items(range(30)).ask(group, Keeper.place, in_flight=3, ordered=False), executor) as flow:
            replies = self.rest(flow)

        assert list(range(30)) == sorted(item for _, item in replies)
        for index in range(3):
            own = [item for actor, item in replies if actor == index]
            assert sorted(own) == own

    def test_a_slow_reply_holds_back_only_those_that_are_ordered(self, executor: Executor, gate: Gate) -> None:
        """With `ordered=False` the others overtake it."""
        group = ActorGroup("slow", 2, partial(Slow, gate.path))
        ordered = run(from_items(range(10)).ask(group, Slow.echo_but_0), executor, grace_s=self.patience_s)
        unordered = run(from_items(range(10)).ask(group, Slow.echo_but_0, ordered=False), executor)

        overtook = self.take(unordered, 9)
        self.waits(ordered)
        gate.open()
        rests = self.rest(ordered), self.rest(unordered)
        ordered.close()
        unordered.close()

        assert list(range(1, 10)) == overtook
        assert (list(range(10)), [0]) == rests

    def test_a_barrier_gives_one_item_of_every_shard_in_their_order_with_the_weights_of_the_round_before(
        self, executor: Executor
    ) -> None:
        """Lag 0: messages that a round led to are in the mailboxes before the next requests."""
        workers, learner = stamping_workers(4), Actor("learner", CountingLearner)
        newest = Published(learner, CountingLearner.weights)
        rounds: list[tuple[Batch, ...]] = []
        stream = (
            from_actors(workers, StampingWorker.rollout, first=(StampingWorker.load, lambda _: newest))
            .gather_sync()
            .tap(rounds.append)
            .map(_first_of)
            .ask(learner, CountingLearner.update)
            .tell(workers, StampingWorker.load, message=lambda _: newest, route=Route.ALL)
        )

        with run(stream, executor) as flow:
            self.take(flow, 5)

        names = tuple(f"rollout-{index}" for index in range(4))
        assert [names] * 5 == [tuple(batch.info.sources[0] for batch in round_) for round_ in rounds]
        assert [[[version]] * 4 for version in range(5)] == [list(map(versions_in, round_)) for round_ in rounds]

    @pytest.mark.parametrize("in_flight", [1, 2, 4])
    def test_the_own_lag_of_a_shard_is_one_less_than_its_requests_in_flight(
        self, executor: Executor, in_flight: int
    ) -> None:
        """How many later items of a shard were requested before the message that an item led to."""
        group = ActorGroup("keeper", 3, Keeper)
        latest = defaultdict[int, list[int]](list)
        items = from_actors(group, Keeper.told).gather_async(in_flight=in_flight)
        stream = items.tap(lambda reply: latest[reply[0]].append(reply[1]))

        with run(stream.tell(group, Keeper.keep, route=Route.SOURCE), executor) as flow:
            self.take(flow, 36)

        assert 36 == sum(map(len, latest.values()))
        for told in latest.values():
            assert [max(0, number - in_flight + 1) for number in range(len(told))] == told

    def test_a_shard_that_ends_leaves_the_rounds_of_the_others(self, executor: Executor) -> None:
        """`EndOfShard`: the flow ends when all have ended."""
        with run(from_actors(finite(3), Finite.next).gather_sync(), executor) as flow:
            rounds = self.rest(flow)

        assert [((0, 1), (1, 1), (2, 1)), ((1, 2), (2, 2)), ((2, 3),)] == rounds

    @pytest.mark.parametrize("in_flight", [1, 3])
    def test_a_shard_that_ends_leaves_the_items_of_the_others(self, executor: Executor, in_flight: int) -> None:
        """Each item comes once, whatever was in flight behind the end."""
        with run(from_actors(finite(4), Finite.next).gather_async(in_flight=in_flight), executor) as flow:
            items = self.rest(flow)

        assert [(index, number) for index in range(4) for number in range(1, index + 2)] == sorted(items)

    def test_published_weights_are_asked_for_once_and_then_never_again(self, executor: Executor) -> None:
        """Before the first update somebody has to ask; after it the learner has published by itself."""
        workers, learner = stamping_workers(3), Actor("learner", Publisher)
        newest = Published(learner, Publisher.weights)
        stream = (
            from_actors(workers, StampingWorker.rollout, first=(StampingWorker.load, lambda _: newest))
            .gather_sync()
            .ask(learner, Publisher.update)
            .tell(workers, StampingWorker.load, message=lambda _: newest, route=Route.ALL)
        )

        with run(stream, executor) as flow:
            self.take(flow, 4)
            times = flow.ask(learner, Publisher.times_asked)

        assert 1 == times


def _negative(number: int) -> int:
    return -1 - number


def _first_of(items: tuple[Any, ...]) -> Any:
    return items[0]
