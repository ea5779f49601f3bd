"""What holds of every family of distributions, and of products of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import ShapeError
from rheos_ops.distributions import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
    Product,
    SquashedGaussian,
)

FAMILIES = [
    Categorical(4),
    MultiCategorical((3, 3)),
    MultiCategorical((2, 4, 1)),
    Bernoulli(3),
    DiagonalGaussian(2),
    SquashedGaussian(2),
    Product((Categorical(3), DiagonalGaussian(2), Bernoulli(1), MultiCategorical((2, 3)), SquashedGaussian(1))),
]
every_family = pytest.mark.parametrize("distribution", FAMILIES, ids=lambda family: type(family).__name__)


def params_of(distribution, generator, rows=1, *, scale=1.0):
    """Draw parameters: outputs of about `scale`, deviations between e^-0.5 and e^0.5."""
    outputs = scale * generator.standard_normal((rows, distribution.num_outputs))
    log_stds = generator.uniform(-0.5, 0.5, (rows, distribution.num_log_stds))
    return np.concatenate([outputs, log_stds], axis=-1).astype(np.float32)


def samples_of(distribution, params, count, seed=0):
    """Draw `count` samples of one row of parameters; return its repetition, too."""
    many = np.repeat(params, count, axis=0)
    return many, distribution.sample(xp, many, distribution.draw_noise(np.random.default_rng(seed), count))


# What holds of every family


@every_family
def test_noise_is_finite_float32_of_one_row_a_sample_and_repeats_with_the_generator(distribution):
    noise = distribution.draw_noise(np.random.default_rng(7), 5)

    assert (5, distribution.num_outputs) == noise.shape
    assert noise.dtype == np.float32
    assert np.isfinite(noise).all()
    np.testing.assert_array_equal(noise, distribution.draw_noise(np.random.default_rng(7), 5))


@every_family
def test_actions_have_the_shape_and_dtype_that_the_family_tells(distribution):
    params = params_of(distribution, np.random.default_rng(0), 6).reshape(2, 3, -1)
    noise = distribution.draw_noise(np.random.default_rng(1), 6).reshape(2, 3, -1)

    for actions in (distribution.sample(xp, params, noise), distribution.mode(xp, params)):
        assert (2, 3, *distribution.action_shape) == actions.shape
        assert actions.dtype == (np.int32 if distribution.is_discrete else np.float32)
        assert (2, 3) == distribution.log_prob(xp, params, actions).shape


@every_family
@pytest.mark.parametrize("seed", range(3))
def test_entropy_is_the_mean_of_minus_log_prob_over_samples(distribution, seed):
    count = 40_000
    params = params_of(distribution, np.random.default_rng(seed))

    many, actions = samples_of(distribution, params, count)
    surprise = -distribution.log_prob(xp, many, actions)

    # Four deviations of the mean, and what the quadrature of the squashed normal may be off.
    tolerance = 4.0 * float(surprise.std()) / math.sqrt(count) + 1e-3
    assert distribution.entropy(xp, params)[0] == pytest.approx(surprise.mean(), abs=tolerance)


@every_family
@pytest.mark.parametrize("seed", range(3))
def test_divergence_is_the_mean_of_the_log_ratio_over_samples(distribution, seed):
    count, generator = 40_000, np.random.default_rng(seed)
    p, q = params_of(distribution, generator), params_of(distribution, generator)

    many, actions = samples_of(distribution, p, count)
    log_ratio = distribution.log_prob(xp, many, actions) - distribution.log_prob(xp, np.repeat(q, count, 0), actions)

    tolerance = 4.0 * float(log_ratio.std()) / math.sqrt(count) + 1e-4  # four deviations of the mean
    assert distribution.kl(xp, p, q)[0] == pytest.approx(log_ratio.mean(), abs=tolerance)


@every_family
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0, 10))
def test_divergence_is_never_negative_and_zero_from_itself(distribution, seed, scale):
    generator = np.random.default_rng(seed)
    p, q = params_of(distribution, generator, 8, scale=scale), params_of(distribution, generator, 8, scale=scale)

    assert (distribution.kl(xp, p, q) >= -1e-5).all()  # sums of up to ten terms of up to 50, rounded at 6e-8
    np.testing.assert_array_equal(np.zeros(8), distribution.kl(xp, p, p))


@every_family
@pytest.mark.parametrize("scale", [0.0, 100.0])
def test_everything_is_finite_for_parameters_that_are_small_or_large(distribution, scale):
    generator = np.random.default_rng(0)
    p, q = params_of(distribution, generator, 50, scale=scale), params_of(distribution, generator, 50, scale=scale)

    actions = distribution.sample(xp, p, distribution.draw_noise(generator, 50))

    for result in (distribution.log_prob(xp, p, actions), distribution.entropy(xp, p), distribution.kl(xp, p, q)):
        assert np.isfinite(result).all()


@every_family
def test_parameters_of_another_width_are_refused_by_every_function(distribution):
    width = distribution.num_outputs + distribution.num_log_stds
    right, wrong = xp.zeros((2, width)), xp.zeros((2, width + 1))
    noise, actions = xp.zeros((2, distribution.num_outputs)), distribution.mode(xp, right)

    for call in (
        lambda: distribution.sample(xp, wrong, noise),
        lambda: distribution.mode(xp, wrong),
        lambda: distribution.log_prob(xp, wrong, actions),
        lambda: distribution.entropy(xp, wrong),
        lambda: distribution.kl(xp, wrong, right),
        lambda: distribution.kl(xp, right, wrong),
    ):
        with pytest.raises(ShapeError, match=rf"`params` has shape \(2, {width + 1}\), expected \(..., {width}\)"):
            call()


@every_family
def test_actions_that_would_broadcast_into_nonsense_are_refused(distribution):
    params = params_of(distribution, np.random.default_rng(0), 2)
    actions = distribution.mode(xp, params)

    for wrong in (actions[:1], actions[..., None], actions.reshape(-1)[:1]):
        with pytest.raises(ShapeError, match=r"`actions` has shape .* takes one action of shape"):
            distribution.log_prob(xp, params, wrong)


# Product


def test_a_product_is_its_parts_side_by_side():
    parts = (Categorical(3), DiagonalGaussian(2), MultiCategorical((2, 4)), Bernoulli(1), SquashedGaussian(1))
    product = Product(parts)
    generator = np.random.default_rng(0)
    p, q = ([params_of(part, generator, 5) for part in parts] for _ in range(2))
    joint_p, joint_q = (joined(parts, params) for params in (p, q))
    noise = product.draw_noise(np.random.default_rng(1), 5)
    noises = np.split(noise, np.cumsum([part.num_outputs for part in parts])[:-1], axis=1)

    actions, modes = product.sample(xp, joint_p, noise), product.mode(xp, joint_p)

    apart = [part.sample(xp, params, own) for part, params, own in zip(parts, p, noises, strict=True)]
    modes_apart = [part.mode(xp, params) for part, params in zip(parts, p, strict=True)]
    np.testing.assert_array_equal(np.concatenate([a.reshape(5, -1) for a in apart], 1), actions)
    np.testing.assert_array_equal(np.concatenate([a.reshape(5, -1) for a in modes_apart], 1), modes)
    expected = {
        "log_prob": sum(part.log_prob(xp, params, a) for part, params, a in zip(parts, p, apart, strict=True)),
        "entropy": sum(part.entropy(xp, params) for part, params in zip(parts, p, strict=True)),
        "kl": sum(part.kl(xp, *params) for part, *params in zip(parts, p, q, strict=True)),
    }
    np.testing.assert_allclose(product.log_prob(xp, joint_p, actions), expected["log_prob"], rtol=1e-6)
    np.testing.assert_allclose(product.entropy(xp, joint_p), expected["entropy"], rtol=1e-6)
    np.testing.assert_allclose(product.kl(xp, joint_p, joint_q), expected["kl"], rtol=1e-6)


def joined(parts, params):
    """Join the parameters of parts: all outputs, then all log standard deviations."""
    outputs = [own[:, : part.num_outputs] for part, own in zip(parts, params, strict=True)]
    log_stds = [own[:, part.num_outputs :] for part, own in zip(parts, params, strict=True)]
    return np.concatenate([*outputs, *log_stds], axis=1)


def test_a_product_draws_the_noise_that_its_parts_draw_one_after_the_other():
    parts = (Categorical(3), DiagonalGaussian(2))

    noise = Product(parts).draw_noise(np.random.default_rng(5), 4)

    generator = np.random.default_rng(5)
    np.testing.assert_array_equal(np.concatenate([part.draw_noise(generator, 4) for part in parts], axis=1), noise)


def test_a_large_integer_passes_through_a_product_exactly():
    last = 2**20 - 1
    product = Product((Categorical(2**20), DiagonalGaussian(1)))
    params = np.zeros((1, 2**20 + 2), np.float32)
    params[0, last] = 9.0

    assert last == product.mode(xp, params)[0, 0]
    surely = 9.0 - math.log(math.exp(9.0) + last)
    normal = -0.5 * math.log(2 * math.pi)
    assert product.log_prob(xp, params, np.float32([[last, 0.0]]))[0] == pytest.approx(surely + normal, rel=1e-5)
