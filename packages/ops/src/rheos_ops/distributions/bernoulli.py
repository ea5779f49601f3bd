"""Bernoulli: independent flags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos_ops.distributions.protocol import check_actions, check_params

__all__ = ["Bernoulli"]


@dataclass(frozen=True)
class Bernoulli:
    """Independent flags; params are logits l `[..., size]` with p(1) = sigmoid(l), actions int32 0 or 1 `[..., size]`.

    Log-probabilities, entropies and divergences are sums over the flags.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> Bernoulli(2).log_prob(xp, xp.zeros((1, 2)), xp.asarray([[0, 1]]))  # twice log 1/2
        array([-1.3862944], dtype=float32)
    """

    size: int

    @property
    def num_outputs(self) -> int:
        """One logit for each flag."""
        return self.size

    @property
    def num_log_stds(self) -> int:
        """None."""
        return 0

    @property
    def action_shape(self) -> tuple[int, ...]:
        """A number for each flag."""
        return (self.size,)

    @property
    def is_discrete(self) -> bool:
        """True: actions are int32."""
        return True

    def draw_noise(self, generator: np.random.Generator, num: int) -> npt.NDArray[np.float32]:
        """Draw standard logistic noise for `num` samples, `[num, size]`."""
        return generator.logistic(size=(num, self.size)).astype(np.float32)

    def sample(self, xp: ArrayNamespace, params: Array, noise: Array) -> Array:
        """Return 1 where logits + noise > 0, which has the probability sigmoid(logits) under logistic noise."""
        check_params(self, params)
        return xp.astype(params + noise > 0.0, xp.int32)

    def mode(self, xp: ArrayNamespace, params: Array) -> Array:
        """Return the likelier value of each flag; 0 where both are equally likely."""
        check_params(self, params)
        return xp.astype(params > 0.0, xp.int32)

    def log_prob(self, xp: ArrayNamespace, params: Array, actions: Array) -> Array:
        """Return Σ log p(flag) = -Σ softplus((1 - 2 flag) l), `[...]`.

        Raises:
            ShapeError: if there is not one action per row of logits.
        """
        check_actions(self, params, actions)
        signs = 1.0 - 2.0 * xp.astype(actions, xp.float32)
        return -xp.sum(xp.softplus(signs * params), axis=-1)

    def entropy(self, xp: ArrayNamespace, params: Array) -> Array:
        """Return -Σ (p log p + (1 - p) log(1 - p)) in nats, `[...]`."""
        check_params(self, params)
        surprise = xp.sigmoid(params) * xp.softplus(-params) + xp.sigmoid(-params) * xp.softplus(params)
        return xp.sum(surprise, axis=-1)

    def kl(self, xp: ArrayNamespace, p: Array, q: Array) -> Array:
        """Return the divergence Σ (p log(p / q) + (1 - p) log((1 - p) / (1 - q))) in nats, `[...]`."""
        check_params(self, p)
        check_params(self, q)
        if_one = xp.sigmoid(p) * (xp.softplus(-q) - xp.softplus(-p))
        if_zero = xp.sigmoid(-p) * (xp.softplus(q) - xp.softplus(p))
        return xp.sum(if_one + if_zero, axis=-1)
