"""Random programs, for property tests of the scheduler and of executors; needs the package hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from rheos.streams.actors import Route
from rheos.testing.programs import Program

__all__ = ["FEW", "MANY", "any_program", "finite_program", "ordered_stage", "ratio_program", "shard_program"]

FEW = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
"""For each run of the tests: the same programs each time."""
MANY = settings(FEW, max_examples=2000, derandomize=False)
"""For slow tests: others each time."""

_small = st.integers(1, 3)
_routes = st.sampled_from([Route.ANY, Route.ALL])
_keeping = st.one_of(
    st.tuples(st.just("same")),
    st.tuples(st.just("tap")),
    st.tuples(st.just("echo"), _small, _small, st.booleans()),
    st.tuples(st.sampled_from(["tell", "tell some"]), _small, _small, _routes),
)
_any_stage = st.one_of(
    _keeping,
    st.tuples(st.sampled_from(["map", "filter", "pairs"])),
    st.tuples(st.just("ask"), _small, _small, st.booleans()),
)
_endless = st.one_of(
    st.tuples(st.just("sync"), _small, st.integers(0, 2)),
    st.tuples(st.just("async"), _small, _small, st.integers(0, 2)),
    st.tuples(st.just("loop"), _small, _small, _small),
)
_items = st.tuples(st.just("items"), st.integers(0, 12))
_weights = st.tuples(*[st.sampled_from([1, 2, 3, 0.5, 0.1])] * 2)


def _grown(sources: st.SearchStrategy[Program], stage: st.SearchStrategy[Any], *, ratios: bool) -> Any:
    def longer(part: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
        chain = st.lists(stage, max_size=3).map(tuple)
        chains = st.lists(chain, min_size=2, max_size=3).map(tuple)
        words: list[st.SearchStrategy[Any]] = [
            st.tuples(st.just("then"), part, chain),
            st.tuples(st.just("tee"), part, st.integers(0, 3), chains),
            st.tuples(st.just("both"), part, part),
        ]
        if ratios:
            words.append(st.tuples(st.just("turns"), part, part, _weights))
        return st.one_of(words)

    return st.recursive(sources, longer, max_leaves=4)


any_program: st.SearchStrategy[Program] = _grown(st.one_of(_items, _endless), _any_stage, ratios=True)
"""All words, endless sources and finite ones."""
finite_program: st.SearchStrategy[Program] = _grown(_items, _keeping, ratios=False)
"""Items that all go on, in a number that is known."""

ordered_stage: st.SearchStrategy[Program] = st.one_of(
    st.tuples(st.sampled_from(["same", "tap"])),
    st.tuples(st.just("echo"), _small, _small, st.just(True)),
    st.tuples(st.sampled_from(["tell", "tell some"]), _small, _small, _routes),
)
"""Stages that let everything pass in its order."""

_ordered_chain = st.lists(ordered_stage, max_size=3).map(tuple)

shard_program: st.SearchStrategy[Program] = st.tuples(
    st.just("then"), st.tuples(st.just("async"), _small, _small, st.just(0)), _ordered_chain
)
"""The items of shards, `((name, count), number)`, of which no stage changes the order."""


def _in_turns(part: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
    branches = [st.tuples(st.just("branch"), st.just(number), part) for number in range(2)]
    turns = st.tuples(st.just("turns"), *branches, _weights)
    return st.tuples(st.just("then"), turns, _ordered_chain)


_long = st.tuples(st.just("then"), st.tuples(st.just("items"), st.just(500)), _ordered_chain)
ratio_program: st.SearchStrategy[Program] = _in_turns(st.one_of(_long, _in_turns(_long)))
"""Round-robins, one within the other at times, whose items say by which branch they came: `(branch, item)`."""
