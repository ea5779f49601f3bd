"""The NumPy namespace: known values, limits, and the dialect that keeps float32."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import ShapeError

# float32 carries 24 bits: one rounding is 6e-8 of a value. A few of them stay under 1e-6.
ROUNDING = 1e-6


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (xp.exp, [math.exp(-2.0), 1.0, math.exp(3.0)]),
        (xp.tanh, [math.tanh(-2.0), 0.0, math.tanh(3.0)]),
        (xp.sigmoid, [1 / (1 + math.exp(2.0)), 0.5, 1 / (1 + math.exp(-3.0))]),
        (xp.softplus, [math.log1p(math.exp(-2.0)), math.log(2.0), math.log1p(math.exp(3.0))]),
        (xp.relu, [0.0, 0.0, 3.0]),
        (xp.square, [4.0, 0.0, 9.0]),
        (xp.sign, [-1.0, 0.0, 1.0]),
        (xp.abs, [2.0, 0.0, 3.0]),
    ],
)
def test_elementwise_functions_have_the_values_of_the_formula(function, expected):
    result = function(floats(-2.0, 0.0, 3.0))

    np.testing.assert_allclose(result, expected, rtol=ROUNDING)
    assert result.dtype == np.float32


def test_sigmoid_and_softplus_neither_overflow_nor_lose_small_values():
    x = floats(-80.0, 80.0)

    assert [0.0, 80.0] == pytest.approx(xp.softplus(x), abs=1e-30)
    np.testing.assert_allclose(xp.sigmoid(x), [math.exp(-80.0), 1.0], rtol=1e-5)  # e⁻⁸⁰: its exponent is rounded


def test_log_softmax_of_huge_logits_is_finite_and_exact():
    result = xp.log_softmax(floats(10_000.0, 10_000.0 - math.log(3.0)))

    # log 3 is lost to rounding beside 10,000, whose neighbours in float32 are 1e-3 apart.
    np.testing.assert_allclose(result, [math.log(0.75), math.log(0.25)], atol=1e-3)


@given(hnp.arrays(np.float32, (3, 5), elements=st.floats(-50, 50, width=32)))
def test_softmax_is_the_exponential_of_log_softmax_and_sums_to_one(logits):
    softmax = xp.softmax(logits)

    np.testing.assert_allclose(softmax, np.exp(xp.log_softmax(logits)), rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(softmax.sum(-1), 1.0, rtol=ROUNDING)
    np.testing.assert_allclose(xp.logsumexp(logits), np.log(np.exp(logits.astype(np.float64)).sum(-1)), atol=1e-5)


def test_pick_takes_one_element_per_row():
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)

    picked = xp.pick(x, np.array([[0, 2], [1, 0]], np.int32))

    np.testing.assert_array_equal([[0.0, 5.0], [7.0, 9.0]], picked)


def test_one_hot_is_zero_where_the_index_is_outside():
    np.testing.assert_array_equal([[0, 0, 1], [0, 0, 0]], xp.one_hot(np.array([2, 3], np.int32), 3))


def test_argmax_gives_int32():
    result = xp.argmax(floats(1.0, 3.0, 2.0))

    assert result == 1
    assert result.dtype == np.int32


def test_std_divides_by_the_number_of_elements():
    assert xp.std(floats(1.0, 3.0)) == 1.0
    assert xp.std(floats(7.0)) == 0.0


@pytest.mark.parametrize(("given_dtype", "expected"), [("f8", "f4"), ("i8", "i4"), ("u1", "i4"), ("?", "?")])
def test_asarray_makes_float32_int32_or_bool(given_dtype, expected):
    assert np.dtype(expected) == xp.asarray(np.ones(3, given_dtype)).dtype


@pytest.mark.parametrize("reduction", [xp.sum, xp.mean, xp.std, xp.max, xp.min])
def test_reductions_keep_float32(reduction):
    assert np.dtype(np.float32) == reduction(np.ones((3, 4), np.float32), axis=0).dtype


def test_sums_keep_int32():
    x = np.array([[1, 2], [3, 4]], np.int32)

    assert np.dtype(np.int32) == xp.sum(x, axis=0).dtype
    np.testing.assert_array_equal([[1, 2], [4, 6]], xp.cumulative_sum(x))
    assert np.dtype(np.int32) == xp.cumulative_sum(x).dtype


@pytest.mark.parametrize("function", [xp.mean, xp.std])
def test_what_would_promote_integers_is_refused(function):
    with pytest.raises(TypeError, match=r"takes float32, got int32: cast it first"):
        function(np.array([1, 2], np.int32))


@pytest.mark.parametrize("function", [xp.sum, xp.cumulative_sum])
def test_what_would_count_flags_is_refused(function):
    with pytest.raises(TypeError, match=r"takes numbers, got flags: cast them first"):
        function(np.array([True, False]))


def recurrence_by_loop(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    y, rows = np.zeros(b.shape[1:]), []
    for a_t, b_t in zip(a.astype(np.float64), b.astype(np.float64), strict=True):
        y = a_t * y + b_t
        rows.append(y)
    return np.array(rows).reshape(b.shape)


pairs_of_sequences = st.integers(0, 40).flatmap(
    lambda steps: st.tuples(
        hnp.arrays(np.float32, (steps, 2), elements=st.floats(-1, 1, width=32)),
        hnp.arrays(np.float32, (steps, 2), elements=st.floats(-100, 100, width=32)),
    )
)


@given(pairs_of_sequences)
def test_linear_recurrence_equals_the_loop_for_any_length(pair):
    a, b = pair

    result = xp.linear_recurrence(a, b)

    # Sums of up to 40 terms of up to 100 each, rounded at 6e-8 of 4,000 a few times.
    np.testing.assert_allclose(result, recurrence_by_loop(a, b), atol=5e-3, rtol=1e-5)
    assert result.dtype == np.float32


@given(pairs_of_sequences)
def test_reverse_recurrence_is_the_recurrence_of_the_flipped_sequence(pair):
    a, b = pair

    result = xp.linear_recurrence(a, b, reverse=True)

    np.testing.assert_array_equal(np.flip(xp.linear_recurrence(np.flip(a, 0), np.flip(b, 0)), 0), result)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_recurrence_runs_along_any_axis(axis):
    generator = np.random.default_rng(0)
    a, b = generator.random((2, 7, 5, 6), np.float32)

    result = xp.linear_recurrence(a, b, axis=axis)

    along_first = xp.linear_recurrence(np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0))
    np.testing.assert_array_equal(np.moveaxis(along_first, 0, axis), result)


def test_recurrence_with_factor_zero_forgets_what_came_before_and_with_one_sums():
    b = floats(1.0, 2.0, 3.0, 4.0, 5.0)

    np.testing.assert_array_equal(b, xp.linear_recurrence(np.zeros_like(b), b))
    np.testing.assert_array_equal(np.cumsum(b), xp.linear_recurrence(np.ones_like(b), b))


def test_recurrence_refuses_factors_of_another_shape():
    with pytest.raises(ShapeError, match=r"`a` has shape \(2,\), `b` has \(3,\)"):
        xp.linear_recurrence(np.ones(2, np.float32), np.ones(3, np.float32))


def test_scan_gives_every_output_and_the_state_after_the_last_step():
    def step(state, inputs):
        (total,), (x, factor) = state, inputs
        return (total + factor * x,), total

    state, outputs = xp.scan(step, (floats(0.0),), (floats(1.0, 2.0, 3.0)[:, None], floats(1.0, 10.0, 100.0)))

    np.testing.assert_array_equal([[0.0], [1.0], [21.0]], outputs)
    np.testing.assert_array_equal([321.0], state[0])
    assert outputs.dtype == state[0].dtype == np.float32


@given(pairs_of_sequences.filter(lambda pair: len(pair[0]) > 0))
def test_a_scan_over_linear_steps_is_the_linear_recurrence(pair):
    def step(state, inputs):
        y = inputs[0] * state[0] + inputs[1]
        return (y,), y

    _, outputs = xp.scan(step, (np.zeros(2, np.float32),), pair)

    # As between doubling and the loop above: sums of up to 40 terms of up to 100 each.
    np.testing.assert_allclose(outputs, xp.linear_recurrence(*pair), atol=5e-3, rtol=1e-5)


def test_scan_refuses_inputs_of_different_lengths():
    with pytest.raises(ValueError, match="shorter"):
        xp.scan(lambda state, inputs: (state, inputs[0]), (), (np.zeros(3), np.zeros(2)))


@pytest.mark.parametrize("lead", [(), (5,), (4, 5), (2, 4, 5), (0, 5)], ids=str)
def test_a_product_with_a_matrix_is_that_of_every_row(lead):
    x, matrix = (
        np.random.default_rng(0).random((*lead, 3), np.float32),
        np.random.default_rng(1).random((3, 2), np.float32),
    )

    product = xp.matmul(x, matrix)

    np.testing.assert_allclose(np.einsum("...i,ij->...j", x, matrix), product, rtol=ROUNDING)
