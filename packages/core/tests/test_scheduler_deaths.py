"""Properties of random programs whose sources die at every turn: nothing hangs, and nothing is lost but what died."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import strategies as st

from rheos import run
from rheos.errors import ActorDied, RheosWarning
from rheos.executors.protocol import Call, Completions
from rheos.scheduler.flow import Flow
from rheos.scheduler.recovery import FailurePolicy
from rheos.testing.fakes import spied
from rheos.testing.programs import Built, Program, build, take
from rheos.testing.random_programs import any_program, shard_program
from rheos.testing.simulated import SimulatedExecutor

ALWAYS_ANEW = FailurePolicy(max_restarts=10**9, backoff_s=0.0)
STEPS = 20_000
"""Calls after which a program is held to go round and round."""


@pytest.fixture(autouse=True)
def _no_warnings_of_restarts() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RheosWarning)
        yield


class Deadly(SimulatedExecutor):
    """Lets sources die, and ends a program that goes round and round."""

    def __init__(self, built: Built, seed: int, death_rate: float = 0.2) -> None:
        super().__init__(seed, death_rate=death_rate, mortal=built.sources())
        self._steps = 0

    def finish_one(self, completions: Completions) -> Call:
        self._steps += 1
        assert self._steps < STEPS, "no end in sight"
        return super().finish_one(completions)


def started(built: Built, seed: int) -> Flow[Any]:
    return run(built.stream, Deadly(built, seed), failures=ALWAYS_ANEW)


def check_nothing_hangs(program: Program, seed: int) -> None:
    built = build(program)

    taken = take(started(built, seed), 24)

    assert 24 == len(taken) or taken[-1] in ("end", "stalled")


def check_shards(taken: list[Any]) -> None:
    """Check that every shard's stream is whole and in order: who dies of a call has not answered it.

    The functions at the actors begin anew with each incarnation.
    """
    for name in {name for (name, _), _ in taken}:
        counts, numbers = zip(*[(count, number) for (shard, count), number in taken if shard == name], strict=True)
        assert (*range(1, len(counts) + 1),) == counts
        assert all(number in (1, before + 1) for before, number in pairwise((0, *numbers)))


def check_a_shard_loses_nothing_but_what_died(program: Program, seed: int) -> None:
    check_shards(take(started(build(program), seed), 60))


def check_cut_among_deaths(program: Program, cut: int, seed: int) -> None:
    before, after = build(program), build(program)
    flow = started(before, seed)
    first = take(flow, cut)
    state = flow.state_dict()
    states = copy.deepcopy({name: one.state_dict() for name, one in before.objects().items()})
    going_on = first + take(flow, 20)

    restored = started(after, seed + 1)
    for name, actor in after.actors.items():
        spied(actor).load_state_dict(states[name])
    try:
        restored.load_state_dict(state)
    except ActorDied:  # in a message beside the flow, which is the caller's
        return
    rest = take(restored, 20)

    check_shards(going_on)
    check_shards(first + rest)


def test_nothing_hangs_where_sources_die(probe: Callable[..., None]):
    probe(check_nothing_hangs, any_program, st.integers(0, 2**32))


def test_a_shard_loses_nothing_but_what_died(probe: Callable[..., None]):
    probe(check_a_shard_loses_nothing_but_what_died, shard_program, st.integers(0, 2**32))


def test_a_flow_can_be_cut_and_restored_among_deaths(probe: Callable[..., None]):
    probe(check_cut_among_deaths, shard_program, st.integers(0, 12), st.integers(0, 2**32))
