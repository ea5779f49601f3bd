"""What each word of the vocabulary means, one by one, on the executor `inline`."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from rheos import ActorGroup, NotReady, Route, concurrently, from_actors, from_items, round_robin, run
from rheos.errors import FlowError
from rheos.testing.fakes import (
    StampingWorker,
    fake_actor,
    fake_group,
    spied,
    stamping_workers,
)


class Counter:
    """Counts from 1; remembers what it was told."""

    def __init__(self, name: str = "", limit: int | None = None) -> None:
        self.name = name
        self.count = 0
        self.limit = limit
        self.told: list[Any] = []

    def next(self) -> tuple[str, int]:
        self.count += 1
        return self.name, self.count

    def times(self, factor: int) -> int:
        self.count += 1
        return self.count * factor

    def double(self, item: Any) -> Any:
        self.told.append(item)
        return item * 2

    def tell(self, item: Any) -> None:
        self.told.append(item)


def counters(count: int) -> ActorGroup[Counter]:
    return fake_group("counter", [Counter(f"counter-{index}") for index in range(count)])


def told(group: Iterable[Any]) -> list[list[Any]]:
    return [spied(actor).told for actor in group]


# sources


def test_from_items_gives_the_items_and_ends():
    assert [3, 1, 2] == list(run(from_items([3, 1, 2])))


def test_from_items_of_nothing_ends_at_once():
    assert [] == list(run(from_items([])))


def test_from_actors_asks_each_actor_with_the_one_argument_given():
    stream = from_actors(counters(2), Counter.times, 10).gather_sync()

    with run(stream) as flow:
        rounds = [next(flow), next(flow)]

    assert [(10, 10), (20, 20)] == rounds


def test_first_is_sent_to_each_actor_once_before_its_first_request():
    group = counters(2)
    stream = from_actors(group, Counter.next, first=(Counter.tell, lambda _: "hello")).gather_sync()

    with run(stream) as flow:
        next(flow), next(flow)

    assert [["hello"], ["hello"]] == told(group)


def test_first_may_have_nothing_to_say():
    group = counters(1)

    with run(from_actors(group, Counter.next, first=(Counter.tell, lambda _: None)).gather_sync()) as flow:
        next(flow)

    assert [[]] == told(group)


class Running:
    """A function with a memory, to be installed at an actor: the sum of what passed."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, item: tuple[str, int]) -> int:
        self.total += item[1]
        return self.total

    def __deepcopy__(self, memo: dict[int, Any]) -> Running:
        copied = Running()
        copied.total = copy.deepcopy(self.total, memo)
        return copied


def test_a_map_before_a_gather_has_its_own_copy_at_each_actor():
    function = Running()
    stream = from_actors(counters(2), Counter.next).map(function).gather_sync()

    with run(stream) as flow:
        rounds = [next(flow) for _ in range(3)]

    assert [(1, 1), (3, 3), (6, 6)] == rounds
    assert 0 == function.total


def test_maps_before_a_gather_run_in_the_order_in_which_they_are_written():
    stream = from_actors(counters(1), Counter.next).map(lambda item: item[1] + 1).map(lambda x: x * 10).gather_sync()

    with run(stream) as flow:
        assert (20,) == next(flow)


def test_a_map_before_a_gather_does_not_see_not_ready():
    class Late(Counter):
        def give(self) -> int | NotReady:
            self.count += 1
            return NotReady("soon") if self.count == 1 else self.count

    late = from_actors(fake_group("late", [Late()]), Late.give).map(lambda count: count * 10).gather_async()

    with run(concurrently(from_items([1, 2, 3]), late)) as flow:
        assert 20 in {next(flow) for _ in range(5)}


# gathers


def test_gather_sync_gives_rounds_in_the_order_of_the_shards():
    with run(from_actors(counters(3), Counter.next).gather_sync()) as flow:
        rounds = [next(flow), next(flow)]

    names = ["counter-0", "counter-1", "counter-2"]
    assert [tuple((name, 1) for name in names), tuple((name, 2) for name in names)] == rounds


def test_gather_async_gives_each_shard_as_often_as_the_others_inline():
    with run(from_actors(counters(3), Counter.next).gather_async(in_flight=2)) as flow:
        items = [next(flow) for _ in range(9)]

    assert {(f"counter-{shard}", count) for shard in range(3) for count in (1, 2, 3)} == set(items)


# values


def test_map_gives_the_function_of_each_item():
    assert ["1", "2"] == list(run(from_items([1, 2]).map(str)))


def test_filter_lets_only_those_pass_for_which_it_is_true():
    assert [2, 4] == list(run(from_items([1, 2, 3, 4]).filter(lambda x: x % 2 == 0)))


def test_flat_map_gives_any_number_of_items_for_each():
    assert [2, 2, 3, 3, 3] == list(run(from_items([0, 2, 3]).flat_map(lambda x: [x] * x)))


def test_flat_map_takes_a_generator():
    def twice(item: int) -> Iterator[int]:
        yield item
        yield -item

    assert [1, -1, 2, -2] == list(run(from_items([1, 2]).flat_map(twice)))


class Pairs:
    """Collects two items into one, and gives the rest at the end."""

    def __init__(self) -> None:
        self.parts: list[Any] = []

    def __call__(self, item: Any) -> list[tuple[Any, ...]]:
        self.parts.append(item)
        return self.finish() if len(self.parts) == 2 else []

    def finish(self) -> list[tuple[Any, ...]]:
        parts, self.parts = self.parts, []
        return [tuple(parts)] if parts else []

    def state_dict(self) -> dict[str, Any]:
        return {"parts": list(self.parts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.parts = list(state["parts"])


def test_flat_map_asks_for_the_remainder_at_the_end():
    assert [(1, 2), (3,)] == list(run(from_items([1, 2, 3]).flat_map(Pairs())))


def test_flat_map_without_a_remainder_ends():
    assert [(1, 2)] == list(run(from_items([1, 2]).flat_map(Pairs())))


def test_tap_passes_the_item_on_whatever_the_function_gives():
    seen: list[int] = []

    assert [1, 2] == list(run(from_items([1, 2]).tap(seen.append)))
    assert [1, 2] == seen


# messages


def test_ask_gives_the_reply_in_place_of_the_item():
    assert [2, 4, 6] == list(run(from_items([1, 2, 3]).ask(fake_actor("c", Counter()), Counter.double)))


def test_ask_of_a_group_takes_its_actors_in_turn():
    group = counters(2)

    replies = list(run(from_items([1, 2, 3]).ask(group, Counter.double)))

    assert [2, 4, 6] == replies
    assert [[1, 3], [2]] == told(group)


def test_ask_by_source_goes_back_to_where_the_item_came_from():
    group = counters(3)

    with run(from_actors(group, Counter.next).gather_async().ask(group, Counter.double, route=Route.SOURCE)) as flow:
        for _ in range(6):
            next(flow)

    for name, items in zip(("counter-0", "counter-1", "counter-2"), told(group), strict=True):
        assert {name} == {source for source, _ in items}


def test_ask_by_source_refuses_an_item_of_several_sources():
    group = counters(2)
    stream = from_actors(group, Counter.next).gather_sync().ask(group, Counter.double, route=Route.SOURCE)

    with pytest.raises(FlowError, match="needs an item of one source"):
        next(run(stream))


def test_tell_sends_the_item_and_passes_it_on():
    actor = fake_actor("c", Counter())

    assert [1, 2] == list(run(from_items([1, 2]).tell(actor, Counter.tell)))
    assert [1, 2] == spied(actor).told


def test_tell_sends_the_message_of_the_item_and_passes_the_item_on():
    actor = fake_actor("c", Counter())

    assert [1, 2] == list(run(from_items([1, 2]).tell(actor, Counter.tell, message=lambda x: -x)))
    assert [-1, -2] == spied(actor).told


def test_tell_sends_nothing_where_the_message_is_none():
    actor = fake_actor("c", Counter())

    assert [1, 2, 3] == list(
        run(from_items([1, 2, 3]).tell(actor, Counter.tell, message=lambda x: None if x == 2 else x))
    )
    assert [1, 3] == spied(actor).told


def test_tell_of_all_reaches_every_actor():
    group = counters(3)

    list(run(from_items([1, 2]).tell(group, Counter.tell, route=Route.ALL)))

    assert [[1, 2]] * 3 == told(group)


def test_tell_in_turn_reaches_one_actor_an_item():
    group = counters(2)

    list(run(from_items([1, 2, 3]).tell(group, Counter.tell)))

    assert [[1, 3], [2]] == told(group)


def test_tell_by_source_reaches_every_source_of_the_item_once():
    workers, others = counters(3), counters(2)
    stream = from_actors(workers, Counter.next).gather_sync().flat_map(Pairs())

    with run(stream.tell(workers[:2], Counter.tell, message=lambda _: "new", route=Route.SOURCE)) as flow:
        next(flow), next(flow)

    assert [["new"], ["new"], []] == [messages[:1] for messages in told(workers)]
    assert [[], []] == told(others)


def test_tell_by_source_refuses_an_item_that_came_from_none_of_the_group():
    stream = from_items([1]).tell(counters(2), Counter.tell, route=Route.SOURCE)

    with pytest.raises(FlowError, match=r"came from no actor, but route=Route.SOURCE needs one of counter-0"):
        next(run(stream))


def test_a_flow_ends_only_when_every_message_is_acknowledged():
    group = counters(3)

    list(run(from_items(range(20)).tell(group, Counter.tell, in_flight=100, route=Route.ALL).drain()))

    assert [list(range(20))] * 3 == told(group)


# provenance


@pytest.mark.parametrize(
    "words",
    [
        lambda stream: stream,
        lambda stream: stream.map(lambda item: item),
        lambda stream: stream.filter(lambda _: True),
        lambda stream: stream.tap(lambda _: None),
        lambda stream: stream.ask(fake_actor("other", Counter()), Counter.double),
        lambda stream: stream.tell(fake_actor("other", Counter()), Counter.tell),
        lambda stream: stream.flat_map(lambda item: [item]),
        lambda stream: concurrently(stream),
        lambda stream: round_robin(stream),
        lambda stream: concurrently(*stream.tee(2)),
        lambda stream: stream.through(lambda inner: inner.map(lambda item: item)),
    ],
)
def test_an_item_keeps_its_sources_through_every_word(words: Any):
    group = counters(2)
    stream = words(from_actors(group, Counter.next).gather_async())

    with run(stream.tell(group, Counter.tell, message=lambda item: item[0], route=Route.SOURCE)) as flow:
        for _ in range(6):
            next(flow)

    for name, messages in zip(("counter-0", "counter-1"), told(group), strict=True):
        assert {name} == set(messages)


def test_a_gathered_round_comes_from_all_its_shards():
    group = counters(3)
    stream = from_actors(group, Counter.next).gather_sync()

    with run(stream.tell(group, Counter.tell, message=lambda _: 0, route=Route.SOURCE)) as flow:
        next(flow), next(flow)

    assert [[0]] * 3 == [messages[:1] for messages in told(group)]


def test_what_flat_map_gives_comes_from_everything_taken_since_it_gave_something_before():
    group = counters(4)
    stream = from_actors(group, Counter.next).gather_async().flat_map(Pairs())
    sent: list[Any] = []

    with run(stream.tap(sent.append).tell(group, Counter.tell, message=repr, route=Route.SOURCE)) as flow:
        for _ in range(8):
            next(flow)

    for pair in sent[:4]:
        assert {source for source, _ in pair} == {actor.name for actor in group if repr(pair) in spied(actor).told}


# branches and merges


def test_each_branch_of_a_tee_sees_every_item():
    seen: tuple[list[int], list[int], list[int]] = ([], [], [])
    branches = from_items(range(20)).tee(3, max_lag=2)

    list(run(concurrently(*(branch.tap(part.append) for branch, part in zip(branches, seen, strict=True)))))

    assert (list(range(20)),) * 3 == seen


def test_the_other_branch_of_a_tee_goes_on_after_the_first_has_ended():
    left, right = from_items(range(5)).tee(2, max_lag=8)

    assert list(range(5)) == list(run(concurrently(left.drain(), right)))


def test_drain_works_and_gives_nothing():
    seen: list[int] = []

    assert [] == list(run(from_items([1, 2]).tap(seen.append).drain()))
    assert [1, 2] == seen


def test_through_is_the_function_of_the_stream():
    assert [2, 3] == list(run(from_items([1, 2]).through(lambda stream: stream.map(lambda x: x + 1))))


def test_concurrently_takes_one_step_of_each_in_turn_and_ends_when_all_have_ended():
    merged = concurrently(from_items("ab"), from_items("1234"), from_items("xyz"))

    assert list("a1xb2y3z4") == list(run(merged))


def test_round_robin_gives_exact_fractions_and_ends_when_any_child_ends():
    merged = round_robin(from_items("abc"), from_items("123456789"), weights=(1, 2))

    assert list("a12b34c56") == list(run(merged))


def test_a_used_up_item_counts_in_a_ratio():
    seen: list[str] = []
    stored = from_items("abcd").tap(seen.append).drain()

    assert list("1234") == list(run(round_robin(stored, from_items("123456"), weights=(1, 1))))
    assert list("abcd") == seen


def test_a_stream_can_be_run_twice_and_the_runs_do_not_know_each_other():
    stream = from_items([1, 2, 3]).flat_map(Pairs())
    one, other = run(stream), run(stream)

    first = next(one)

    assert (1, 2) == first
    assert [(1, 2), (3,)] == list(other)
    assert [(3,)] == list(one)


def test_an_empty_round_is_an_item_like_any_other():
    nothing = from_actors(fake_group("nothing", [Counter()]), Counter.tell, 1).gather_sync()

    with run(nothing) as flow:
        assert [(None,), (None,)] == [next(flow), next(flow)]


def test_none_is_an_item_like_any_other():
    assert [None, None] == list(run(from_items([1, 2]).map(lambda _: None)))


def test_actors_are_asked_beside_the_flow_without_disturbing_it():
    workers = stamping_workers(2)
    stream = from_actors(workers, StampingWorker.rollout).gather_async(in_flight=2)
    flow, undisturbed = run(stream), run(from_actors(stamping_workers(2), StampingWorker.rollout).gather_async(2))

    items = [next(flow).info.sources]
    state = flow.ask(workers[0], StampingWorker.state_dict)
    items += [next(flow).info.sources for _ in range(9)]

    assert [next(undisturbed).info.sources for _ in range(10)] == items
    assert 2 == state["rollouts"]


def test_asking_an_actor_that_the_flow_does_not_have_is_an_error_that_names_it():
    with run(from_items([1])) as flow, pytest.raises(FlowError, match="'c' is no actor of this flow"):
        flow.ask(fake_actor("c", Counter()), Counter.next)


def test_explain_with_stats_says_what_passed_through_each_stage_and_where_time_goes():
    stream = from_items(range(10)).filter(lambda item: item % 2).ask(fake_actor("c", Counter()), Counter.double)
    flow = run(stream)

    list(flow)
    lines = flow.explain(stats=True).splitlines()

    assert stream.explain() == flow.explain()
    assert ["10 items, busy", "5 items, busy", "5 items, busy"] == [
        line.partition("]")[2].strip().partition(" 0.")[0] for line in lines[:3]
    ]
    assert "most of it in stage" in lines[-1]


def test_a_running_flow_is_drawn_as_its_stream():
    stream = from_items([1]).map(str)

    assert stream.to_mermaid() == run(stream).to_mermaid()
