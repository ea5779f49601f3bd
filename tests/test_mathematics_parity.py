"""The mathematics of rheos_ops on torch: values as on NumPy, gradients as finite differences and as the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rheos.arrays.numpy_namespace import numpy_xp
from rheos_ops.advantages import generalized_advantages, standardize
from rheos_ops.distributions import Categorical, DiagonalGaussian, GaussianParams
from rheos_torch.namespace import torch_xp

_generator = np.random.default_rng(0)
_normal = _generator.normal(size=(6, 33, 3)).astype(np.float32)
LOGITS, OTHERS, MEAN, ACTIONS, NOISE = _normal[:5]
LOG_STD = _normal[5, 0] / 2
VALUES = _generator.integers(0, 3, 33).astype(np.int32)
TERMINATED, TRUNCATED = _generator.random((2, 33, 3)) < 0.2

CATEGORICAL, GAUSSIAN = Categorical(3), DiagonalGaussian(3)

Call = Callable[..., Any]


def gaussian(method: Callable[..., Any]) -> Call:
    return lambda xp, mean, log_std, *rest: method(xp, GaussianParams(mean, log_std), *rest)


def advantages(xp: Any, rewards: Any, values: Any, next_values: Any, terminated: Any, truncated: Any) -> Any:
    return generalized_advantages(xp, rewards, values, next_values, terminated, truncated, discount=0.99, lambda_=0.95)


SMOOTH = {
    "Categorical.log_prob": (lambda xp, p, a: CATEGORICAL.log_prob(xp, p, a), (LOGITS, VALUES)),
    "Categorical.entropy": (lambda xp, p: CATEGORICAL.entropy(xp, p), (LOGITS,)),
    "Categorical.kl": (lambda xp, p, q: CATEGORICAL.kl(xp, p, q), (LOGITS, OTHERS)),
    "DiagonalGaussian.sample": (gaussian(GAUSSIAN.sample), (MEAN, LOG_STD, NOISE)),
    "DiagonalGaussian.mode": (gaussian(GAUSSIAN.mode), (MEAN, LOG_STD)),
    "DiagonalGaussian.log_prob": (gaussian(GAUSSIAN.log_prob), (MEAN, LOG_STD, ACTIONS)),
    "DiagonalGaussian.entropy": (gaussian(GAUSSIAN.entropy), (MEAN, LOG_STD)),
    "DiagonalGaussian.kl": (
        lambda xp, m, s, n, u: GAUSSIAN.kl(xp, GaussianParams(m, s), GaussianParams(n, u)),
        (MEAN, LOG_STD, ACTIONS, -LOG_STD),
    ),
    "generalized_advantages": (advantages, (LOGITS, MEAN, ACTIONS, TERMINATED, TRUNCATED)),
    "standardize": (standardize, (LOGITS,)),
}
CONSTANT = {
    "Categorical.sample": (lambda xp, p, noise: CATEGORICAL.sample(xp, p, noise), (LOGITS, NOISE)),
    "Categorical.mode": (lambda xp, p: CATEGORICAL.mode(xp, p), (LOGITS,)),
}
_DRAWN_BY_NUMPY = {"draw_noise", "num_params"}


def test_every_function_of_the_distributions_has_a_parity_case():
    offered = {
        f"{kind.__name__}.{name}"
        for kind in (Categorical, DiagonalGaussian)
        for name in vars(kind)
        if callable(getattr(kind, name)) and not name.startswith("_") and name not in _DRAWN_BY_NUMPY
    }

    assert set() == offered - set(SMOOTH) - set(CONSTANT)


@pytest.mark.parametrize("name", [*SMOOTH, *CONSTANT])
def test_values_equal_those_of_numpy(name):
    call, arrays = {**SMOOTH, **CONSTANT}[name]
    expected = call(numpy_xp, *arrays)

    result = call(torch_xp, *map(torch.tensor, arrays)).numpy()

    assert expected.dtype == result.dtype
    # exp, log and sums of up to 100 terms, rounded at 6e-8 a few times; squares of (a - μ) / σ reach 100.
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_equal_finite_differences_in_float64(name):
    call, arrays = SMOOTH[name]
    few = [array[:7] if array.ndim == 2 or array is VALUES else array for array in arrays]
    inputs = [
        torch.tensor(array, dtype=torch.float64, requires_grad=True)
        if array.dtype == np.float32
        else torch.tensor(array)
        for array in few
    ]

    assert torch.autograd.gradcheck(lambda *arrays: call(torch_xp, *arrays), inputs)


def test_gradient_of_the_log_prob_is_one_hot_minus_the_probabilities():
    logits = torch.tensor(LOGITS, requires_grad=True)

    CATEGORICAL.log_prob(torch_xp, logits, torch.tensor(VALUES)).sum().backward()

    expected = numpy_xp.one_hot(VALUES, 3) - numpy_xp.softmax(LOGITS)
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad.numpy(), expected, atol=1e-6)


def test_gradient_of_the_gaussian_log_prob_is_that_of_williams():
    """Williams 1992, doi:10.1007/BF00992696, section 6: (a - μ) / σ² for μ, ((a - μ)² - σ²) / σ³ for σ."""
    mean = torch.tensor(MEAN, requires_grad=True)
    log_std = torch.tensor(LOG_STD, requires_grad=True)

    GAUSSIAN.log_prob(torch_xp, GaussianParams(mean, log_std), torch.tensor(ACTIONS)).sum().backward()

    std, off = np.exp(LOG_STD), ACTIONS - MEAN
    assert mean.grad is not None
    assert log_std.grad is not None
    np.testing.assert_allclose(mean.grad.numpy(), off / std**2, rtol=1e-5, atol=1e-5)
    # dσ / d log σ = σ; sums of 33 terms of up to 100.
    np.testing.assert_allclose(log_std.grad.numpy(), (off**2 / std**2 - 1).sum(0), rtol=1e-4, atol=1e-4)
