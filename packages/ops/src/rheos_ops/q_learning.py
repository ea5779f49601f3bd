"""Q-learning: double-Q targets, TD errors, dueling networks, the Huber loss, rescaled values, and priorities."""

from __future__ import annotations

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.arrays.shapes import check_same_shape

__all__ = [
    "double_q_targets",
    "dueling_q_values",
    "huber",
    "rescaled_targets",
    "sequence_priorities",
    "signed_hyperbolic",
    "signed_parabolic",
    "td_errors",
]


def double_q_targets(
    xp: ArrayNamespace, rewards: Array, discounts: Array, next_q_values: Array, next_target_q_values: Array
) -> Array:
    """Return r + γ Q⁻(s', argmax_a Q(s', a)): one network chooses the next action, another one values it.

    For n steps, r is r₀ + γ r₁ + ... + γⁿ⁻¹ rₙ₋₁, s' is what the last of them led to, and the discount is γⁿ.

    Args:
        xp: the namespace of the arrays.
        rewards: r, `[...]`.
        discounts: γⁿ, `[...]`, in [0, 1]; 0 where the episode terminated within the n steps. Where it was truncated it
            is the power of γ that belongs to the steps until then, and s' the final observation.
        next_q_values: Q(s', a) of the network that is learned, `[..., A]`. Where several are largest, any of these
            actions is taken. Actions that are not allowed must have been given lower values.
        next_target_q_values: Q⁻(s', a) of the target network, `[..., A]`; `next_q_values` itself gives the target of
            plain Q-learning.

    Returns:
        `[...]`, in the unit of `rewards`, constant to the gradient.

    Raises:
        ShapeError: if the shapes do not fit.

    Example:
        The second action is chosen, and valued 2:

        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> next_q_values, next_target_q_values = xp.asarray([[3.0, 4.0]]), xp.asarray([[9.0, 2.0]])
        >>> double_q_targets(xp, xp.asarray([1.0]), xp.asarray([0.5]), next_q_values, next_target_q_values)
        array([2.], dtype=float32)

    Source:
        van Hasselt et al. 2016, arXiv:1509.06461, equation 4; several steps as in Hessel et al. 2018, arXiv:1710.02298.
    """
    check_same_shape(
        "double_q_targets takes the values of as many actions from both networks",
        next_q_values=next_q_values,
        next_target_q_values=next_target_q_values,
    )
    check_same_shape(
        "double_q_targets takes one reward and one discount for each row of values",
        rows_of_values=next_q_values[..., 0],
        rewards=rewards,
        discounts=discounts,
    )
    chosen = xp.pick(xp.stop_gradient(next_target_q_values), xp.argmax(next_q_values))
    return xp.stop_gradient(rewards) + discounts * chosen


def td_errors(xp: ArrayNamespace, q_values: Array, actions: Array, targets: Array) -> Array:
    """Return how far Q(s, a) of the actions that were taken lies below their targets, `target - Q(s, a)`.

    Args:
        xp: the namespace of the arrays.
        q_values: Q(s, ·), `[..., A]`.
        actions: int32 `[...]`.
        targets: `[...]`.

    Raises:
        ShapeError: if there is not one action and one target for each row of `q_values`.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> td_errors(xp, xp.asarray([[3.0, 4.0]]), xp.asarray([0]), xp.asarray([2.0]))
        array([-1.], dtype=float32)
    """
    check_same_shape(
        "td_errors takes one action and one target for each row of values",
        rows_of_values=q_values[..., 0],
        actions=actions,
        targets=targets,
    )
    return targets - xp.pick(q_values, actions)


def dueling_q_values(xp: ArrayNamespace, values: Array, advantages: Array) -> Array:
    """Join the two streams of a dueling network: Q(s, a) = V(s) + A(s, a) - mean_a A(s, a).

    Args:
        xp: the namespace of the arrays.
        values: V(s), `[...]`.
        advantages: A(s, ·), `[..., A]`; a number added to all of a row changes nothing.

    Returns:
        `[..., A]`, with the mean V(s) over the actions.

    Raises:
        ShapeError: if there is not one value for each row of advantages.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> dueling_q_values(xp, xp.asarray([1.0]), xp.asarray([[2.0, 4.0]]))
        array([[0., 2.]], dtype=float32)

    Source:
        Wang et al. 2016, arXiv:1511.06581, equation 9.
    """
    check_same_shape(
        "dueling_q_values takes one value for each row of advantages",
        rows_of_advantages=advantages[..., 0],
        values=values,
    )
    return xp.expand_dims(values, axis=-1) + advantages - xp.mean(advantages, axis=-1, keepdims=True)


def huber(xp: ArrayNamespace, errors: Array, *, delta: float = 1.0) -> Array:
    """Return x² / 2 where |x| is at most δ, and δ (|x| - δ / 2) beyond: its slope never exceeds δ.

    Args:
        xp: the namespace of the arrays.
        errors: x, of any shape.
        delta: δ, above 0, in the unit of the errors. With 1, the gradient is that of "clipping the error" in
            Mnih et al. 2015, doi:10.1038/nature14236.

    Raises:
        ValueError: if `delta` is not above 0.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> huber(xp, xp.asarray([0.5, -3.0]))
        array([0.125, 2.5  ], dtype=float32)

    Source:
        Huber 1964, doi:10.1214/aoms/1177703732.
    """
    if not delta > 0.0:
        raise ValueError(f"delta: got {delta}, expected a number above 0.")
    distances = xp.abs(errors)
    inside = xp.clip(distances, None, delta)
    return 0.5 * xp.square(inside) + delta * (distances - inside)


def signed_hyperbolic(xp: ArrayNamespace, x: Array, *, epsilon: float = 1e-3) -> Array:
    """Return h(x) = sign(x) (√(|x| + 1) - 1) + ε x, which makes large returns small and keeps small ones apart.

    Computed as x / (√(|x| + 1) + 1) + ε x, in which nothing cancels out.

    Args:
        xp: the namespace of the arrays.
        x: of any shape.
        epsilon: ε, at least 0; above 0 its inverse has a bounded slope.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> signed_hyperbolic(xp, xp.asarray([0.0, 3.0, -99.0]), epsilon=0.0)
        array([ 0.,  1., -9.], dtype=float32)

    Source:
        Pohlen et al. 2018, arXiv:1805.11593, proposition A.2.
    """
    return x / (xp.sqrt(xp.abs(x) + 1.0) + 1.0) + epsilon * x


def signed_parabolic(xp: ArrayNamespace, x: Array, *, epsilon: float = 1e-3) -> Array:
    """Return h⁻¹(x), the inverse of `signed_hyperbolic`.

    With z = √(|y| + 1) for the y that is looked for, ε z² + z = |x| + 1 + ε, so that z is known and

        y = x (z + 1) / (1 + ε (z + 1))

    which is the formula of the paper without its differences of nearly equal numbers.

    Args:
        xp: the namespace of the arrays.
        x: of any shape.
        epsilon: ε, as of `signed_hyperbolic`.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> signed_parabolic(xp, xp.asarray([0.0, 1.0, -9.0]), epsilon=0.0)
        array([  0.,   3., -99.], dtype=float32)

    Source:
        Pohlen et al. 2018, arXiv:1805.11593, proposition A.2.
    """
    above = xp.abs(x) + (1.0 + epsilon)
    z = 2.0 * above / (1.0 + xp.sqrt(1.0 + 4.0 * epsilon * above))
    return x * (z + 1.0) / (1.0 + epsilon * (z + 1.0))


def rescaled_targets(
    xp: ArrayNamespace, rewards: Array, discounts: Array, next_values: Array, *, epsilon: float | None
) -> Array:
    """Return h(r + γ h⁻¹(v)), the target of values that are learned as h of the return; or r + γ v.

    Args:
        xp: the namespace of the arrays.
        rewards: r, `[...]`, of one or several steps.
        discounts: γⁿ, `[...]`; 0 where the episode terminated.
        next_values: v, `[...]`, rescaled as what is learned.
        epsilon: ε of h, which is `signed_hyperbolic`; None: nothing is rescaled.

    Raises:
        ShapeError: if the shapes differ.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> rescaled_targets(xp, xp.asarray([4.0]), xp.asarray([0.5]), xp.asarray([2.0]), epsilon=0.0)
        array([2.], dtype=float32)

    Source:
        Pohlen et al. 2018, arXiv:1805.11593, section 3.2; for n steps, Kapturowski et al. 2019, "Recurrent experience
        replay in distributed reinforcement learning", section 2.3.
    """
    check_same_shape(
        "rescaled_targets takes one discount and one value for each reward",
        rewards=rewards,
        discounts=discounts,
        next_values=next_values,
    )
    if epsilon is None:
        return rewards + discounts * next_values
    returns = rewards + discounts * signed_parabolic(xp, next_values, epsilon=epsilon)
    return signed_hyperbolic(xp, returns, epsilon=epsilon)


def sequence_priorities(xp: ArrayNamespace, errors: Array, mask: Array, *, max_share: float) -> Array:
    """Return p = η maxₜ |δₜ| + (1 - η) meanₜ |δₜ| of each sequence, over the steps that count.

    Args:
        xp: the namespace of the arrays.
        errors: TD errors δₜ, `[N, T]`.
        mask: bool `[N, T]`: which steps count. Where none does, p is 0.
        max_share: η, in [0, 1]. A mean alone of long sequences would hide the few large errors.

    Returns:
        `[N]`, constant to the gradient.

    Raises:
        ShapeError: if the shapes differ.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> errors, mask = xp.asarray([[1.0, -3.0, 9.0]]), xp.asarray([[True, True, False]])
        >>> sequence_priorities(xp, errors, mask, max_share=0.5)
        array([2.5], dtype=float32)

    Source:
        Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning", section 2.3.
    """
    check_same_shape("sequence_priorities takes one flag for each error", errors=errors, mask=mask)
    counted = xp.astype(mask, xp.float32)
    sizes = xp.where(mask, xp.abs(xp.stop_gradient(errors)), 0.0)
    means = xp.sum(sizes, axis=-1) / xp.clip(xp.sum(counted, axis=-1), 1.0, None)
    return max_share * xp.max(sizes, axis=-1) + (1.0 - max_share) * means
