"""Distributions are alive everywhere, and their gradients are those that books give."""

from __future__ import annotations

import numpy as np
import pytest

from parity.distribution_cases import FAMILIES, SPACES
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.networks.specs import Parameter
from rheos.testing.components import Steps, check_component, installed_places
from rheos_ops.distributions import Categorical, DiagonalGaussian, SquashedGaussian

every_backend = pytest.mark.parametrize("place", installed_places(modes=("eager",)), ids=str)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_distribution_is_alive_eagerly(name):
    check_component(FAMILIES[name], SPACES[name], modes=("eager",))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_distribution_is_alive_in_graphs(name):
    check_component(FAMILIES[name], SPACES[name], modes=("graph",))


def gradient_of(place, function, params, **columns):
    """Return the gradient of the sum of what a function of some params gives."""
    backend = place.make_backend()
    networks = backend.build({"params": Parameter(params.shape)}, {"params/value": params})

    def loss(xp, networks, batch, coefficients):
        return xp.sum(function(xp, networks["params"](batch["nothing"]), batch)), {}

    steps = Steps(backend, loss, networks)
    steps.step(backend.put({"nothing": np.zeros((1, 1), np.float32), **columns}), {}, 0.0)
    return steps.gradients()["params/value"]


@every_backend
def test_gradient_of_a_categorical_log_prob_is_one_hot_minus_the_probabilities(place):
    logits = np.random.default_rng(0).standard_normal((9, 3), np.float32)
    actions = np.arange(9, dtype=np.int32) % 3

    gradient = gradient_of(
        place, lambda xp, params, batch: Categorical(3).log_prob(xp, params, batch["actions"]), logits, actions=actions
    )

    np.testing.assert_allclose(gradient, numpy_xp.one_hot(actions, 3) - numpy_xp.softmax(logits), atol=1e-6)


@every_backend
def test_a_forbidden_value_gets_no_gradient(place):
    def surprise(xp, logits, batch):
        params = Categorical(3).mask(xp, logits, batch["mask"])
        return Categorical(3).entropy(xp, params) + Categorical(3).log_prob(xp, params, batch["actions"])

    gradient = gradient_of(
        place, surprise, np.float32([[1, 2, 3]]), mask=np.array([[True, False, True]]), actions=np.int32([2])
    )

    assert 0.0 == gradient[0, 1]
    assert (gradient[0, [0, 2]] != 0.0).all()


@every_backend
def test_gradient_of_the_gaussian_log_prob_is_that_of_williams(place):
    """Williams 1992, doi:10.1007/BF00992696, section 6: (a - μ) / σ² for μ, ((a - μ)² - σ²) / σ³ for σ."""
    draw = np.random.default_rng(0)
    params, actions = draw.standard_normal((9, 6), np.float32), draw.standard_normal((9, 3), np.float32)

    gradient = gradient_of(
        place, lambda xp, p, batch: DiagonalGaussian(3).log_prob(xp, p, batch["actions"]), params, actions=actions
    )

    std, off = np.exp(params[:, 3:]), actions - params[:, :3]
    np.testing.assert_allclose(gradient[:, :3], off / std**2, rtol=1e-5, atol=1e-5)
    # dσ / d log σ = σ
    np.testing.assert_allclose(gradient[:, 3:], off**2 / std**2 - 1, rtol=1e-5, atol=1e-5)


@every_backend
def test_gradient_of_a_squashed_sample_is_the_slope_of_tanh_and_stays_finite_at_the_bounds(place):
    params = np.float32([[0.5, 0.0], [30.0, 0.0]])

    gradient = gradient_of(
        place,
        lambda xp, p, batch: SquashedGaussian(1).sample(xp, p, batch["noise"]),
        params,
        noise=np.zeros((2, 1), np.float32),
    )

    np.testing.assert_allclose(gradient[:, 0], [1 - np.tanh(0.5) ** 2, 0.0], rtol=1e-6)
