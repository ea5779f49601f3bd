"""Properties of random programs that are cut, saved and restored: they go on as if nothing had been."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos import Route, run
from rheos.scheduler.flow import Flow
from rheos.testing.fakes import CountingLearner, spied
from rheos.testing.programs import Built, Program, build, take
from rheos.testing.random_programs import FEW, any_program, finite_program, shard_program
from rheos.testing.simulated import SimulatedExecutor

ITEMS = 24
"""After so many a program is held to have shown what it does."""


def actors_after(flow: Flow[Any], built: Built) -> dict[str, Any]:
    """Let everything that was sent finish, and return what the actors are then."""
    flow.state_dict()
    return {name: summary(one) for name, one in built.objects().items()}


def summary(one: Any) -> Any:
    if isinstance(one, CountingLearner):
        return one.updates, one.asked_for_weights, [batch.info for batch in one.seen]
    return one.state_dict()


def check_cut_and_restored_is_uncut(program: Program, cut: int) -> None:
    uncut, before, after = build(program), build(program), build(program)
    uncut_flow = run(uncut.stream)
    expected = take(uncut_flow, ITEMS)
    cut = min(cut, len([item for item in expected if item not in ("end", "stalled")]))

    flow = run(before.stream)
    first = take(flow, cut)
    state = flow.state_dict()
    states = copy.deepcopy({name: one.state_dict() for name, one in before.objects().items()})
    taps = copy.deepcopy(before.taps)
    going_on = first + take(flow, ITEMS - cut)

    restored = run(after.stream)
    restored.load_state_dict(state)  # as it was when it was cut: going on did not change it
    for name, actor in after.actors.items():
        if name in restored_names(restored):
            restored.ask(actor, type(spied(actor)).load_state_dict, states[name])
    rest = take(restored, ITEMS - cut)

    assert expected == going_on, "a flow that was looked at goes on as if nothing had been"
    assert expected == first + rest, "a flow that was cut and restored goes on as if nothing had been"
    assert [tap[: len(seen)] for tap, seen in zip(uncut.taps, taps, strict=True)] == taps
    assert uncut.taps == [seen + more for seen, more in zip(taps, after.taps, strict=True)]
    if expected[-1:] != ["stalled"]:
        assert actors_after(uncut_flow, uncut) == actors_after(restored, after)


def restored_names(flow: Flow[Any]) -> set[str]:
    return set(flow._engine._actors)


# in order


def test_a_program_that_is_cut_and_restored_goes_on_as_if_uncut(probe: Callable[..., None]):
    probe(check_cut_and_restored_is_uncut, any_program, st.integers(0, 20))


@FEW
@given(any_program)
def test_a_program_gives_the_same_whenever_it_is_run(program: Program):
    one, other = build(program), build(program)

    assert take(run(one.stream), ITEMS) == take(run(other.stream), ITEMS)
    assert one.taps == other.taps


@FEW
@given(finite_program)
def test_two_runs_of_one_stream_do_not_disturb_each_other(program: Program):
    alone, shared = build(program), build(program)
    expected = take(run(alone.stream), ITEMS)

    one, other = run(shared.stream), run(shared.stream)
    taken: tuple[list[Any], list[Any]] = ([], [])
    for _ in range(ITEMS):
        for flow, part in ((one, taken[0]), (other, taken[1])):
            if "end" not in part:
                part.extend(take(flow, 1))

    assert ([item for item in expected if item != "end"],) * 2 == tuple(
        [item for item in part if item != "end"] for part in taken
    )


@pytest.mark.parametrize("cut", range(20))
def test_a_message_of_which_only_some_actors_have_room_is_cut_and_restored(cut: int):
    told = ("then", ("items", 8), (("tell", 3, 1, Route.ALL),))

    check_cut_and_restored_is_uncut(("both", told, ("items", 12)), cut)


@pytest.mark.parametrize("cut", range(12))
@pytest.mark.parametrize("publish_every", [1, 4])
def test_workers_and_a_learner_that_are_cut_and_restored_go_on_as_if_uncut(cut: int, publish_every: int):
    check_cut_and_restored_is_uncut(("both", ("loop", 3, 2, publish_every), ("async", 2, 2, 1)), cut)


# in whatever order calls finish


def cut_in_any_order(program: Program, cut: int, seed: int, total: int) -> tuple[list[Any], Built, Built]:
    """Run until a cut, and go on from there in another order; return all items and what there was before and after."""
    before, after = build(program), build(program)
    flow = run(before.stream, SimulatedExecutor(seed))
    first = take(flow, cut)
    if first[-1:] in (["end"], ["stalled"]):
        first.pop()
    state = flow.state_dict()
    states = copy.deepcopy({name: one.state_dict() for name, one in before.objects().items()})

    restored = run(after.stream, SimulatedExecutor(seed + 1))
    restored.load_state_dict(state)
    for name, actor in after.actors.items():
        restored.ask(actor, type(spied(actor)).load_state_dict, states[name])
    return first + take(restored, total - cut), before, after


def by_role(built: Built) -> dict[str, Any]:
    """What the actors of each role were sent, all together; of a message for every second item, how often.

    Which actor gets an item, and which item is every second one, depends on the order in which calls finish.
    """
    sent: dict[str, Counter[Any]] = {role: Counter() for role in built.roles}
    for name, one in built.objects().items():
        sent[name.split("-")[0]].update(one.log)
    return {role: items.total() if built.roles[role] == "tell some" else items for role, items in sent.items()}


def check_nothing_is_lost_or_doubled_by_a_cut(program: Program, cut: int, seed: int) -> None:
    uncut = build(program)
    expected = take(run(uncut.stream), 10_000)

    taken, before, after = cut_in_any_order(program, cut, seed, 10_000)

    assert Counter(expected) == Counter(taken)
    assert by_role(uncut) == by_role(after)
    assert [Counter(tap) for tap in uncut.taps] == [
        Counter(seen + more) for seen, more in zip(before.taps, after.taps, strict=True)
    ]


def check_shards_go_on_where_they_were(program: Program, cut: int, seed: int) -> None:
    taken, *_ = cut_in_any_order(program, cut, seed, 30)

    assert 30 == len(taken)
    for name in {name for (name, _), _ in taken}:
        own = [(count, number) for (shard, count), number in taken if shard == name]
        assert [(count, count) for count in range(1, len(own) + 1)] == own


def test_no_item_is_lost_or_doubled_by_a_cut_in_whatever_order_calls_finish(probe: Callable[..., None]):
    probe(check_nothing_is_lost_or_doubled_by_a_cut, finite_program, st.integers(0, 12), st.integers(0, 2**32))


def test_every_shard_goes_on_where_it_was_cut_in_whatever_order_calls_finish(probe: Callable[..., None]):
    probe(check_shards_go_on_where_they_were, shard_program, st.integers(0, 20), st.integers(0, 2**32))


@FEW
@given(any_program, st.integers(0, 20), st.integers(0, 2**32))
def test_a_program_that_is_cut_in_any_order_neither_fails_nor_hangs(program: Program, cut: int, seed: int):
    taken, *_ = cut_in_any_order(program, cut, seed, ITEMS)

    assert ITEMS <= len(taken) or taken[-1] in ("end", "stalled")
