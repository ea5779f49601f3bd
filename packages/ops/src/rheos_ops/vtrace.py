"""V-trace: values and advantages of a policy from what another one did."""

from __future__ import annotations

import math
from typing import NamedTuple

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.arrays.shapes import check_same_shape

__all__ = ["VTrace", "vtrace"]


class VTrace(NamedTuple):
    """What `vtrace` gives, `[T, B]` each; both are constant to the gradient."""

    targets: Array
    """vₛ, what V(xₛ) is moved towards."""
    advantages: Array
    """What the log-probability of the action of step s is weighted by, ρₛ included."""


def vtrace(
    xp: ArrayNamespace,
    log_ratios: Array,
    rewards: Array,
    values: Array,
    bootstrap_value: Array,
    discounts: Array,
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    lambda_: float = 1.0,
) -> VTrace:
    """Estimate the values of a policy π, and the advantages of actions that another one, μ, took.

    With ρₜ = min(ρ̄, π(aₜ|xₜ) / μ(aₜ|xₜ)), cₜ = λ min(c̄, π(aₜ|xₜ) / μ(aₜ|xₜ)) and
    δₜ = ρₜ (rₜ + γₜ V(xₜ₊₁) - V(xₜ)), computed backwards from v_T = V(x_T):

        vₜ = V(xₜ) + δₜ + γₜ cₜ (vₜ₊₁ - V(xₜ₊₁))

    The advantage of step t is ρₜ (rₜ + γₜ qₜ₊₁ - V(xₜ)) with qₜ₊₁ = λ vₜ₊₁ + (1 - λ) V(xₜ₊₁), which for λ = 1 is the
    vₜ₊₁ of the paper. Where π and μ are one and the same, and neither ρ̄ nor c̄ is below 1, the advantages are those of
    `generalized_advantages`, and the targets are V(xₜ) plus them: for λ = 1 the n-step returns.

    γₜ is 0 where an episode terminated. Where one was truncated, its value goes on: give the reward
    rₜ + γ V(final observation) there, and γₜ = 0, for xₜ₊₁ is the first observation of another episode.

    Args:
        xp: the namespace of the arrays.
        log_ratios: log π(aₜ|xₜ) - log μ(aₜ|xₜ), `[T, B]`.
        rewards: rₜ, `[T, B]`.
        values: V(xₜ), `[T, B]`, in the unit of `rewards`.
        bootstrap_value: V(x_T), `[B]`: of what the last step led to.
        discounts: γₜ, `[T, B]`, in [0, 1]: the weight of what follows on step t.
        rho_bar: ρ̄, above 0. The lower, the more is what is estimated the value of a policy between μ and π;
            `math.inf` estimates that of π itself.
        c_bar: c̄, above 0 and at most `rho_bar`. The lower, the less the estimate varies, and the slower it learns.
        lambda_: λ, in [0, 1]. 0 looks one step ahead.

    Raises:
        ShapeError: if an array does not have the shape that is said here.
        ValueError: if `rho_bar`, `c_bar` or `lambda_` lies outside of its range.

    Example:
        Two steps in one environment, the second one terminal; π takes the first action half as often as μ did:

        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> column = lambda *x: xp.asarray(x)[:, None]
        >>> log_ratios = column(math.log(0.5), 0.0)
        >>> targets, advantages = vtrace(
        ...     xp, log_ratios, column(1.0, 1.0), column(0.0, 0.0), xp.asarray([9.9]), column(1.0, 0.0)
        ... )
        >>> targets.ravel(), advantages.ravel()
        (array([1., 1.], dtype=float32), array([1., 1.], dtype=float32))

    Source:
        Espeholt et al. 2018, arXiv:1802.01561, equation 1 and section 4.2, λ as in its remark 2; qₜ₊₁ is that of rlax.
    """
    _check_ranges(rho_bar, c_bar, lambda_)
    check_same_shape(
        "vtrace takes time-major arrays [T, B] of one shape",
        rewards=rewards,
        log_ratios=log_ratios,
        values=values,
        discounts=discounts,
    )
    check_same_shape(
        "vtrace takes one bootstrap value for each environment",
        values_of_a_step=values[0],
        bootstrap_value=bootstrap_value,
    )
    values, bootstrap_value = xp.stop_gradient(values), xp.stop_gradient(bootstrap_value)
    log_ratios, rewards = xp.stop_gradient(log_ratios), xp.stop_gradient(rewards)
    # Logarithms are clipped, not ratios, so that no ratio overflows.
    rho = xp.exp(xp.clip(log_ratios, None, math.log(rho_bar)))
    c = xp.exp(xp.clip(log_ratios, None, math.log(c_bar)))
    next_values = xp.concat([values[1:], xp.expand_dims(bootstrap_value)])
    errors = rho * (rewards + discounts * next_values - values)
    corrections = xp.linear_recurrence(lambda_ * discounts * c, errors, reverse=True)
    next_corrections = xp.concat([corrections[1:], xp.zeros_like(corrections[:1])])
    advantages = rho * (rewards + discounts * (next_values + lambda_ * next_corrections) - values)
    return VTrace(values + corrections, advantages)


def _check_ranges(rho_bar: float, c_bar: float, lambda_: float) -> None:
    if not rho_bar > 0.0:
        raise ValueError(f"rho_bar: got {rho_bar}, expected a number above 0.")
    if not 0.0 < c_bar <= rho_bar:
        raise ValueError(f"c_bar: got {c_bar}, expected a number above 0 and at most rho_bar, which is {rho_bar}.")
    if not 0.0 <= lambda_ <= 1.0:
        raise ValueError(f"lambda_: got {lambda_}, expected a number in [0, 1].")
