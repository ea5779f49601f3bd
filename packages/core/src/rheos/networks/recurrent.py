"""LSTM and GRU over `xp`, with resets inside a fragment: one text for NumPy and every framework."""

from __future__ import annotations

from collections.abc import Mapping

from rheos.arrays.namespace import Array, ArrayNamespace, Arrays
from rheos.errors import ShapeError

__all__ = ["gru", "lstm"]


def lstm(
    xp: ArrayNamespace, weights: Mapping[str, Array], x: Array, state: Array, is_first: Array
) -> tuple[Array, Array]:
    """Run an LSTM over a fragment; where an episode begins, from a state of zeros.

    With (iₜ, fₜ, gₜ, oₜ) = xₜ W + hₜ₋₁ U + b, σ the sigmoid:

        cₜ = σ(fₜ) cₜ₋₁ + σ(iₜ) tanh(gₜ)
        hₜ = σ(oₜ) tanh(cₜ)

    xₜ W + b is one product for all steps; only hₜ₋₁ U waits for the step before.

    Args:
        xp: the namespace of all arrays.
        weights: `kernel` W `[inputs, 4 units]`, `recurrent_kernel` U `[units, 4 units]`, `bias` b `[4 units]`.
        x: `[T, B, inputs]`.
        state: h and c as the step before the first one left them, side by side, `[B, 2 units]`.
        is_first: `[T, B]`, bool: whether a step is the first one of its episode, before which h and c are 0.

    Returns:
        hₜ `[T, B, units]`, and the state after the last step `[B, 2 units]`.

    Raises:
        ShapeError: if `x`, `state` or `is_first` has another shape.

    Example:
        >>> import numpy as np
        >>> from rheos.arrays.numpy_namespace import numpy_xp
        >>> weights = {"kernel": np.ones((1, 4)), "recurrent_kernel": np.ones((1, 4)), "bias": np.zeros(4)}
        >>> x, state, is_first = np.ones((2, 1, 1)), np.full((1, 2), 9.0), np.array([[True], [True]])
        >>> outputs, _ = lstm(numpy_xp, weights, x, state, is_first)
        >>> outputs.ravel().round(3)  # each step starts anew
        array([0.37, 0.37])
    """
    _check(weights, x, state, is_first, states=2)
    recurrent_kernel = weights["recurrent_kernel"]
    units = recurrent_kernel.shape[0]

    def step(state: Arrays, inputs: Arrays) -> tuple[Arrays, Array]:
        projected_t, is_first_t = inputs
        h, c = (xp.where(is_first_t, 0.0, part) for part in state)
        gates = projected_t + xp.matmul(h, recurrent_kernel)
        enter_and_keep = xp.sigmoid(gates[:, : 2 * units])
        new = xp.tanh(gates[:, 2 * units : 3 * units])
        c = enter_and_keep[:, units:] * c + enter_and_keep[:, :units] * new
        h = xp.sigmoid(gates[:, 3 * units :]) * xp.tanh(c)
        return (h, c), h

    projected = xp.matmul(x, weights["kernel"]) + weights["bias"]
    parts = (state[:, :units], state[:, units:])
    parts, outputs = xp.scan(step, parts, (projected, xp.expand_dims(is_first, axis=-1)))
    return outputs, xp.concat(parts, axis=-1)


def gru(
    xp: ArrayNamespace, weights: Mapping[str, Array], x: Array, state: Array, is_first: Array
) -> tuple[Array, Array]:
    """Run a GRU over a fragment; where an episode begins, from a state of zeros.

    With (r, z, n) the columns of W, U and b for the gates reset, update and new, σ the sigmoid:

        rₜ, zₜ = σ(xₜ W + hₜ₋₁ U + b)
        nₜ = tanh(xₜ Wₙ + bₙ + rₜ (hₜ₋₁ Uₙ + d))
        hₜ = (1 - zₜ) nₜ + zₜ hₜ₋₁

    Args:
        xp: the namespace of all arrays.
        weights: `kernel` W `[inputs, 3 units]`, `recurrent_kernel` U `[units, 3 units]`, `bias` b `[3 units]`,
            `recurrent_bias` d `[units]`.
        x: `[T, B, inputs]`.
        state: h as the step before the first one left it, `[B, units]`.
        is_first: `[T, B]`, bool: whether a step is the first one of its episode, before which h is 0.

    Returns:
        hₜ `[T, B, units]`, and the last of them `[B, units]`.

    Raises:
        ShapeError: if `x`, `state` or `is_first` has another shape.
    """
    _check(weights, x, state, is_first, states=1)
    recurrent_kernel, recurrent_bias = weights["recurrent_kernel"], weights["recurrent_bias"]
    units = recurrent_kernel.shape[0]

    def step(state: Arrays, inputs: Arrays) -> tuple[Arrays, Array]:
        projected_t, is_first_t = inputs
        h = xp.where(is_first_t, 0.0, state[0])
        recurrent_t = xp.matmul(h, recurrent_kernel)
        gates = xp.sigmoid(projected_t[:, : 2 * units] + recurrent_t[:, : 2 * units])
        reset, keep = gates[:, :units], gates[:, units:]
        new = xp.tanh(projected_t[:, 2 * units :] + reset * (recurrent_t[:, 2 * units :] + recurrent_bias))
        h = new + keep * (h - new)
        return (h,), h

    projected = xp.matmul(x, weights["kernel"]) + weights["bias"]
    (last,), outputs = xp.scan(step, (state,), (projected, xp.expand_dims(is_first, axis=-1)))
    return outputs, last


def _check(weights: Mapping[str, Array], x: Array, state: Array, is_first: Array, *, states: int) -> None:
    inputs, units = weights["kernel"].shape[0], weights["recurrent_kernel"].shape[0]
    is_rank_right = (len(x.shape), len(state.shape), len(is_first.shape)) == (3, 2, 2)
    if not is_rank_right or any(
        found is not None and expected is not None and found != expected  # None: a size that a graph leaves open
        for found, expected in zip(
            (*x.shape, *state.shape), (*is_first.shape, inputs, is_first.shape[1], states * units), strict=True
        )
    ):
        raise ShapeError(
            f"`x` has shape {tuple(x.shape)}, `state` {tuple(state.shape)}, `is_first` {tuple(is_first.shape)}: a"
            f" recurrent network takes time-major arrays [T, B, {inputs}], [B, {states * units}] and [T, B]."
        )
