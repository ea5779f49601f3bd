"""Categorical and MultiCategorical: one value out of n, and several such values at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.arrays.shapes import are_alike
from rheos.errors import ShapeError
from rheos_ops.distributions.protocol import check_actions, check_params

__all__ = ["Categorical", "MultiCategorical"]

_FORBIDDEN = -1e9
"""The logit of a value that is not allowed: its probability is exactly 0, and 0 times its log is 0, not NaN."""


@dataclass(frozen=True)
class Categorical:
    """One of `num_values` values; params are logits `[..., num_values]`, actions int32 `[...]`.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> Categorical(2).log_prob(xp, xp.zeros((1, 2)), xp.asarray([1]))
        array([-0.6931472], dtype=float32)
    """

    num_values: int

    @property
    def num_outputs(self) -> int:
        """One logit for each value."""
        return self.num_values

    @property
    def num_log_stds(self) -> int:
        """None."""
        return 0

    @property
    def action_shape(self) -> tuple[int, ...]:
        """A single number."""
        return ()

    @property
    def is_discrete(self) -> bool:
        """True: actions are int32."""
        return True

    def draw_noise(self, generator: np.random.Generator, num: int) -> npt.NDArray[np.float32]:
        """Draw standard Gumbel noise for `num` samples, `[num, num_values]`."""
        return _draw_gumbel(generator, (num, self.num_values))

    def sample(self, xp: ArrayNamespace, params: Array, noise: Array) -> Array:
        """Return argmax(logits + noise), which has the probabilities softmax(logits) under Gumbel noise.

        Source:
            Gumbel 1954; as the Gumbel-max trick, Maddison et al. 2014, arXiv:1411.0030.
        """
        check_params(self, params)
        return xp.argmax(params + noise)

    def mode(self, xp: ArrayNamespace, params: Array) -> Array:
        """Return the likeliest value."""
        check_params(self, params)
        return xp.argmax(params)

    def log_prob(self, xp: ArrayNamespace, params: Array, actions: Array) -> Array:
        """Return log p(action), `[...]`.

        Raises:
            ShapeError: if there is not one action per row of logits.
        """
        check_actions(self, params, actions)
        return xp.pick(xp.log_softmax(params), actions)

    def entropy(self, xp: ArrayNamespace, params: Array) -> Array:
        """Return -Σ p log p in nats, `[...]`."""
        check_params(self, params)
        return _entropy(xp, params)

    def kl(self, xp: ArrayNamespace, p: Array, q: Array) -> Array:
        """Return the divergence Σ p log(p / q) in nats, `[...]`, of two arrays of logits."""
        check_params(self, p)
        check_params(self, q)
        return _kl(xp, p, q)

    def mask(self, xp: ArrayNamespace, params: Array, action_mask: Array) -> Array:
        """Return logits under which only allowed values have a probability.

        Those of the others are -1e9, not -∞, so that entropy and divergence stay finite. Where nothing is allowed,
        all values are equally likely.

        Args:
            xp: the namespace of the arrays.
            params: logits, `[..., num_values]`.
            action_mask: which values are allowed, bool `[..., num_values]`.

        Raises:
            ShapeError: if the mask does not have the shape of the logits.

        Example:
            >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
            >>> logits = Categorical(3).mask(xp, xp.zeros((1, 3)), xp.asarray([[True, False, True]]))
            >>> xp.softmax(logits)
            array([[0.5, 0. , 0.5]], dtype=float32)
        """
        check_params(self, params)
        return _mask(xp, params, action_mask)


@dataclass(frozen=True)
class MultiCategorical:
    """Independent values, the i-th one of `nvec[i]`; params are logits `[..., Σ nvec]`, actions int32 `[..., k]`.

    The logits of the first value come first. Log-probabilities, entropies and divergences are sums over the values.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> MultiCategorical((2, 4)).log_prob(xp, xp.zeros((1, 6)), xp.asarray([[1, 3]]))  # log 1/2 + log 1/4
        array([-2.0794415], dtype=float32)
    """

    nvec: tuple[int, ...]

    @property
    def num_outputs(self) -> int:
        """One logit for each value of each entry."""
        return sum(self.nvec)

    @property
    def num_log_stds(self) -> int:
        """None."""
        return 0

    @property
    def action_shape(self) -> tuple[int, ...]:
        """A number for each entry."""
        return (len(self.nvec),)

    @property
    def is_discrete(self) -> bool:
        """True: actions are int32."""
        return True

    def draw_noise(self, generator: np.random.Generator, num: int) -> npt.NDArray[np.float32]:
        """Draw standard Gumbel noise for `num` samples, `[num, Σ nvec]`."""
        return _draw_gumbel(generator, (num, self.num_outputs))

    def sample(self, xp: ArrayNamespace, params: Array, noise: Array) -> Array:
        """Return argmax(logits + noise) of each entry, as `Categorical.sample` does."""
        check_params(self, params)
        return xp.argmax(self._table(xp, params + noise))

    def mode(self, xp: ArrayNamespace, params: Array) -> Array:
        """Return the likeliest value of each entry."""
        check_params(self, params)
        return xp.argmax(self._table(xp, params))

    def log_prob(self, xp: ArrayNamespace, params: Array, actions: Array) -> Array:
        """Return Σᵢ log pᵢ(actionᵢ), `[...]`.

        Raises:
            ShapeError: if there is not one action per row of logits.
        """
        check_actions(self, params, actions)
        return xp.sum(xp.pick(xp.log_softmax(self._table(xp, params)), actions), axis=-1)

    def entropy(self, xp: ArrayNamespace, params: Array) -> Array:
        """Return the sum of the entropies of the entries in nats, `[...]`."""
        check_params(self, params)
        return xp.sum(_entropy(xp, self._table(xp, params)), axis=-1)

    def kl(self, xp: ArrayNamespace, p: Array, q: Array) -> Array:
        """Return the sum of the divergences of the entries in nats, `[...]`, of two arrays of logits."""
        check_params(self, p)
        check_params(self, q)
        return xp.sum(_kl(xp, self._table(xp, p), self._table(xp, q)), axis=-1)

    def mask(self, xp: ArrayNamespace, params: Array, action_mask: Array) -> Array:
        """Return logits under which only allowed values have a probability; see `Categorical.mask`.

        Args:
            xp: the namespace of the arrays.
            params: logits, `[..., Σ nvec]`.
            action_mask: which values of each entry are allowed, bool `[..., Σ nvec]`.

        Raises:
            ShapeError: if the mask does not have the shape of the logits.
        """
        check_params(self, params)
        return _mask(xp, params, action_mask)

    def _table(self, xp: ArrayNamespace, params: Array) -> Array:
        """Return the logits as `[..., k, max nvec]`; entries of fewer values get forbidden ones behind them."""
        count, width = len(self.nvec), max(self.nvec)
        if self.num_outputs < count * width:
            forbidden = xp.zeros_like(params[..., :1]) + _FORBIDDEN
            params = xp.take(xp.concat([params, forbidden], axis=-1), xp.asarray(self._places), axis=-1)
        return xp.reshape(params, (*params.shape[:-1], count, width))

    @cached_property
    def _places(self) -> tuple[int, ...]:
        """Where each cell of the table comes from; the place behind the logits has the forbidden one.

        Python's own numbers, which a backend may compile into its graph.
        """
        ends = np.cumsum(self.nvec)
        column = np.arange(max(self.nvec))
        places = np.where(column < np.array(self.nvec)[:, None], (ends - self.nvec)[:, None] + column, ends[-1])
        return tuple(places.ravel().tolist())


def _draw_gumbel(generator: np.random.Generator, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    # -log(E) of an exponential E is Gumbel; E = 0, which comes up once in 2²³ draws, would give infinity.
    exponential = generator.standard_exponential(shape, np.float32)
    return -np.log(np.maximum(exponential, np.finfo(np.float32).tiny))


def _entropy(xp: ArrayNamespace, logits: Array) -> Array:
    log_p = xp.log_softmax(logits)
    return -xp.sum(xp.exp(log_p) * log_p, axis=-1)


def _kl(xp: ArrayNamespace, p: Array, q: Array) -> Array:
    log_p, log_q = xp.log_softmax(p), xp.log_softmax(q)
    return xp.sum(xp.exp(log_p) * (log_p - log_q), axis=-1)


def _mask(xp: ArrayNamespace, logits: Array, action_mask: Array) -> Array:
    if not are_alike(action_mask.shape, logits.shape):
        raise ShapeError(
            f"`action_mask` has shape {tuple(action_mask.shape)}, `params` has {tuple(logits.shape)}: a mask has one"
            " flag for each logit."
        )
    return xp.where(action_mask, logits, _FORBIDDEN)
