"""Nested merges, ratios, sources that are not ready, and flows that cannot go on."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import islice
from typing import Any

import pytest

from rheos import NotReady, Route, Stream, concurrently, from_actors, from_items, round_robin, run
from rheos.errors import FlowStalled, FlowTimeout
from rheos.scheduler.flow import Flow
from rheos.testing.executors import ManualExecutor
from rheos.testing.fakes import (
    CountingLearner,
    ReplayShard,
    StampingWorker,
    counting_learner,
    fake_actor,
    fake_group,
    replay_shards,
    spied,
    stamping_workers,
)


def endless(letter: str) -> Stream[str]:
    return from_items(letter * 100_000)


def take(flow: Flow[Any], count: int) -> list[Any]:
    return list(islice(flow, count))


class Slow:
    def give(self, item: int) -> str:
        return "slow"


# nesting


def test_a_slow_child_of_a_round_robin_holds_only_that_round_robin():
    manual = ManualExecutor()
    slow = from_actors(stamping_workers(1), StampingWorker.rollout).gather_async().map(lambda _: "slow")
    flow = run(concurrently(round_robin(slow, endless("a")), endless("b")), manual)

    before = take(flow, 10)
    manual.actors["rollout-0"].finish()
    after = take(flow, 6)

    assert ["b"] * 10 == before
    assert ["slow", "b", "a", "b", "b", "b"] == after


def test_a_slow_branch_two_levels_down_does_not_hold_its_siblings():
    manual = ManualExecutor()
    slow = from_items([1]).ask(fake_actor("slow", Slow()), Slow.give)
    inner = concurrently(round_robin(slow, endless("a")), endless("b"))
    flow = run(concurrently(inner, endless("c")), manual)

    assert Counter("b" * 5 + "c" * 5) == Counter(take(flow, 10))


def test_a_branch_that_never_waits_starves_nobody():
    workers, learner = stamping_workers(2), counting_learner()
    learn = from_actors(workers, StampingWorker.rollout).gather_async().ask(learner, CountingLearner.update)
    flow = run(concurrently(endless("a"), endless("b"), learn.map(lambda _: "l")))

    items = Counter(take(flow, 300))

    assert items["l"] >= 50
    assert items["a"] >= 50
    assert items["b"] >= 50


def test_a_child_that_ended_leaves_the_turns_to_the_others():
    assert list("axbycc") == list(run(concurrently(from_items("abcc"), from_items("xy"))))


def test_a_round_robin_that_ended_inside_a_merge_leaves_the_rest():
    merged = concurrently(round_robin(from_items("a"), from_items("bbb")), from_items("xxxx"))

    assert {"a": 1, "b": 1, "x": 4} == Counter(run(merged))


# ratios


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((1, 1), {"a": 1, "b": 1}),
        ((1, 4), {"a": 1, "b": 4}),
        ((0.1, 1), {"a": 1, "b": 10}),
        ((1, 0.1), {"a": 10, "b": 1}),
        ((0.3, 0.7), {"a": 3, "b": 7}),
        ((Fraction(1, 3), 1), {"a": 1, "b": 3}),
        ((1.5, 1), {"a": 3, "b": 2}),
        ((0.25, 0.25), {"a": 1, "b": 1}),
    ],
)
def test_ratios_are_exact_over_any_number_of_whole_cycles(weights: Any, expected: dict[str, int]):
    cycle, cycles = sum(expected.values()), 50
    flow = run(round_robin(endless("a"), endless("b"), weights=weights))

    items = take(flow, cycle * cycles)

    assert {letter: count * cycles for letter, count in expected.items()} == Counter(items)


@pytest.mark.parametrize("weights", [(1, 4), (0.1, 1), (0.3, 0.7)])
def test_a_ratio_is_never_off_by_more_than_a_cycle(weights: tuple[float, float]):
    flow = run(round_robin(endless("a"), endless("b"), weights=weights))
    counts = Counter[str]()

    for item in islice(flow, 500):
        counts[item] += 1
        ahead = counts["a"] / weights[0] - counts["b"] / weights[1]
        assert abs(ahead) <= 1 / min(weights) + 1 / max(weights)


# sources that are not ready


def store_and_learn(learning_starts: int, weights: tuple[float, float]) -> tuple[Stream[str], Any, Any]:
    workers, shards = stamping_workers(1), replay_shards(1, learning_starts=learning_starts)
    store = from_actors(workers, StampingWorker.rollout).gather_async().tell(shards, ReplayShard.add)
    learn = from_actors(shards, ReplayShard.sample).gather_async()
    merged = round_robin(store.map(lambda _: "store"), learn.map(lambda _: "learn"), weights=weights)
    return merged, workers, shards


def test_a_source_that_is_not_ready_skips_its_turns_without_debt():
    merged, _, shards = store_and_learn(learning_starts=10, weights=(1, 4))

    items = take(run(merged), 60)

    first = items.index("learn")
    assert ["store"] * first == items[:first]
    assert 10 <= first <= 12
    assert (["learn"] * 4 + ["store"]) * 9 == items[first : first + 45]
    assert spied(shards[0]).refused > 0


def test_a_source_that_is_not_ready_is_asked_again_only_after_the_flow_moved_elsewhere():
    shards = replay_shards(1, learning_starts=100)
    sampled = from_actors(shards, ReplayShard.sample).gather_async()
    flow = run(concurrently(sampled.map(lambda _: "learn"), from_items("abc")))

    assert list("abc") == take(flow, 3)
    with pytest.raises(FlowStalled):
        next(flow)

    assert spied(shards[0]).refused <= 1 + 3 + 1  # at first, behind each item, behind the end of the sibling


def test_a_barrier_asks_only_the_shard_again_that_was_not_ready():
    class Late(ReplayShard):
        """Is ready the third time it is asked."""

        def sample(self) -> Any:
            self.samples += 1
            return NotReady() if self.name == "late-1" and self.samples < 3 else self.name

    late = fake_group("late", [Late("late-0", 0), Late("late-1", 0)])
    flow = run(concurrently(from_actors(late, Late.sample).gather_sync(), from_items(range(9))))

    rounds = [item for item in take(flow, 9) if isinstance(item, tuple)]

    assert [("late-0", "late-1")] == rounds
    assert [1, 3] == [spied(actor).samples for actor in late]


def test_shards_that_are_ready_do_not_wait_for_those_that_are_not():
    shards = replay_shards(2)
    spied(shards[1]).add(spied(stamping_workers(1)[0]).rollout())
    flow = run(from_actors(shards, ReplayShard.sample).gather_async().map(lambda batch: batch.info.sources))

    assert [("rollout-0",)] * 5 == take(flow, 5)


# flows that cannot go on


def test_a_flow_of_which_nothing_can_move_stalls_and_names_who_is_not_ready():
    shards = replay_shards(2, learning_starts=5)
    flow = run(from_actors(shards, ReplayShard.sample).gather_async())

    with pytest.raises(
        FlowStalled,
        match=r"(?s)nothing can move.*stage 2: gather_async\(in_flight=1\) \[test_scheduler_merges.py:\d+\]: not ready:"
        r" replay-0 \(0 of 5 batches\), replay-1 \(0 of 5 batches\)",
    ):
        next(flow)


def test_a_flow_that_stalled_says_so_again():
    flow = run(from_actors(replay_shards(1), ReplayShard.sample).gather_sync())

    with pytest.raises(FlowStalled) as first:
        next(flow)
    with pytest.raises(FlowStalled) as second:
        next(flow)

    assert first.value is second.value


def test_a_branch_of_a_tee_that_nobody_reads_stalls_the_flow_and_is_named():
    left, right = from_items(range(100)).tee(2, max_lag=3)
    ended = round_robin(from_items([]), right)  # so it never reads its other child
    flow = run(concurrently(left, ended))

    with pytest.raises(
        FlowStalled, match=r"tee\(2, max_lag=3\) .*: branch 1 has 4 unread items, max_lag=3: nobody reads"
    ):
        list(flow)


def test_an_unread_branch_is_a_bounded_wait_and_never_a_live_lock():
    workers = stamping_workers(1)
    left, right = from_actors(workers, StampingWorker.rollout).gather_async().tee(2, max_lag=2)
    shard = replay_shards(1, learning_starts=1)
    reading = round_robin(from_actors(shard, ReplayShard.sample).gather_async().filter(lambda _: False), right)
    flow = run(concurrently(left.map(lambda _: "left"), reading.map(lambda _: "right")))

    items = take(flow, 6)

    assert Counter(left=3, right=3) == Counter(items)


def test_a_stage_that_waits_for_an_actor_that_is_busy_is_no_stall():
    manual = ManualExecutor()
    flow = run(from_actors(stamping_workers(1), StampingWorker.rollout).gather_sync(), manual)

    with pytest.raises(FlowTimeout):
        flow.next(timeout_s=0.01)


def test_telling_by_source_reaches_the_shard_that_was_sampled():
    shards, learner = replay_shards(3), counting_learner()
    for shard in shards:
        spied(shard).add(spied(stamping_workers(1)[0]).rollout())
    stream = (
        from_actors(shards, ReplayShard.sample)
        .gather_async()
        .ask(learner, CountingLearner.update, in_flight=2)
        .tell(shards, ReplayShard.update_priorities, route=Route.SOURCE)
    )

    with run(stream) as flow:
        take(flow, 30)

    assert [True] * 3 == [len(spied(shard).priorities) >= 9 for shard in shards]
