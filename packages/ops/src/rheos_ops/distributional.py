"""Distributional reinforcement learning: distributions of returns on fixed atoms, and as quantiles."""

from __future__ import annotations

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.arrays.shapes import check_same_shape
from rheos_ops.q_learning import huber

__all__ = ["project_distribution", "quantile_huber"]


def project_distribution(xp: ArrayNamespace, atoms: Array, probs: Array, support: Array) -> Array:
    """Move a distribution onto other atoms: each atom's probability goes to the two neighbours that it lies between.

    The nearer one gets more, so that the mean is kept; what lies outside the support goes to its end.

    Args:
        xp: the namespace of the arrays.
        atoms: where the distribution lies, `[N, K]`, such as r + γ z.
        probs: p, `[N, K]`, which sum to 1.
        support: z, `[S]`, evenly spaced and rising, at least 2.

    Returns:
        The probabilities of the support, `[N, S]`.

    Raises:
        ShapeError: if there is not one probability for each atom.

    Source:
        Bellemare et al. 2017, arXiv:1707.06887, equation 7: Σⱼ pⱼ [1 - |clip(zⱼ') - zᵢ| / Δz] from 0 to 1.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> project_distribution(xp, xp.asarray([[0.25, 9.0]]), xp.asarray([[0.5, 0.5]]), xp.asarray([0.0, 1.0, 2.0]))
        array([[0.375, 0.125, 0.5  ]], dtype=float32)
    """
    check_same_shape("project_distribution takes one probability for each atom", atoms=atoms, probs=probs)
    lowest, step = support[0], support[1] - support[0]
    places = (atoms - lowest) / step  # in steps of the support, `[N, K]`
    places = xp.clip(places, 0.0, float(support.shape[0] - 1))
    distances = xp.abs(xp.expand_dims(places, axis=-1) - (support - lowest) / step)  # `[N, K, S]`
    return xp.sum(xp.expand_dims(probs, axis=-1) * xp.relu(1.0 - distances), axis=-2)


def quantile_huber(xp: ArrayNamespace, quantiles: Array, targets: Array, *, kappa: float = 1.0) -> Array:
    """Return the quantile regression loss: Σᵢ meanⱼ |τᵢ - 1{uᵢⱼ < 0}| L(uᵢⱼ) / κ with uᵢⱼ = targetⱼ - θᵢ.

    Args:
        xp: the namespace of the arrays.
        quantiles: θ, `[..., K]`, the i-th for τᵢ = (i + 1/2) / K.
        targets: samples of what is to be described, `[..., J]`, constant to the gradient.
        kappa: κ of the Huber loss L, above 0, in the unit of the returns.

    Returns:
        `[...]`.

    Source:
        Dabney et al. 2018, arXiv:1710.10044, equation 10 and algorithm 1.

    Example:
        The median of 0 and 10 is anything between them; outside, the loss grows:

        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> targets = xp.asarray([[0.0, 10.0]] * 3)
        >>> quantile_huber(xp, xp.asarray([[4.0], [5.0], [12.0]]), targets)
        array([2.25, 2.25, 3.25], dtype=float32)
    """
    count = quantiles.shape[-1]
    levels = (xp.asarray(list(range(count)), xp.float32) + 0.5) / count
    errors = xp.expand_dims(xp.stop_gradient(targets), axis=-2) - xp.expand_dims(quantiles, axis=-1)  # `[..., K, J]`
    is_below = xp.astype(errors < 0.0, xp.float32)
    weights = xp.abs(xp.expand_dims(levels, axis=-1) - is_below)
    return xp.sum(xp.mean(weights * huber(xp, errors, delta=kappa), axis=-1), axis=-1) / kappa
