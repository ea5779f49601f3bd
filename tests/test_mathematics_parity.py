"""The mathematics of rheos_ops on torch: values as on NumPy, gradients as finite differences and as the formula."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import rheos_ops.distributions
from rheos.arrays.numpy_namespace import numpy_xp
from rheos_ops.advantages import explained_variance, generalized_advantages, standardize
from rheos_ops.distributions import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
    Product,
    SquashedGaussian,
)
from rheos_torch.namespace import torch_xp

ROWS = 33
_generator = np.random.default_rng(0)
REWARDS, VALUES, NEXT_VALUES = _generator.normal(size=(3, ROWS, 3)).astype(np.float32)
TERMINATED, TRUNCATED = _generator.random((2, ROWS, 3)) < 0.2

FAMILIES = {
    "Categorical": Categorical(3),
    "MultiCategorical": MultiCategorical((2, 2)),
    "MultiCategorical of several sizes": MultiCategorical((2, 4, 1)),
    "Bernoulli": Bernoulli(2),
    "DiagonalGaussian": DiagonalGaussian(3),
    "SquashedGaussian": SquashedGaussian(2),
    "Product": Product((Categorical(3), SquashedGaussian(1), Bernoulli(2), DiagonalGaussian(1))),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A function of arrays `[T, ...]`: gradients flow to the smooth ones, the others are held."""

    call: Callable[..., Any]
    smooth: tuple[Any, ...]
    held: tuple[Any, ...] = ()


def advantages(xp: Any, rewards: Any, values: Any, next_values: Any, terminated: Any, truncated: Any) -> Any:
    return generalized_advantages(xp, rewards, values, next_values, terminated, truncated, discount=0.99, lambda_=0.95)


def cases_of(family: Any) -> dict[str, Case]:
    """Return a case for every function of a distribution, and of those of masked logits."""
    generator = np.random.default_rng(1)
    outputs = generator.standard_normal((2, ROWS, family.num_outputs))
    log_stds = generator.uniform(-0.5, 0.5, (2, ROWS, family.num_log_stds))
    p, q = np.concatenate([outputs, log_stds], axis=-1).astype(np.float32)
    noise = family.draw_noise(generator, ROWS)
    actions = family.sample(numpy_xp, p, noise)
    is_continuous = isinstance(family, DiagonalGaussian | SquashedGaussian)
    cases = {
        "sample": Case(family.sample, (p, noise)),
        "mode": Case(family.mode, (p,)),
        "log_prob": Case(family.log_prob, (p, actions)) if is_continuous else Case(family.log_prob, (p,), (actions,)),
        "entropy": Case(family.entropy, (p,)),
        "kl": Case(family.kl, (p, q)),
    }
    if isinstance(family, Categorical | MultiCategorical):
        cases |= masked_cases_of(family, p, q)
    return cases


def masked_cases_of(family: Categorical | MultiCategorical, p: Any, q: Any) -> dict[str, Case]:
    """Masks leave several values, one or none; actions are among what they allow."""
    likes = np.random.default_rng(2).random(p.shape) < 0.5
    actions = family.mode(numpy_xp, family.mask(numpy_xp, p, likes))
    return {
        "mask": Case(family.mask, (p,), (likes,)),
        "log_prob, masked": Case(
            lambda xp, p, mask, actions: family.log_prob(xp, family.mask(xp, p, mask), actions),
            (p,),
            (likes, actions),
        ),
        "entropy, masked": Case(lambda xp, p, mask: family.entropy(xp, family.mask(xp, p, mask)), (p,), (likes,)),
        "kl, masked": Case(
            lambda xp, p, q, mask: family.kl(xp, family.mask(xp, p, mask), family.mask(xp, q, mask)), (p, q), (likes,)
        ),
    }


CASES = {
    f"{name}.{function}": case for name, family in FAMILIES.items() for function, case in cases_of(family).items()
} | {
    "generalized_advantages": Case(advantages, (REWARDS, VALUES, NEXT_VALUES), (TERMINATED, TRUNCATED)),
    "standardize": Case(standardize, (REWARDS,)),
    "explained_variance": Case(explained_variance, (VALUES, REWARDS)),
}
WITH_GRADIENTS = [
    name for name, case in CASES.items() if case.call(numpy_xp, *case.smooth, *case.held).dtype == np.float32
]
"""All but those that give integers."""


def test_every_function_of_the_distributions_has_a_parity_case():
    drawn_by_numpy = {"draw_noise"}
    kinds = [getattr(rheos_ops.distributions, name) for name in rheos_ops.distributions.__all__]
    offered = {
        f"{kind.__name__}.{name}"
        for kind in kinds
        if dataclasses.is_dataclass(kind)
        for name in vars(kind)
        if callable(getattr(kind, name)) and not name.startswith("_") and name not in drawn_by_numpy
    }

    assert len(offered) > 30
    assert set() == offered - set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_values_equal_those_of_numpy(name):
    case = CASES[name]
    arrays = (*case.smooth, *case.held)
    expected = case.call(numpy_xp, *arrays)

    result = case.call(torch_xp, *map(torch.tensor, arrays)).numpy()

    assert expected.dtype == result.dtype
    # exp, log and sums of up to 100 terms, rounded at 6e-8 a few times; squares of (a - μ) / σ reach 100.
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients_equal_finite_differences_in_float64(name):
    case = CASES[name]
    smooth = [torch.tensor(array[:7], dtype=torch.float64, requires_grad=True) for array in case.smooth]
    held = [torch.tensor(array[:7]) for array in case.held]

    assert torch.autograd.gradcheck(lambda *arrays: case.call(torch_xp, *arrays, *held), smooth)


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients_are_finite_in_float32(name):
    case = CASES[name]
    smooth = [torch.tensor(array, requires_grad=True) for array in case.smooth]

    result = case.call(torch_xp, *smooth, *map(torch.tensor, case.held))

    for gradient in torch.autograd.grad(result.sum(), smooth):
        assert torch.isfinite(gradient).all()


def test_gradient_of_the_log_prob_is_one_hot_minus_the_probabilities():
    case = CASES["Categorical.log_prob"]
    (logits,), (actions,) = case.smooth, case.held
    native = torch.tensor(logits, requires_grad=True)

    Categorical(3).log_prob(torch_xp, native, torch.tensor(actions)).sum().backward()

    expected = numpy_xp.one_hot(actions, 3) - numpy_xp.softmax(logits)
    assert native.grad is not None
    np.testing.assert_allclose(native.grad.numpy(), expected, atol=1e-6)


def test_a_forbidden_value_gets_no_gradient():
    logits = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    mask = torch.tensor([[True, False, True]])

    params = Categorical(3).mask(torch_xp, logits, mask)
    (Categorical(3).entropy(torch_xp, params) + Categorical(3).log_prob(torch_xp, params, torch.tensor([2]))).backward()

    assert logits.grad is not None
    assert 0.0 == logits.grad[0, 1]
    assert (logits.grad[0, [0, 2]] != 0.0).all()


def test_gradient_of_the_gaussian_log_prob_is_that_of_williams():
    """Williams 1992, doi:10.1007/BF00992696, section 6: (a - μ) / σ² for μ, ((a - μ)² - σ²) / σ³ for σ."""
    params, actions = CASES["DiagonalGaussian.log_prob"].smooth
    native = torch.tensor(params, requires_grad=True)

    DiagonalGaussian(3).log_prob(torch_xp, native, torch.tensor(actions)).sum().backward()

    std, off = np.exp(params[:, 3:]), actions - params[:, :3]
    assert native.grad is not None
    np.testing.assert_allclose(native.grad[:, :3].numpy(), off / std**2, rtol=1e-5, atol=1e-5)
    # dσ / d log σ = σ
    np.testing.assert_allclose(native.grad[:, 3:].numpy(), off**2 / std**2 - 1, rtol=1e-5, atol=1e-5)


def test_gradient_of_a_squashed_sample_is_the_slope_of_tanh_and_stays_finite_at_the_bounds():
    mean = torch.tensor([[0.5], [30.0]], requires_grad=True)
    params = torch.cat([mean, torch.zeros(2, 1)], dim=1)

    SquashedGaussian(1).sample(torch_xp, params, torch.zeros(2, 1)).sum().backward()

    assert mean.grad is not None
    np.testing.assert_allclose(mean.grad.numpy(), [[1 - np.tanh(0.5) ** 2], [0.0]], rtol=1e-6)
