"""Distributions: known values, frequencies of samples, and the properties that bind their functions together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import ShapeError
from rheos_ops.distributions import Categorical, DiagonalGaussian, GaussianParams

LOGITS = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], np.float32))
GAUSSIAN = GaussianParams(mean=np.float32([[1.0, -2.0]]), log_std=np.log(np.float32([0.5, 2.0])))

some_logits = hnp.arrays(np.float32, (3, 4), elements=st.floats(-20, 20, width=32))
some_gaussians = st.builds(
    GaussianParams,
    mean=hnp.arrays(np.float32, (3, 2), elements=st.floats(-5, 5, width=32)),
    log_std=hnp.arrays(np.float32, (2,), elements=st.floats(-1, 1, width=32)),
)


def test_categorical_log_prob_and_entropy_are_those_of_the_probabilities():
    categorical = Categorical(3)

    log_prob = categorical.log_prob(xp, LOGITS, xp.asarray([1, 2]))

    np.testing.assert_allclose(log_prob, [math.log(0.25), math.log(0.7)], rtol=1e-6)
    # ½ log 2 + 2 · ¼ log 4 = 1.5 log 2
    assert categorical.entropy(xp, LOGITS)[0] == pytest.approx(1.5 * math.log(2.0))


@given(some_logits)
def test_categorical_probabilities_sum_to_one(logits):
    categorical = Categorical(4)

    log_probs = [categorical.log_prob(xp, logits, np.full(3, value, np.int32)) for value in range(4)]

    np.testing.assert_allclose(np.exp(log_probs).sum(0), 1.0, rtol=1e-5)


@given(some_logits, st.floats(-100, 100))
def test_adding_a_number_to_all_logits_changes_nothing(logits, shift):
    categorical, actions = Categorical(4), np.array([0, 1, 2], np.int32)

    shifted = categorical.log_prob(xp, logits + np.float32(shift), actions)

    # Logits up to 120 are rounded at 8e-6.
    np.testing.assert_allclose(shifted, categorical.log_prob(xp, logits, actions), atol=1e-4)


def test_categorical_entropy_is_log_n_for_equal_logits_and_zero_for_a_sure_thing():
    assert Categorical(4).entropy(xp, xp.zeros((1, 4)))[0] == pytest.approx(math.log(4.0))
    assert Categorical(2).entropy(xp, xp.asarray([[1_000.0, 0.0]]))[0] == 0.0


def test_categorical_samples_have_the_frequencies_of_their_probabilities():
    categorical, count = Categorical(3), 40_000
    noise = categorical.draw_noise(np.random.default_rng(0), count)

    actions = categorical.sample(xp, np.broadcast_to(LOGITS[1], (count, 3)), noise)

    # Four standard deviations of a frequency: 4 √(0.25 / 40,000) = 0.01.
    np.testing.assert_allclose(np.bincount(actions) / count, [0.1, 0.2, 0.7], atol=0.01)
    assert actions.dtype == np.int32


def test_categorical_noise_is_finite_even_for_a_draw_of_zero():
    class Zeros:
        def standard_exponential(self, shape, dtype):
            return np.zeros(shape, dtype)

    assert np.isfinite(Categorical(2).draw_noise(Zeros(), 3)).all()


@pytest.mark.parametrize(("distribution", "width"), [(Categorical(3), 3), (DiagonalGaussian(2), 2)])
def test_noise_is_float32_of_one_row_a_sample_and_repeats_with_the_generator(distribution, width):
    noise = distribution.draw_noise(np.random.default_rng(7), 5)

    assert (5, width) == noise.shape
    assert noise.dtype == np.float32
    np.testing.assert_array_equal(noise, distribution.draw_noise(np.random.default_rng(7), 5))
    assert width == distribution.num_params


def test_modes_are_the_likeliest_value_and_the_mean():
    np.testing.assert_array_equal([0, 2], Categorical(3).mode(xp, LOGITS))
    np.testing.assert_array_equal(GAUSSIAN.mean, DiagonalGaussian(2).mode(xp, GAUSSIAN))


def test_gaussian_log_prob_and_entropy_are_those_of_the_formula():
    gaussian = DiagonalGaussian(2)

    log_prob = gaussian.log_prob(xp, GAUSSIAN, xp.asarray([[1.5, 0.0]]))

    # Each dimension lies one deviation off its mean; log 0.5 and log 2 cancel.
    np.testing.assert_allclose(log_prob, [-1.0 - math.log(2 * math.pi)], rtol=1e-6)
    np.testing.assert_allclose(gaussian.entropy(xp, GAUSSIAN), [math.log(2 * math.pi * math.e)], rtol=1e-6)


@given(some_gaussians)
def test_gaussian_sample_of_no_noise_is_the_mean_and_of_unit_noise_one_deviation_off(params):
    gaussian, none = DiagonalGaussian(2), np.zeros((3, 2), np.float32)

    np.testing.assert_array_equal(params.mean, gaussian.sample(xp, params, none))
    expected = params.mean + np.exp(params.log_std)
    np.testing.assert_allclose(gaussian.sample(xp, params, none + 1), expected, rtol=1e-5, atol=1e-6)


@given(some_gaussians, st.integers(0, 2**32 - 1))
def test_gaussian_log_prob_of_a_sample_is_that_of_its_noise_less_the_log_deviations(params, seed):
    gaussian = DiagonalGaussian(2)
    noise = gaussian.draw_noise(np.random.default_rng(seed), 3)

    log_prob = gaussian.log_prob(xp, params, gaussian.sample(xp, params, noise))

    standard = GaussianParams(np.zeros((3, 2), np.float32), np.zeros(2, np.float32))
    # A mean of 5 and a deviation of e⁻¹ cost one of seven digits, which noise of 4 squares.
    expected = gaussian.log_prob(xp, standard, noise) - params.log_std.sum()
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("distribution", "params"),
    [(Categorical(3), LOGITS[:1]), (DiagonalGaussian(2), GAUSSIAN)],
    ids=["categorical", "gaussian"],
)
def test_entropy_is_the_mean_of_minus_log_prob_over_samples(distribution, params):
    count = 40_000
    many = (
        np.repeat(params, count, 0)
        if distribution == Categorical(3)
        else params._replace(mean=params.mean.repeat(count, 0))
    )
    noise = distribution.draw_noise(np.random.default_rng(0), count)

    surprise = -distribution.log_prob(xp, many, distribution.sample(xp, many, noise))

    # The deviation of -log p is 1 at most here: four deviations of the mean are 4 / √40,000 = 0.02.
    assert distribution.entropy(xp, params)[0] == pytest.approx(surprise.mean(), abs=0.02)


@given(some_logits, some_logits)
def test_categorical_divergence_is_never_negative_and_zero_from_itself(p, q):
    categorical = Categorical(4)

    assert (categorical.kl(xp, p, q) >= -1e-5).all()  # a sum of four rounded terms of up to 40
    np.testing.assert_array_equal(np.zeros(3), categorical.kl(xp, p, p))


@given(some_gaussians, some_gaussians)
def test_gaussian_divergence_is_never_negative_and_zero_from_itself(p, q):
    gaussian = DiagonalGaussian(2)

    assert (gaussian.kl(xp, p, q) >= -1e-5).all()
    np.testing.assert_allclose(gaussian.kl(xp, p, p), 0.0, atol=1e-6)


def test_divergences_have_the_values_of_the_formula():
    two_to_one = Categorical(2).kl(xp, np.log(np.float32([[0.5, 0.5]])), np.log(np.float32([[0.25, 0.75]])))
    shifted = DiagonalGaussian(1).kl(
        xp,
        GaussianParams(np.float32([[3.0]]), np.float32([0.0])),
        GaussianParams(np.float32([[1.0]]), np.float32([math.log(2.0)])),
    )

    np.testing.assert_allclose(two_to_one, [0.5 * math.log(2.0) + 0.5 * math.log(2.0 / 3.0)], rtol=1e-5)
    # log 2 + (1 + 2²) / (2 · 2²) - ½
    np.testing.assert_allclose(shifted, [math.log(2.0) + 5 / 8 - 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Categorical(3).mode(xp, xp.zeros((2, 4))), r"`logits` has shape \(2, 4\), expected \(..., 3\)"),
        (
            lambda: Categorical(3).log_prob(xp, LOGITS, xp.zeros((2, 1), xp.int32)),
            r"`actions` has shape \(2, 1\), `logits` has \(2, 3\)",
        ),
        (
            lambda: DiagonalGaussian(2).log_prob(xp, GAUSSIAN, xp.zeros((2,))),
            r"`actions` has shape \(2,\), `mean` has \(1, 2\)",
        ),
        (
            lambda: DiagonalGaussian(2).mode(xp, GAUSSIAN._replace(log_std=xp.zeros((3,)))),
            r"`log_std` has shape \(3,\), expected \(..., 2\)",
        ),
    ],
)
def test_shapes_that_would_broadcast_into_nonsense_are_refused(call, message):
    with pytest.raises(ShapeError, match=message):
        call()
