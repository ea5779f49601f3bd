"""SumTree: what is found is what a plain loop finds, whatever was updated before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rheos.errors import ShapeError
from rheos_ops.replay.sum_tree import SumTree

capacities = st.sampled_from([1, 2, 15, 16, 17, 256, 300, 20_000])  # 20,000 leaves have two levels below the top
seeds = st.integers(0, 2**32 - 1)


def first_beyond(priorities, wanted):
    """The index at which the running sum first exceeds a number; integers as priorities, so that sums are exact."""
    running = 0.0
    for index, priority in enumerate(priorities.tolist()):
        running += priority
        if running > wanted:
            return index
    raise AssertionError(f"{wanted} is not below {running}")


def filled(capacity, seed, *, most=4):
    """A tree of integers from 0 to `most`, of which at least one is above 0, and the same as an array."""
    priorities = np.random.default_rng(seed).integers(0, most, capacity, endpoint=True).astype(np.float64)
    priorities[seed % capacity] = most
    tree = SumTree(capacity)
    tree.update(np.arange(capacity), priorities)
    return tree, priorities


@given(capacities, seeds)
def test_what_is_found_is_what_a_loop_finds(capacity, seed):
    tree, priorities = filled(capacity, seed)
    total = int(priorities.sum())
    wanted = np.unique(np.random.default_rng(seed).integers(0, 2 * total, 20)) / 2  # halves: also between the borders
    wanted = np.append(wanted, [0.0, total - 0.5])

    found = tree.find(wanted)

    assert total == tree.total
    assert [first_beyond(priorities, number) for number in wanted] == found.tolist()


@given(capacities, seeds, st.integers(1, 60), st.integers(1, 6))
def test_updates_leave_the_sums_of_all_priorities_and_of_duplicates_the_last_one(capacity, seed, count, updates):
    tree, priorities = filled(capacity, seed)
    generator = np.random.default_rng(seed + 1)
    for _ in range(updates):
        indices = generator.integers(0, min(capacity, 40), count)  # so few that many are there several times
        numbers = generator.integers(1, 100, count).astype(np.float64)
        tree.update(indices, numbers)
        for index, number in zip(indices.tolist(), numbers.tolist(), strict=True):
            priorities[index] = number

    np.testing.assert_array_equal(priorities, tree.get(np.arange(capacity)))
    assert priorities.sum() == tree.total
    last = np.array([tree.total - 0.5])
    assert [first_beyond(priorities, last[0])] == tree.find(last).tolist()


@given(capacities, seeds, st.floats(1e-300, 1e30), st.integers(1, 64))
@example(capacity=20_000, seed=0, scale=0.1, count=64)
def test_a_priority_of_zero_is_never_found_whatever_is_lost_in_rounding(capacity, seed, scale, count):
    generator = np.random.default_rng(seed)
    priorities = scale * generator.random(capacity) ** 20  # from tiny to large
    priorities[generator.random(capacity) < 0.7] = 0.0
    priorities[seed % capacity] = scale
    tree = SumTree(capacity)
    tree.update(np.arange(capacity), priorities)

    sums = np.append(generator.random(count) * tree.total, [0.0, np.nextafter(tree.total, 0.0), tree.total])
    found = tree.find(sums)

    assert (priorities[found] > 0.0).all()


def test_a_draw_equal_to_the_total_gives_the_last_priority_above_zero():
    """Case 26: the index stays within the size."""
    tree = SumTree(5)
    tree.update(np.arange(4), np.array([1.0, 0.0, 2.0, 0.0]))

    assert [2, 2] == tree.find(np.array([3.0, 4.0])).tolist()


def test_sums_do_not_depend_on_the_parts_in_which_the_priorities_came():
    """Else a shard that was loaded would go on with other draws than the one that was saved."""
    priorities = np.random.default_rng(0).random(20_000)
    at_once, in_parts = SumTree(20_000), SumTree(20_000)

    at_once.update(np.arange(20_000), priorities)
    for indices in np.array_split(np.random.default_rng(1).permutation(20_000), 999):
        in_parts.update(indices, priorities[indices])

    assert at_once.total == in_parts.total
    sums = np.random.default_rng(2).random(5_000) * at_once.total
    np.testing.assert_array_equal(at_once.find(sums), in_parts.find(sums))


def test_an_update_of_nothing_changes_nothing():
    tree, priorities = filled(300, 0)

    tree.update(np.zeros(0, np.int64), np.zeros(0))

    assert priorities.sum() == tree.total


def test_a_tree_of_nothing_and_arrays_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"^capacity: got 0, expected at least 1\.$"):
        SumTree(0)
    with pytest.raises(ShapeError, match=r"^priorities: got shape \(1,\), expected \(2,\), as of the indices\.$"):
        SumTree(4).update(np.arange(2), np.ones(1))
