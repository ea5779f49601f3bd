"""Advantages: how much better an action was than the policy's average, estimated from a fragment."""

from __future__ import annotations

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.arrays.shapes import check_same_shape

__all__ = ["explained_variance", "generalized_advantages", "standardize"]


def generalized_advantages(
    xp: ArrayNamespace,
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    *,
    discount: float,
    lambda_: float,
) -> Array:
    """Estimate advantages as an exponentially weighted sum of TD errors.

    With the TD error of step t, δₜ = rₜ + γ (1 - dₜ) V(sₜ₊₁) - V(sₜ), the estimate is
    computed backwards from A_T = 0:

        Aₜ = δₜ + γ λ (1 - eₜ) Aₜ₊₁

    dₜ is 1 where an episode terminated, eₜ where it ended for either reason. So a
    truncated episode still bootstraps from V(sₜ₊₁); a terminated one does not.

    Args:
        xp: the namespace of the arrays.
        rewards: rₜ, `[T, B]`, in the environment's own unit, not clipped.
        values: V(sₜ), `[T, B]`, in the unit of `rewards`.
        next_values: V(sₜ₊₁), `[T, B]`. At the end of an episode: the value of its final
            observation, not of the first observation after the reset. Not read where `terminated`.
        terminated: dₜ, `[T, B]`, bool.
        truncated: `[T, B]`, bool.
        discount: γ per environment step, in [0, 1].
        lambda_: λ, in [0, 1]. 0 gives the TD errors, 1 the return minus the baseline.

    Returns:
        Aₜ, `[T, B]`, in the unit of `rewards`.

    Raises:
        ShapeError: if an array does not have the shape of `rewards`.
        ValueError: if `discount` or `lambda_` lies outside [0, 1].

    Example:
        Two steps in one environment, the second one terminal:

        >>> import numpy as np
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> column = lambda *x: xp.asarray(x)[:, None]
        >>> generalized_advantages(
        ...     xp, column(1.0, 1.0), column(0.5, 0.5), column(0.5, 9.9),
        ...     column(False, True), column(False, False), discount=1.0, lambda_=1.0,
        ... ).ravel()
        array([1.5, 0.5], dtype=float32)

    Source:
        Schulman et al. 2016, arXiv:1506.02438; for truncation, Pardo et al. 2018, arXiv:1712.00378.
    """
    _check_fraction("discount", discount)
    _check_fraction("lambda_", lambda_)
    check_same_shape(
        "generalized_advantages takes time-major arrays [T, B] of one shape",
        rewards=rewards,
        values=values,
        next_values=next_values,
        terminated=terminated,
        truncated=truncated,
    )
    errors = rewards + discount * xp.where(terminated, 0.0, next_values) - values
    carried = discount * lambda_ * (1.0 - xp.astype(terminated | truncated, xp.float32))
    return xp.linear_recurrence(carried, errors, reverse=True)


def standardize(xp: ArrayNamespace, x: Array, *, epsilon: float = 1e-8) -> Array:
    """Shift and scale all of `x` to mean 0 and standard deviation 1; one element, or equal ones, give 0.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> standardize(xp, xp.asarray([1.0, 3.0]))
        array([-1.,  1.], dtype=float32)
        >>> standardize(xp, xp.asarray([7.0]))
        array([0.], dtype=float32)
    """
    return (x - xp.mean(x)) / (xp.std(x) + epsilon)


def explained_variance(xp: ArrayNamespace, predictions: Array, targets: Array) -> Array:
    """Return how much of the variance of the targets the predictions explain, 1 - Var(y - p) / Var(y), a scalar.

    1 is perfect, 0 as good as their mean, below 0 worse than it. Targets that are all equal give 0.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> targets = xp.asarray([0.0, 2.0])
        >>> [float(explained_variance(xp, p, targets)) for p in (targets, xp.zeros((2,)), -targets)]
        [1.0, 0.0, -3.0]
    """
    spread = xp.square(xp.std(targets))
    unexplained = xp.square(xp.std(targets - predictions))
    has_spread = spread > 0.0
    return xp.where(has_spread, 1.0 - unexplained / xp.where(has_spread, spread, 1.0), 0.0)


def _check_fraction(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name}: got {value}, expected a number in [0, 1].")
