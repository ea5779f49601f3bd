"""RunningMoments: the moments of NumPy over all rows, whatever the parts in which they came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rheos.errors import ShapeError
from rheos_ops.normalization import RunningMoments

some_rows = hnp.arrays(np.float32, st.tuples(st.integers(1, 40), st.just(3)), elements=st.floats(-1e3, 1e3, width=32))


def moments_of(*parts):
    moments = RunningMoments(parts[0].shape[1:])
    for part in parts:
        moments.update(part)
    return moments


def assert_equal_moments(expected, moments):
    assert expected.count == moments.count
    # float64 sums of up to 40 squares of up to 10^6, rounded at 1e-16 each.
    np.testing.assert_allclose(moments.mean, expected.mean, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(moments.variance, expected.variance, rtol=1e-10, atol=1e-7)


@given(some_rows, st.lists(st.integers(0, 40), max_size=6))
def test_moments_are_those_of_numpy_over_all_rows_however_they_are_cut(rows, cuts):
    moments = moments_of(*np.split(rows, sorted(cuts)))

    rows = rows.astype(np.float64)
    assert len(rows) == moments.count
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(moments.variance, rows.var(axis=0), rtol=1e-10, atol=1e-7)
    np.testing.assert_array_equal(np.sqrt(moments.variance), moments.std)


@given(some_rows, some_rows, some_rows)
def test_merging_is_the_same_in_any_order_and_any_grouping(a, b, c):
    expected = moments_of(np.concatenate([a, b, c]))

    left = moments_of(a)
    left.merge(moments_of(b))
    left.merge(moments_of(c))
    inner = moments_of(c)
    inner.merge(moments_of(a))
    right = moments_of(b)
    right.merge(inner)

    assert_equal_moments(expected, left)
    assert_equal_moments(expected, right)


def test_a_small_spread_about_a_large_mean_is_not_lost():
    generator = np.random.default_rng(0)
    rows = 1e8 + generator.standard_normal((1000, 1))  # E x² - (E x)² would give a variance of 0 or 2 here

    moments = moments_of(*np.split(rows, 10))

    np.testing.assert_allclose(moments.variance, rows.var(axis=0), rtol=1e-6)


def test_no_rows_and_nothing_seen_change_nothing():
    moments = moments_of(np.float32([[1.0], [3.0]]))

    moments.update(np.empty((0, 1), np.float32))
    moments.merge(RunningMoments((1,)))

    assert (2, [2.0], [1.0]) == (moments.count, moments.mean.tolist(), moments.variance.tolist())


def test_before_anything_was_seen_mean_and_variance_are_zero():
    empty = RunningMoments((2,))

    assert (0, [0.0, 0.0], [0.0, 0.0]) == (empty.count, empty.mean.tolist(), empty.variance.tolist())


def test_the_rows_given_are_left_as_they_are():
    rows = np.float32([[1.0], [2.0]])
    rows.setflags(write=False)

    moments_of(rows)

    np.testing.assert_array_equal([[1.0], [2.0]], rows)


def test_moments_go_on_from_their_state():
    first, second = np.float32([[1.0, 5.0], [2.0, 7.0]]), np.float32([[4.0, 0.0]])
    resumed = RunningMoments((2,))

    resumed.load_state_dict(moments_of(first).state_dict())
    resumed.update(second)

    whole = moments_of(first, second)
    assert whole.count == resumed.count
    np.testing.assert_array_equal(whole.mean, resumed.mean)
    np.testing.assert_array_equal(whole.variance, resumed.variance)


def test_a_state_does_not_change_when_the_moments_go_on():
    moments = moments_of(np.float32([[1.0]]))
    state = moments.state_dict()

    moments.update(np.float32([[9.0]]))

    assert (1, [1.0], [0.0]) == (state["count"], state["mean"].tolist(), state["squares"].tolist())


def test_rows_of_another_width_are_refused():
    with pytest.raises(ShapeError, match=r"`rows` has shape \(4, 2\), expected \(N, 3\)"):
        RunningMoments((3,)).update(np.zeros((4, 2)))
