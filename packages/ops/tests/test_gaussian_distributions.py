"""DiagonalGaussian and SquashedGaussian: known values, integrals, and what is near the bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos_ops.distributions import DiagonalGaussian, SquashedGaussian

GAUSSIAN = np.float32([[1.0, -2.0, math.log(0.5), math.log(2.0)]])

some_gaussians = hnp.arrays(np.float32, (3, 4), elements=st.floats(-1, 1, width=32))


# DiagonalGaussian


def test_gaussian_log_prob_and_entropy_are_those_of_the_formula():
    gaussian = DiagonalGaussian(2)

    log_prob = gaussian.log_prob(xp, GAUSSIAN, xp.asarray([[1.5, 0.0]]))

    # Each dimension lies one deviation off its mean; log 0.5 and log 2 cancel.
    np.testing.assert_allclose(log_prob, [-1.0 - math.log(2 * math.pi)], rtol=1e-6)
    np.testing.assert_allclose(gaussian.entropy(xp, GAUSSIAN), [math.log(2 * math.pi * math.e)], rtol=1e-6)


@given(some_gaussians)
def test_gaussian_sample_of_no_noise_is_the_mean_and_of_unit_noise_one_deviation_off(params):
    gaussian, none = DiagonalGaussian(2), np.zeros((3, 2), np.float32)
    mean, log_std = params[:, :2], params[:, 2:]

    np.testing.assert_array_equal(mean, gaussian.sample(xp, params, none))
    np.testing.assert_array_equal(mean, gaussian.mode(xp, params))
    np.testing.assert_allclose(gaussian.sample(xp, params, none + 1), mean + np.exp(log_std), rtol=1e-5, atol=1e-6)


def test_gaussian_divergence_has_the_value_of_the_formula():
    shifted = DiagonalGaussian(1).kl(xp, np.float32([[3.0, 0.0]]), np.float32([[1.0, math.log(2.0)]]))

    # log 2 + (1 + 2²) / (2 · 2²) - ½
    np.testing.assert_allclose(shifted, [math.log(2.0) + 5 / 8 - 0.5], rtol=1e-6)


# SquashedGaussian


def test_the_density_of_a_squashed_gaussian_integrates_to_one():
    squashed, edge = SquashedGaussian(1), 1 - 1e-6
    u = np.linspace(-np.arctanh(edge), np.arctanh(edge), 20_001)
    actions = np.tanh(u).astype(np.float32)

    density = np.exp(squashed.log_prob(xp, np.float32([[0.5, -0.5]]).repeat(len(u), 0), actions[:, None]))

    # The trapezoids are fine enough for six digits; float32 actions cost one.
    trapezoids = 0.5 * (density[1:] + density[:-1]) * np.diff(actions.astype(np.float64))
    assert trapezoids.sum() == pytest.approx(1.0, abs=1e-4)


@given(
    mean=st.floats(-3, 3, width=32),
    log_std=st.floats(-2, 1, width=32),
    u=st.floats(-7, 7, width=32),
)
def test_squashed_log_prob_is_that_of_the_normal_less_the_slope_of_tanh(mean, log_std, u):
    action = np.tanh(np.float64(u)).astype(np.float32)

    log_prob = SquashedGaussian(1).log_prob(xp, np.float32([[mean, log_std]]), action[None, None])[0]

    # In float64, at the action as it is stored: it is the density of that one.
    exact = np.arctanh(np.float64(action))
    normal = -0.5 * ((exact - mean) / math.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    # artanh is good to 1e-6 of 7, and a deviation of e⁻² squares what is 70 of them away.
    assert log_prob == pytest.approx(normal - np.log1p(-(np.float64(action) ** 2)), rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("mean", [-1e6, -20.0, 20.0, 1e6])
def test_squashed_samples_stay_inside_the_bounds_and_have_a_finite_log_prob_however_far_the_mean(mean):
    squashed, params = SquashedGaussian(1), np.float32([[mean, 0.0]])

    actions = np.concatenate([squashed.sample(xp, params, xp.zeros((1, 1))), squashed.mode(xp, params)])

    np.testing.assert_array_equal([[np.sign(mean) * np.float32(1 - 1e-6)]] * 2, actions)
    assert (np.abs(actions) < 1.0).all()
    assert np.isfinite(squashed.log_prob(xp, params, actions[:1])).all()


def test_actions_at_the_very_bounds_have_the_log_prob_of_the_largest_sample():
    squashed, params = SquashedGaussian(1), np.float32([[0.5, 0.0]] * 2)

    at_bounds = squashed.log_prob(xp, params, xp.asarray([[1.0], [-1.0]]))

    np.testing.assert_array_equal(squashed.log_prob(xp, params, xp.asarray([[1 - 1e-6], [1e-6 - 1]])), at_bounds)
    assert np.isfinite(at_bounds).all()


@pytest.mark.parametrize(("log_std", "tolerance"), [(-3.0, 1e-4), (0.0, 1e-4), (0.5, 4e-3), (1.0, 0.04)])
def test_the_entropy_of_a_squashed_gaussian_is_as_near_to_the_integral_as_is_said(log_std, tolerance):
    means = np.linspace(-4, 4, 33)
    z = np.linspace(-12, 12, 20_001)
    weights = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    u = means[:, None] + math.exp(log_std) * z
    log_slope = 2 * (math.log(2) - u - np.logaddexp(0, -2 * u))
    expected = log_std + 0.5 * math.log(2 * math.pi * math.e) + log_slope @ weights

    params = np.stack([means, np.full(33, log_std)], axis=1).astype(np.float32)

    np.testing.assert_allclose(SquashedGaussian(1).entropy(xp, params), expected, atol=tolerance)


def test_the_entropy_of_a_squashed_gaussian_is_below_that_of_the_uniform():
    params = np.float32([[mean, log_std] for mean in (0.0, 1.0, 3.0) for log_std in np.linspace(-3, 1, 9)])

    assert (SquashedGaussian(1).entropy(xp, params) < math.log(2.0)).all()


def test_squashing_does_not_change_a_divergence():
    p, q = np.float32([[0.3, 1.0, -0.5, 0.2]]), np.float32([[0.0, 0.7, 0.1, 0.0]])

    np.testing.assert_array_equal(DiagonalGaussian(2).kl(xp, p, q), SquashedGaussian(2).kl(xp, p, q))
