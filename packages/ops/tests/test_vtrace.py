"""V-trace: its definition, what it is on-policy, its fixed point, and what must not leak between episodes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import ShapeError
from rheos_ops.advantages import generalized_advantages
from rheos_ops.vtrace import vtrace

# Up to 20 terms of size 3, each rounded at 6e-8 a few times.
ROUNDING = {"rtol": 1e-4, "atol": 1e-4}
shapes_and_seeds = st.tuples(st.integers(1, 20), st.integers(1, 3), st.integers(0, 2**32 - 1))
fractions = st.floats(0.0, 1.0, width=32)


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def fragment(steps: int, envs: int, seed: int) -> list[np.ndarray]:
    """Random log-ratios, rewards, values, bootstrap values and discounts; episodes terminate now and then."""
    generator = np.random.default_rng(seed)
    log_ratios, rewards, values = generator.normal(size=(3, steps, envs)).astype(np.float32)
    discounts = np.where(generator.random((steps, envs)) < 0.2, 0.0, 0.9).astype(np.float32)
    return [log_ratios, rewards, values, generator.normal(size=envs).astype(np.float32), discounts]


def by_definition(log_ratios, rewards, values, bootstrap_value, discounts, *, rho_bar, c_bar, lambda_):
    """Espeholt et al. 2018, equation 1, as a sum over the rest of the trace, in float64."""
    log_ratios, rewards, values, discounts = (x.astype(np.float64) for x in (log_ratios, rewards, values, discounts))
    rho, c = (np.minimum(bar, np.exp(log_ratios)) for bar in (rho_bar, c_bar))
    next_values = np.concatenate([values[1:], bootstrap_value[None].astype(np.float64)])
    errors = rho * (rewards + discounts * next_values - values)
    targets = values.copy()
    for s, b in np.ndindex(values.shape):
        weight = 1.0
        for t in range(s, len(values)):
            targets[s, b] += weight * errors[t, b]
            weight *= discounts[t, b] * lambda_ * c[t, b]
    next_targets = lambda_ * np.concatenate([targets[1:], next_values[-1:]]) + (1.0 - lambda_) * next_values
    return targets, rho * (rewards + discounts * next_targets - values)


@given(shapes_and_seeds, st.floats(0.125, 8.0, width=32), st.floats(0.125, 1.0, width=32), fractions)
def test_targets_and_advantages_are_the_sums_of_the_definition(shape, rho_bar, share, lambda_):
    columns, settings = fragment(*shape), {"rho_bar": rho_bar, "c_bar": share * rho_bar, "lambda_": lambda_}

    result = vtrace(xp, *columns, **settings)

    # ratios up to 8, so up to 8 times as large as what ROUNDING is for, at each of the steps that are summed
    scale = max(1.0, *(np.abs(x).max() for x in by_definition(*columns, **settings)))
    for expected, found in zip(by_definition(*columns, **settings), result, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5 * scale)
        assert found.dtype == np.float32


def test_two_steps_by_hand():
    # π / μ = 4 and 0.5, ρ̄ = 2, c̄ = 1: δ = 2 (1 + 0.5·3 - 2) = 1;  0.5 (2 + 0.5·4 - 3) = 0.5
    columns = (column(math.log(4.0), math.log(0.5)), column(1.0, 2.0), column(2.0, 3.0), np.float32([4.0]))

    targets, advantages = vtrace(xp, *columns, column(0.5, 0.5), rho_bar=2.0, c_bar=1.0)

    np.testing.assert_allclose(targets, column(2.0 + 1.0 + 0.5 * 1.0 * 0.5, 3.0 + 0.5), rtol=1e-6)
    np.testing.assert_allclose(advantages, column(2.0 * (1.0 + 0.5 * 3.5 - 2.0), 0.5 * (2.0 + 0.5 * 4.0 - 3.0)))


@given(shapes_and_seeds)
def test_on_policy_the_targets_are_the_n_step_returns(shape):
    _, rewards, values, bootstrap_value, discounts = fragment(*shape)
    returns, following = np.zeros(values.shape), bootstrap_value.astype(np.float64)
    for t in reversed(range(len(values))):
        returns[t] = following = rewards[t] + discounts[t] * following

    targets, advantages = vtrace(xp, np.zeros_like(values), rewards, values, bootstrap_value, discounts)

    np.testing.assert_allclose(targets, returns, **ROUNDING)
    np.testing.assert_allclose(advantages, returns - values, **ROUNDING)


@given(shapes_and_seeds, fractions)
def test_on_policy_the_advantages_are_generalized_advantages(shape, lambda_):
    _, rewards, values, bootstrap_value, discounts = fragment(*shape)
    next_values = np.concatenate([values[1:], bootstrap_value[None]])
    ends = discounts == 0.0

    targets, found = vtrace(
        xp, np.zeros_like(values), rewards, values, bootstrap_value, discounts, lambda_=lambda_, rho_bar=2.0
    )

    expected = generalized_advantages(
        xp, rewards, values, next_values, ends, np.zeros_like(ends), discount=0.9, lambda_=lambda_
    )
    np.testing.assert_allclose(found, expected, **ROUNDING)
    np.testing.assert_allclose(targets, values + expected, **ROUNDING)


@pytest.mark.parametrize("rho_bar", [0.5, 1.0, 2.0, math.inf])
def test_its_fixed_point_is_the_value_of_the_policy_that_rho_bar_allows(rho_bar):
    """Espeholt et al. 2018, theorem 1 and equation 3: the value of π_ρ̄(a) ∝ min(ρ̄ μ(a), π(a)), here of a bandit."""
    mu, pi, rewards = np.array([0.8, 0.2]), np.array([0.3, 0.7]), np.array([1.0, 5.0])
    allowed = np.minimum(rho_bar * mu, pi)
    value = float((allowed * rewards).sum() / allowed.sum())
    one_step = (np.log(pi / mu)[None], rewards[None], np.full((1, 2), value), np.zeros(2), np.zeros((1, 2)))

    targets, _ = vtrace(xp, *map(xp.asarray, one_step), rho_bar=rho_bar, c_bar=min(1.0, rho_bar))

    assert (mu * targets[0]).sum() == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(("log_ratio", "ratio"), [(1e4, 1.0), (-1e4, 0.0)])
def test_ratios_of_very_different_policies_neither_overflow_nor_spoil_anything(log_ratio, ratio):
    columns = (column(log_ratio), column(3.0), column(1.0), np.float32([4.0]), column(0.5))

    targets, advantages = vtrace(xp, *columns)

    np.testing.assert_array_equal(column(1.0 + ratio * 4.0), targets)
    np.testing.assert_array_equal(column(ratio * 4.0), advantages)


@given(st.integers(1, 10), st.integers(1, 10), st.booleans(), st.integers(0, 2**32 - 1))
def test_two_episodes_in_one_trace_equal_the_two_apart(first, second, is_truncated, seed):
    log_ratios, rewards, values, bootstrap_value, discounts = fragment(first + second, 2, seed)
    final = np.float32([7.0, -7.0]) if is_truncated else np.zeros(2, np.float32)
    apart = [
        vtrace(xp, log_ratios[part], rewards[part], values[part], following, discounts[part])
        for part, following in ((slice(first), final), (slice(first, None), bootstrap_value))
    ]
    joined = rewards.copy(), discounts.copy()
    joined[0][first - 1] += discounts[first - 1] * final  # as the docstring says of a truncated episode
    joined[1][first - 1] = 0.0

    together = vtrace(xp, log_ratios, joined[0], values, bootstrap_value, joined[1])

    for name in ("targets", "advantages"):
        parts = [getattr(part, name) for part in apart]
        np.testing.assert_allclose(getattr(together, name), np.concatenate(parts), **ROUNDING)


@given(shapes_and_seeds)
def test_environments_side_by_side_do_not_see_each_other(shape):
    *columns, bootstrap_value, discounts = fragment(*shape)

    result = vtrace(xp, *columns, bootstrap_value, discounts)

    for b in range(shape[1]):
        own = slice(b, b + 1)
        alone = vtrace(xp, *(c[:, own] for c in columns), bootstrap_value[own], discounts[:, own])
        np.testing.assert_array_equal(result.targets[:, own], alone.targets)
        np.testing.assert_array_equal(result.advantages[:, own], alone.advantages)


def test_arrays_of_another_shape_are_refused_by_name():
    log_ratios, rewards, values, bootstrap_value, discounts = fragment(7, 3, 0)

    with pytest.raises(ShapeError, match=r"^`values` has shape \(3, 7\), `rewards` has \(7, 3\): vtrace takes time-m"):
        vtrace(xp, log_ratios, rewards, values.T, bootstrap_value, discounts)
    with pytest.raises(ShapeError, match=r"^`bootstrap_value` has shape \(1, 3\), .* has \(3,\): vtrace takes one"):
        vtrace(xp, log_ratios, rewards, values, bootstrap_value[None], discounts)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rho_bar": 0.0}, "rho_bar: got 0.0, expected a number above 0."),
        ({"rho_bar": math.nan}, "rho_bar: got nan, expected a number above 0."),
        ({"rho_bar": 0.5}, "c_bar: got 1.0, expected a number above 0 and at most rho_bar, which is 0.5."),
        ({"c_bar": 0.0}, "c_bar: got 0.0, expected a number above 0 and at most rho_bar, which is 1.0."),
        ({"lambda_": 1.5}, r"lambda_: got 1.5, expected a number in \[0, 1\]."),
    ],
)
def test_settings_outside_of_their_range_are_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        vtrace(xp, *fragment(2, 1, 0), **settings)
