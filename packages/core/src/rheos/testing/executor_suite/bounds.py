"""Bounds, fairness and ratios: how much is asked for, in which shares, and what waiting costs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rheos.errors import RheosWarning
from rheos.scheduler.flow import run
from rheos.streams.actors import Actor, ActorGroup, Placement
from rheos.streams.stream import concurrently, from_actors, from_items, round_robin
from rheos.testing.executor_suite.actors import Counter, Keeper, Slow, counters, replay_shards, stamping_workers
from rheos.testing.executor_suite.base import ContractBase
from rheos.testing.fakes import ReplayShard, StampingWorker

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor
    from rheos.testing.executor_suite.gates import Gate

__all__ = ["BoundsContract"]


class BoundsContract(ContractBase):
    """Everything is bounded by a number in the flow, ratios are exact, nobody starves, and waiting costs nothing."""

    @pytest.mark.parametrize("in_flight", [1, 3])
    def test_a_stalled_consumer_has_asked_for_exactly_what_is_in_flight(
        self, executor: Executor, in_flight: int
    ) -> None:
        """Of each shard the window, and one more for every item that the consumer came back from."""
        group = counters(3)

        with run(from_actors(group, Counter.next).gather_async(in_flight=in_flight), executor) as flow:
            self.take(flow, 10)
            requests = [flow.ask(actor, Counter.requests) for actor in group]

        assert 3 * in_flight + 10 - 1 == sum(requests)

    def test_a_stalled_consumer_of_a_barrier_has_asked_for_the_rounds_that_it_took(self, executor: Executor) -> None:
        """The next round is asked for when it comes back."""
        group = counters(3)

        with run(from_actors(group, Counter.next).gather_sync(), executor) as flow:
            self.take(flow, 4)
            requests = [flow.ask(actor, Counter.requests) for actor in group]

        assert [4, 4, 4] == requests

    @pytest.mark.parametrize("is_ordered", [True, False])
    @pytest.mark.parametrize("in_flight", [1, 4])
    def test_a_stage_that_asks_never_holds_more_than_its_windows(
        self, executor: Executor, in_flight: int, is_ordered: bool
    ) -> None:
        """And fills them."""
        held: list[int] = [0]
        group = ActorGroup("keeper", 2, Keeper)
        items = from_items(range(40)).tap(lambda _: held.append(held[-1] + 1))
        stream = items.ask(group, Keeper.echo, in_flight=in_flight, ordered=is_ordered)

        with run(stream.tap(lambda _: held.append(held[-1] - 1)), executor) as flow:
            self.rest(flow)

        assert (2 * in_flight, 0) == (max(held), held[-1])

    def test_a_stage_that_asks_takes_no_more_while_its_actors_are_busy(self, executor: Executor, gate: Gate) -> None:
        """However long that takes."""
        taken: list[int] = []
        group = ActorGroup("slow", 2, partial(Slow, gate.path), placement=Placement.REMOTE)
        stream = from_items(range(40)).tap(taken.append).ask(group, Slow.echo, in_flight=3)

        with run(stream, executor, grace_s=self.patience_s) as flow:
            self.waits(flow)
            bound = len(taken)
            gate.open()
            items = self.rest(flow)

        assert (6, list(range(40))) == (bound, items)

    def test_a_stage_that_tells_passes_on_no_more_than_its_window(self, executor: Executor, gate: Gate) -> None:
        """A message that is not acknowledged holds the item behind the window."""
        slow = Actor("slow", partial(Slow, gate.path), Placement.REMOTE)
        stream = from_items(range(10)).tell(slow, Slow.echo, in_flight=3)

        with run(stream, executor, grace_s=self.patience_s) as flow:
            passed = self.take(flow, 3)
            self.waits(flow)
            gate.let_through(1)
            passed += self.take(flow, 1)
            self.waits(flow)
            gate.open()
            rest = self.rest(flow)

        assert ([0, 1, 2, 3], list(range(4, 10))) == (passed, rest)

    def test_ratios_are_exact(self, executor: Executor) -> None:
        """Whatever the actors' pace."""
        left = from_actors(counters(2, "left"), Counter.next).gather_async(in_flight=2).map(lambda _: "left")
        right = from_actors(counters(1, "right"), Counter.next).gather_async().map(lambda _: "right")

        with run(round_robin(left, right, weights=(1, 2.5)), executor) as flow:
            items = self.take(flow, 35)

        cycle = ["left", "right", "right", "left", "right", "right", "right"]
        assert cycle * 5 == items

    def test_ratios_are_exact_after_a_source_was_not_ready(self, executor: Executor) -> None:
        """It skips its turns without debt."""
        workers, shards = stamping_workers(1), replay_shards(1, learning_starts=5)
        store = from_actors(workers, StampingWorker.rollout).gather_async().tell(shards, ReplayShard.add)
        learn = from_actors(shards, ReplayShard.sample).gather_async()
        stream = round_robin(store.map(lambda _: "store"), learn.map(lambda _: "learn"), weights=(1, 4))

        with run(stream, executor) as flow:
            items = self.take(flow, 54)

        assert ["store"] * 4 + ["store", "learn", "learn", "learn", "learn"] * 10 == items

    def test_a_slow_child_of_a_ratio_does_not_slow_the_siblings_of_the_ratio(
        self, executor: Executor, gate: Gate
    ) -> None:
        """It holds only the merge whose turn it is."""
        slow = ActorGroup("slow", 1, partial(Slow, gate.path))
        held = round_robin(
            from_actors(counters(1, "quick"), Counter.next).gather_async().map(lambda _: "quick"),
            from_actors(slow, Slow.next).gather_async().map(lambda _: "slow"),
        )
        sibling = from_actors(counters(1, "sibling"), Counter.next).gather_async().map(lambda _: "sibling")

        with run(concurrently(held, sibling), executor, grace_s=self.patience_s) as flow:
            before = self.take(flow, 30)
            gate.open()
            after = self.take_until(flow, lambda item: item == "slow")

        assert "slow" not in before
        assert [*before, *after].count("quick") == 1

    @pytest.mark.parametrize("emits", [True, False])
    def test_a_branch_that_never_waits_starves_nobody(self, executor: Executor, emits: bool) -> None:
        """Whether it gives items or only works."""
        numbers = from_items(_Endless())
        endless = numbers.map(lambda _: "endless") if emits else numbers.drain()
        others = from_actors(counters(2), Counter.next).gather_async().map(lambda _: "other")

        with run(concurrently(endless, others), executor) as flow:
            items = self.take_until(flow, lambda item: item == "other", 10)

        assert emits == (items.count("endless") > 0)

    def test_where_everything_is_on_the_driver_branches_take_turns(self, executor: Executor) -> None:
        """One step of each: a branch that never waits gets at most two items for one of an actor."""
        if self.is_parallel:
            pytest.skip("actors go at their own pace")
        endless = from_items(_Endless()).map(lambda _: "endless")
        others = from_actors(counters(2), Counter.next).gather_async().map(lambda _: "other")

        with run(concurrently(endless, others), executor) as flow:
            items = self.take(flow, 60)

        assert 20 <= items.count("other") <= 40

    def test_waiting_costs_next_to_nothing(self, executor: Executor, gate: Gate) -> None:
        """No polling: the driver blocks until something is announced."""
        slow = ActorGroup("slow", 2, partial(Slow, gate.path))

        with run(from_actors(slow, Slow.next).gather_async(in_flight=2), executor, grace_s=self.patience_s) as flow:
            self.waits(flow)
            began_at, before = time.perf_counter(), time.process_time()
            self.waits(flow, 1.0)
            share = (time.process_time() - before) / (time.perf_counter() - began_at)
            gate.open()

        assert share < self.idle_share

    def test_a_long_wait_is_warned_of_with_actor_and_method(self, executor: Executor, gate: Gate) -> None:
        """After `warn_after_s`, once."""
        slow = ActorGroup("slow", 1, partial(Slow, gate.path))
        stream = from_actors(slow, Slow.next).gather_sync()

        with run(stream, executor, warn_after_s=0.02, grace_s=self.patience_s) as flow:
            with pytest.warns(RheosWarning, match=r"waits for slow-0\.next") as caught:
                self.waits(flow, 0.3)
            gate.open()

        assert 1 == len(caught)


class _Endless:
    """All natural numbers, from the beginning each time."""

    def __iter__(self) -> Iterator[int]:
        return itertools.count()
