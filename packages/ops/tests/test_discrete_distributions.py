"""Categorical, MultiCategorical and Bernoulli: known values, frequencies of samples, masks, and one as the other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import ShapeError
from rheos_ops.distributions import Bernoulli, Categorical, MultiCategorical

LOGITS = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], np.float32))

some_logits = hnp.arrays(np.float32, (3, 4), elements=st.floats(-20, 20, width=32))
some_masks = hnp.arrays(np.bool_, (3, 4)).filter(lambda mask: mask.any(axis=1).all())


def samples_of(distribution, params, count):
    """Draw `count` samples of one row of parameters."""
    noise = distribution.draw_noise(np.random.default_rng(0), count)
    return distribution.sample(xp, np.repeat(params, count, axis=0), noise)


# Categorical


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
    actions = samples_of(Categorical(3), LOGITS[1:], 40_000)

    # Four deviations of a frequency: 4 √(0.25 / 40,000) = 0.01.
    np.testing.assert_allclose(np.bincount(actions) / 40_000, [0.1, 0.2, 0.7], atol=0.01)


def test_categorical_noise_is_finite_even_for_a_draw_of_zero():
    class Zeros:
        def standard_exponential(self, shape, dtype):
            return np.zeros(shape, dtype)

    assert np.isfinite(Categorical(2).draw_noise(Zeros(), 3)).all()


def test_the_mode_of_a_categorical_is_the_likeliest_value():
    np.testing.assert_array_equal([0, 2], Categorical(3).mode(xp, LOGITS))


def test_categorical_divergence_has_the_value_of_the_formula():
    two_to_one = Categorical(2).kl(xp, np.log(np.float32([[0.5, 0.5]])), np.log(np.float32([[0.25, 0.75]])))

    np.testing.assert_allclose(two_to_one, [0.5 * math.log(2.0) + 0.5 * math.log(2.0 / 3.0)], rtol=1e-5)


# Masks


def test_a_mask_that_allows_one_value_leaves_it_probability_one_and_no_entropy():
    categorical = Categorical(3)
    only_the_unlikely = xp.asarray([[True, False, False]])

    params = categorical.mask(xp, LOGITS[1:], only_the_unlikely)

    assert [1.0] == np.exp(categorical.log_prob(xp, params, xp.asarray([0]))).tolist()
    assert [0.0] == categorical.entropy(xp, params).tolist()
    assert [0] == categorical.mode(xp, params).tolist()


def test_a_mask_renormalizes_the_probabilities_of_what_is_allowed():
    categorical = Categorical(3)

    params = categorical.mask(xp, LOGITS[1:], xp.asarray([[True, False, True]]))

    np.testing.assert_allclose(xp.softmax(params), [[0.1 / 0.8, 0.0, 0.7 / 0.8]], rtol=1e-6)


@given(some_logits, some_masks, st.integers(0, 2**32 - 1))
def test_a_forbidden_value_is_never_drawn_nor_chosen(logits, mask, seed):
    categorical = Categorical(4)
    params = categorical.mask(xp, logits, mask)

    noise = categorical.draw_noise(np.random.default_rng(seed), 3)

    rows = np.arange(3)
    assert mask[rows, categorical.sample(xp, params, noise)].all()
    assert mask[rows, categorical.mode(xp, params)].all()


@given(some_logits, some_logits, some_masks, some_masks)
def test_entropy_and_divergence_stay_finite_under_masks_also_of_two_kinds(p, q, mask_p, mask_q):
    categorical = Categorical(4)
    masked_p, masked_q = categorical.mask(xp, p, mask_p), categorical.mask(xp, q, mask_q)

    entropy, divergence = categorical.entropy(xp, masked_p), categorical.kl(xp, masked_p, masked_q)

    assert np.isfinite(entropy).all()
    assert (entropy <= np.log(mask_p.sum(axis=1)) + 1e-5).all()
    assert np.isfinite(divergence).all()


def test_a_multi_categorical_takes_the_masks_of_its_entries_side_by_side():
    multi = MultiCategorical((2, 3))
    mask = xp.asarray([[False, True, True, False, True]])

    params = multi.mask(xp, xp.zeros((1, 5)), mask)

    assert multi.entropy(xp, params)[0] == pytest.approx(math.log(1) + math.log(2))
    np.testing.assert_allclose(multi.log_prob(xp, params, xp.asarray([[1, 2]])), [math.log(0.5)], rtol=1e-6)


def test_where_nothing_is_allowed_all_values_are_equally_likely_and_nothing_is_nan():
    params = Categorical(3).mask(xp, LOGITS[1:], xp.zeros((1, 3), np.bool_))

    np.testing.assert_allclose(xp.softmax(params), [[1 / 3] * 3], rtol=1e-6)


def test_a_mask_of_another_size_is_refused():
    with pytest.raises(ShapeError, match=r"`action_mask` has shape \(1, 3\), `params` has \(2, 3\)"):
        Categorical(3).mask(xp, LOGITS, xp.ones((1, 3), np.bool_))


# MultiCategorical


@given(hnp.arrays(np.float32, (3, 9), elements=st.floats(-20, 20, width=32)), st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("nvec", [(3, 3, 3), (2, 4, 3), (1, 8), (9,)], ids=str)
def test_a_multi_categorical_is_as_many_independent_categoricals(nvec, params, seed):
    multi, entries = MultiCategorical(nvec), [Categorical(n) for n in nvec]
    noise = multi.draw_noise(np.random.default_rng(seed), 3)
    ends = np.cumsum(nvec)[:-1]
    logits, noises, others = (np.split(array, ends, axis=1) for array in (params, noise, params[::-1]))

    actions = multi.sample(xp, params, noise)

    apart = [entry.sample(xp, *arrays) for entry, *arrays in zip(entries, logits, noises, strict=True)]
    np.testing.assert_array_equal(np.stack(apart, axis=1), actions)
    modes = [entry.mode(xp, part) for entry, part in zip(entries, logits, strict=True)]
    np.testing.assert_array_equal(np.stack(modes, axis=1), multi.mode(xp, params))
    sums = {
        "log_prob": sum(e.log_prob(xp, part, a) for e, part, a in zip(entries, logits, apart, strict=True)),
        "entropy": sum(e.entropy(xp, part) for e, part in zip(entries, logits, strict=True)),
        "kl": sum(e.kl(xp, part, other) for e, part, other in zip(entries, logits, others, strict=True)),
    }
    # Sums of three numbers of up to 40 in another order.
    np.testing.assert_allclose(multi.log_prob(xp, params, actions), sums["log_prob"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(multi.entropy(xp, params), sums["entropy"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(multi.kl(xp, params, params[::-1]), sums["kl"], rtol=1e-5, atol=1e-5)


# Bernoulli


def test_bernoulli_log_prob_and_entropy_are_those_of_the_probabilities():
    logits = np.float32([[math.log(3.0), 0.0]])  # probabilities of 1: 3/4 and 1/2

    log_prob = Bernoulli(2).log_prob(xp, logits, xp.asarray([[0, 1]]))

    np.testing.assert_allclose(log_prob, [math.log(1 / 4) + math.log(1 / 2)], rtol=1e-6)
    expected = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) + math.log(2)
    np.testing.assert_allclose(Bernoulli(2).entropy(xp, logits), [expected], rtol=1e-6)


def test_bernoulli_samples_have_the_frequencies_of_their_probabilities():
    logits = np.float32([[math.log(3.0), -math.log(9.0)]])

    actions = samples_of(Bernoulli(2), logits, 40_000)

    np.testing.assert_allclose(actions.mean(axis=0), [0.75, 0.1], atol=0.01)  # four deviations of a frequency


@given(hnp.arrays(np.float32, (3, 4), elements=st.floats(-80, 80, width=32)))
def test_a_bernoulli_is_a_categorical_whose_other_logit_is_zero(logits):
    bernoulli, categorical = Bernoulli(1), Categorical(2)
    one, two = logits[:, :1], np.stack([np.zeros(3, np.float32), logits[:, 0]], axis=1)
    other_one, other_two = one[::-1], two[::-1]

    for flag in (0, 1):
        log_prob = bernoulli.log_prob(xp, one, np.full((3, 1), flag, np.int32))
        np.testing.assert_allclose(log_prob, categorical.log_prob(xp, two, np.full(3, flag, np.int32)), atol=1e-5)
    np.testing.assert_allclose(bernoulli.entropy(xp, one), categorical.entropy(xp, two), atol=1e-5)
    # Logits of up to 80 are rounded at 8e-6.
    np.testing.assert_allclose(bernoulli.kl(xp, one, other_one), categorical.kl(xp, two, other_two), atol=1e-4)


def test_the_mode_of_a_bernoulli_is_one_where_that_is_likelier():
    np.testing.assert_array_equal([[1, 0, 0]], Bernoulli(3).mode(xp, xp.asarray([[0.1, -0.1, 0.0]])))
