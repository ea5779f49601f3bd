"""Q-learning: known targets, what two networks are good for, and the Huber loss at its corners."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import ShapeError
from rheos_ops.q_learning import (
    double_q_targets,
    dueling_q_values,
    huber,
    rescaled_targets,
    sequence_priorities,
    signed_hyperbolic,
    signed_parabolic,
    td_errors,
)

rows_actions_and_seeds = st.tuples(st.integers(1, 20), st.integers(1, 6), st.integers(0, 2**32 - 1))


def q_values(rows: int, actions: int, seed: int, *, count: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, rows, actions)).astype(np.float32)


@given(rows_actions_and_seeds)
def test_double_q_targets_are_those_of_a_loop(shape):
    online, target = q_values(*shape)
    rewards, discounts = np.random.default_rng(1).random((2, shape[0])).astype(np.float32)
    expected = [
        reward + discount * own_target[max(range(shape[1]), key=own.__getitem__)]
        for reward, discount, own, own_target in zip(rewards, discounts, online, target, strict=True)
    ]

    found = double_q_targets(xp, rewards, discounts, online, target)

    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == np.float32


def test_one_network_for_both_gives_the_target_of_q_learning():
    (values,) = q_values(9, 4, 0, count=1)
    rewards = np.zeros(9, np.float32)

    found = double_q_targets(xp, rewards, np.full(9, 0.5, np.float32), values, values)

    np.testing.assert_array_equal(0.5 * values.max(axis=-1), found)


def test_two_networks_do_not_overestimate_where_one_does():
    """All actions are worth 0, and the networks' errors independent: what van Hasselt et al. 2016, theorem 1, is about.

    The largest of ten standard normal errors is 1.539 on average (David & Nagaraja 2003, table of order statistics).
    """
    rows, nothing = 20_000, np.zeros(20_000, np.float32)
    online, target = q_values(rows, 10, 0)

    single, double = (double_q_targets(xp, nothing, nothing + 1.0, online, other).mean() for other in (online, target))

    # the means of 20,000 numbers with deviations of 0.6 and 1: 4 standard errors
    assert single == pytest.approx(1.539, abs=4 * 0.6 / rows**0.5)
    assert double == pytest.approx(0.0, abs=4 / rows**0.5)


def test_n_steps_are_their_discounted_rewards_and_a_power_of_the_discount():
    # three steps with γ = 0.5, then Q⁻ = 8; in the second row the episode terminated in the second step
    rewards = xp.asarray([1.0 + 0.5 * 2.0 + 0.25 * 4.0, 1.0 + 0.5 * 2.0])
    next_q_values = xp.asarray([[0.0, 8.0], [0.0, 8.0]])

    found = double_q_targets(xp, rewards, xp.asarray([0.5**3, 0.0]), next_q_values, next_q_values)

    np.testing.assert_array_equal([3.0 + 1.0, 2.0], found)


def test_td_errors_are_those_of_the_actions_taken_over_any_leading_axes():
    values = xp.asarray([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])

    found = td_errors(xp, values, xp.asarray([[0, 1], [1, 0]]), xp.asarray([[1.0, 0.0], [10.0, 7.0]]))

    np.testing.assert_array_equal([[0.0, -4.0], [4.0, 0.0]], found)


@given(rows_actions_and_seeds, st.floats(-100.0, 100.0, width=32))
def test_dueling_values_have_their_value_as_mean_and_ignore_what_all_advantages_share(shape, shift):
    advantages, others = q_values(*shape)
    values = others[:, 0]

    found = dueling_q_values(xp, values, advantages)

    # numbers of about 3, or 100 where they are shifted, rounded at 6e-8 a few times
    np.testing.assert_allclose(found.mean(axis=-1), values, atol=2e-6)
    np.testing.assert_allclose(found, dueling_q_values(xp, values, advantages + np.float32(shift)), atol=1e-4)
    np.testing.assert_allclose(np.diff(found), np.diff(advantages), atol=2e-6)


@pytest.mark.parametrize("delta", [0.5, 1.0, 3.0])
def test_huber_is_half_the_square_inside_and_a_line_outside(delta):
    errors = np.linspace(-10.0, 10.0, 201, dtype=np.float32)
    expected = np.where(np.abs(errors) <= delta, errors**2 / 2, delta * (np.abs(errors) - delta / 2))

    found = huber(xp, errors, delta=delta)

    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == np.float32


def test_huber_of_a_huge_error_does_not_overflow():
    np.testing.assert_array_equal(np.float32([1e30]), huber(xp, np.float32([-1e30])))


@pytest.mark.parametrize("delta", [0.0, -1.0, float("nan")])
def test_a_delta_that_is_not_above_zero_is_refused(delta):
    with pytest.raises(ValueError, match=rf"^delta: got {delta}, expected a number above 0.$"):
        huber(xp, xp.zeros((1,)), delta=delta)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: double_q_targets(xp, xp.zeros((3,)), xp.zeros((3,)), xp.zeros((3, 2)), xp.zeros((3, 4))),
            r"^`next_target_q_values` has shape \(3, 4\), `next_q_values` has \(3, 2\): double_q_targets takes",
        ),
        (
            lambda: double_q_targets(xp, xp.zeros((3, 1)), xp.zeros((3,)), xp.zeros((3, 2)), xp.zeros((3, 2))),
            r"^`rewards` has shape \(3, 1\), `rows_of_values` has \(3,\): double_q_targets takes one reward",
        ),
        (
            lambda: td_errors(xp, xp.zeros((3, 2)), xp.zeros((3,), xp.int32), xp.zeros((3, 2))),
            r"^`targets` has shape \(3, 2\), `rows_of_values` has \(3,\): td_errors takes one action",
        ),
        (
            lambda: dueling_q_values(xp, xp.zeros((3, 1)), xp.zeros((3, 2))),
            r"^`values` has shape \(3, 1\), `rows_of_advantages` has \(3,\): dueling_q_values takes one value",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


@given(st.floats(-1e6, 1e6), st.sampled_from([0.0, 1e-3, 1e-2, 1.0]))
def test_rescaling_is_undone_by_its_inverse(x, epsilon):
    x = np.array([x], np.float32)

    there = signed_hyperbolic(xp, x, epsilon=epsilon)

    back = signed_parabolic(xp, there, epsilon=epsilon)
    np.testing.assert_allclose(back, x, rtol=2e-6, atol=1e-37)  # a few roundings
    assert np.float32 == there.dtype


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2])
def test_rescaling_is_that_of_the_paper_in_more_digits(epsilon):
    """The formulas of Pohlen et al. 2018, whose differences of nearly equal numbers need float64."""
    x = np.concatenate([np.logspace(-6, 6, 50), -np.logspace(-6, 6, 50), [0.0]])
    h = np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + epsilon * x
    root = np.sqrt(1 + 4 * epsilon * (np.abs(x) + 1 + epsilon))
    inverse = np.sign(x) * (((root - 1) / (2 * epsilon)) ** 2 - 1)

    found, found_inverse = (
        function(xp, x.astype(np.float32), epsilon=epsilon) for function in (signed_hyperbolic, signed_parabolic)
    )

    np.testing.assert_allclose(found, h, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(found_inverse, inverse, rtol=1e-5, atol=1e-9)


def test_rescaled_targets_of_rescaled_values_are_rescaled_targets_of_the_values():
    generator = np.random.default_rng(0)
    values, rewards = generator.normal(0.0, 50.0, (2, 40)).astype(np.float32)
    discounts = generator.random(40, np.float32)

    found = rescaled_targets(xp, rewards, discounts, signed_hyperbolic(xp, values), epsilon=1e-3)

    plain = rescaled_targets(xp, rewards, discounts, values, epsilon=None)
    np.testing.assert_array_equal(rewards + discounts * values, plain)
    np.testing.assert_allclose(found, signed_hyperbolic(xp, plain), rtol=1e-4, atol=1e-5)  # sums of opposite signs


@pytest.mark.parametrize("max_share", [0.0, 0.9, 1.0])
def test_the_priority_of_a_sequence_lies_between_the_mean_and_the_largest_of_its_errors(max_share):
    errors = np.array([[1.0, -4.0, 100.0], [2.0, 2.0, 2.0], [7.0, 7.0, 7.0]], np.float32)
    mask = np.array([[True, True, False], [True, True, True], [False, False, False]])

    found = sequence_priorities(xp, errors, mask, max_share=max_share)

    np.testing.assert_allclose(found, [max_share * 4.0 + (1.0 - max_share) * 2.5, 2.0, 0.0], rtol=1e-6)


def test_arrays_of_sequences_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match="one flag for each error"):
        sequence_priorities(xp, np.zeros((2, 3), np.float32), np.ones((2, 2), bool), max_share=0.9)
    with pytest.raises(ShapeError, match="one discount and one value for each reward"):
        rescaled_targets(xp, *(np.zeros(n, np.float32) for n in (2, 2, 3)), epsilon=None)
