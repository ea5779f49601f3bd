"""Recurrences over `xp` itself, so that every framework shares the text: linear ones by doubling, others by a loop."""

from __future__ import annotations

from rheos.arrays.namespace import Array, ArrayNamespace, Arrays, Step
from rheos.arrays.shapes import check_same_shape

__all__ = ["doubling", "looping"]


def doubling(xp: ArrayNamespace, a: Array, b: Array, *, reverse: bool, axis: int) -> Array:
    """Solve yₜ = aₜ yₜ₋₁ + bₜ (`reverse`: aₜ yₜ₊₁ + bₜ) in log₂(T) steps instead of T.

    After the step of width k, (aₜ, bₜ) composes the 2k maps y -> aᵢ y + bᵢ that end at t, or all of
    them from the start where there are fewer; applied to y₋₁ = 0, all of them together give bₜ.

    Raises:
        ShapeError: if `a` and `b` differ in shape.

    Source:
        Hillis & Steele 1986, doi:10.1145/7902.7903; as a scan of linear maps, Blelloch 1990, CMU-CS-90-190.
    """
    check_same_shape("linear_recurrence takes factors and terms of one shape", b=b, a=a)
    length, width = b.shape[axis], 1
    while width < length:
        first, others = _along(axis, b.ndim, None, width), _along(axis, b.ndim, width, None)
        earlier = _along(axis, b.ndim, None, length - width)
        if reverse:
            first, others = _along(axis, b.ndim, length - width, None), _along(axis, b.ndim, None, length - width)
            earlier = _along(axis, b.ndim, width, None)
        next_a = (a[first], a[others] * a[earlier])
        next_b = (b[first], b[others] + a[others] * b[earlier])
        a = xp.concat(next_a[::-1] if reverse else next_a, axis=axis)
        b = xp.concat(next_b[::-1] if reverse else next_b, axis=axis)
        width *= 2
    return b


def looping(xp: ArrayNamespace, step: Step, state: Arrays, inputs: Arrays) -> tuple[Arrays, Array]:
    """Scan by a loop of Python, where arrays can be iterated over; see `ArrayNamespace.scan`."""
    outputs = []
    for inputs_t in zip(*inputs, strict=True):
        state, y_t = step(state, inputs_t)
        outputs.append(y_t)
    return state, xp.stack(outputs)


def _along(axis: int, ndim: int, start: int | None, stop: int | None) -> tuple[slice, ...]:
    return (slice(None),) * (axis % ndim) + (slice(start, stop),)
