"""Seeds derive from names: they repeat, differ, and depend on no order."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rheos.seeds import generator_for, integer_seed_for, seed_for


def test_the_same_names_give_the_same_numbers_on_every_machine():
    # known answer: BLAKE2b of '[3,"rollout-1","noise"]', computed once; a change would change every seeded run
    assert [2782294682, 842416381] == seed_for(3, "rollout-1", "noise").generate_state(2).tolist()


def test_a_seed_does_not_depend_on_what_was_seeded_before():
    alone = generator_for(0, "rollout-1").random(3)

    for index in range(5):
        generator_for(0, f"rollout-{index}").random(3)

    np.testing.assert_array_equal(alone, generator_for(0, "rollout-1").random(3))


@pytest.mark.parametrize(
    ("names", "others"),
    [
        ((0, "a"), (1, "a")),
        ((0, "a"), (0, "b")),
        ((0, "a", "b"), (0, "ab")),
        ((0, "a", 1), (0, "a", "1")),
        ((0, 1, 11), (0, 11, 1)),
        ((1, 2), (12,)),
    ],
)
def test_other_names_give_another_seed(names, others):
    assert seed_for(*names).entropy != seed_for(*others).entropy


def test_integer_seeds_fit_into_a_c_int_and_differ_between_workers_and_environments():
    seeds = [integer_seed_for(0, f"rollout-{w}", "environment", i) for w, i in product(range(16), range(16))]

    assert 256 == len(set(seeds))
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_neighbouring_run_seeds_share_no_integer_seed():
    of_run = [{integer_seed_for(run, "rollout-0", "environment", i) for i in range(64)} for run in range(4)]

    assert 256 == len(set.union(*of_run))
