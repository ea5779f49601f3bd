"""Properties of random programs in whatever order calls finish: bounds, ends, ratios, and every item once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos import round_robin, run
from rheos.errors import FlowStalled, FlowTimeout
from rheos.executors.protocol import Call, Completions
from rheos.testing.executors import ManualExecutor
from rheos.testing.programs import Built, Program, build, take
from rheos.testing.random_programs import FEW, MANY, any_program, finite_program, ratio_program
from rheos.testing.simulated import SimulatedExecutor

STEPS = 20_000
"""Calls after which a program is held to go round and round."""

Run = Callable[[Program, int, int], tuple[Built, list[Any]]]


def run_by_hand(program: Program, seed: int, most: int) -> tuple[Built, list[Any]]:
    """Run so that calls of the actors finish now and then, also while nobody waits; watch the bounds at every step."""
    built, manual, choose = build(program), ManualExecutor(), random.Random(seed)
    flow = run(built.stream, manual)
    taken: list[Any] = []
    for _ in range(10_000):
        if len(taken) >= most:
            return built, taken
        try:
            taken.append(flow.next(timeout_s=0))
        except StopIteration:
            return built, [*taken, "end"]
        except FlowStalled:
            return built, [*taken, "stalled"]
        except FlowTimeout:
            pass
        for name, bound in built.bounds.items():
            assert len(manual.actors[name].waiting) <= bound
        busy = [actor for actor in manual.actors.values() if actor.waiting]
        if busy and choose.random() < 0.7:
            ready = [actor for actor in busy if message_is_there(actor.waiting[0].message)]
            choose.choice(ready).finish()
    raise AssertionError(f"no end in sight: {taken}")


def message_is_there(message: Any) -> bool:
    return getattr(message, "finished", True)


class Watched(SimulatedExecutor):
    """Watches the bounds before every call that it finishes."""

    def __init__(self, seed: int, bounds: dict[str, int]) -> None:
        super().__init__(seed)
        self._bounds = bounds
        self._steps = 0

    def finish_one(self, completions: Completions) -> Call:
        self._steps += 1
        assert self._steps < STEPS, "no end in sight"
        for name, bound in self._bounds.items():
            assert self.actors[name].waiting <= bound
        return super().finish_one(completions)


def run_simulated(program: Program, seed: int, most: int) -> tuple[Built, list[Any]]:
    """Run so that the driver waits for some call of some actor, some of which are slow; watch the bounds, too."""
    built = build(program)
    return built, take(run(built.stream, Watched(seed, built.bounds)), most)


def run_inline(program: Program, seed: int, most: int) -> tuple[Built, list[Any]]:
    built = build(program)
    return built, take(run(built.stream), most)


in_any_order = pytest.mark.parametrize("run_program", [run_by_hand, run_simulated])
in_all_ways = pytest.mark.parametrize("run_program", [run_inline, run_by_hand, run_simulated])


# bounds and ends


@in_any_order
@FEW
@given(program=any_program, seed=st.integers(0, 2**32))
def test_bounds_hold_and_nothing_hangs_in_whatever_order_calls_finish(run_program: Run, program: Program, seed: int):
    run_program(program, seed, 24)


@pytest.mark.slow
@in_any_order
@MANY
@given(program=any_program, seed=st.integers(0, 2**32))
def test_bounds_of_many_programs_hold_and_nothing_hangs(run_program: Run, program: Program, seed: int):
    run_program(program, seed, 24)


# every item once


def delivered(program: Program) -> Counter[Any]:
    """How often each item should come out of a finite program."""
    word, *rest = program
    if word == "items":
        return Counter(dict.fromkeys(range(rest[0]), 1))
    if word == "both":
        return delivered(rest[0]) + delivered(rest[1])
    once = delivered(rest[0])
    times = len(rest[2]) if word == "tee" else 1
    return Counter({item: count * times for item, count in once.items()})


def check_every_item_once(program: Program, taken: list[Any]) -> None:
    assert "end" == taken[-1]
    assert delivered(program) == Counter(index for _, index in taken[:-1])


@in_all_ways
@FEW
@given(program=finite_program, seed=st.integers(0, 2**32))
def test_every_item_is_delivered_exactly_once_to_every_branch(run_program: Run, program: Program, seed: int):
    _, taken = run_program(program, seed, 10_000)

    check_every_item_once(program, taken)


@pytest.mark.slow
@in_any_order
@MANY
@given(program=finite_program, seed=st.integers(0, 2**32))
def test_every_item_of_many_programs_is_delivered_exactly_once(run_program: Run, program: Program, seed: int):
    _, taken = run_program(program, seed, 10_000)

    check_every_item_once(program, taken)


# ratios


def turns(weights: tuple[float, float], count: int) -> list[int]:
    """Whose turn it is, by the definition: in k cycles a branch of weight w has the whole part of k w turns."""
    exact = [Fraction(str(weight)) for weight in weights]
    order: list[int] = []
    cycle = 0
    while len(order) < count:
        cycle += 1
        for number, weight in enumerate(exact):
            order += [number] * (int(cycle * weight) - int((cycle - 1) * weight))
    return order[:count]


def check_ratios(program: Program, taken: list[Any]) -> None:
    """Check a round-robin, and those within it, down to the items themselves."""
    _, (word, *branches, weights), _ = program
    if word != "turns":
        return
    assert turns(weights, len(taken)) == [number for number, _ in taken]
    for _, number, part in branches:
        if part[1][0] == "turns":
            check_ratios(part, [item for own, item in taken if own == number])


@in_all_ways
@FEW
@given(program=ratio_program, seed=st.integers(0, 2**32))
def test_the_ratios_of_a_round_robin_are_exact_at_every_item(run_program: Run, program: Program, seed: int):
    _, taken = run_program(program, seed, 40)

    assert 40 == len(taken)
    check_ratios(program, taken)


@pytest.mark.slow
@in_any_order
@MANY
@given(program=ratio_program, seed=st.integers(0, 2**32))
def test_the_ratios_of_many_round_robins_are_exact(run_program: Run, program: Program, seed: int):
    _, taken = run_program(program, seed, 40)

    check_ratios(program, taken)


@pytest.mark.parametrize(
    ("weights", "expected"), [((2, 1), [2, 4, 6]), ((0.5, 1), [0, 1, 1, 2]), ((0.1, 0.3), [0, 0, 1, 1, 1, 2])]
)
def test_what_a_drained_branch_uses_up_counts_in_the_ratio(weights: Any, expected: list[int]):
    used: list[int] = []
    built = build(("items", 100)), build(("items", 100))

    flow = run(round_robin(built[0].stream.tap(used.append).drain(), built[1].stream, weights=weights))

    assert expected == [len(used) for _ in expected if next(flow)]
