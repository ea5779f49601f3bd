"""Distributions over actions, as pure functions of what a policy network gives.

Noise comes in as an array, drawn by NumPy wherever the policy acts, so every backend samples alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.errors import ShapeError

__all__ = ["Categorical", "DiagonalGaussian", "Distribution", "GaussianParams"]

_LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Categorical:
    """One of `num_values` values; its params are logits, `[..., num_values]`, actions int32 `[...]`.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> Categorical(2).log_prob(xp, xp.zeros((1, 2)), xp.asarray([1]))
        array([-0.6931472], dtype=float32)
    """

    num_values: int

    @property
    def num_params(self) -> int:
        """How many outputs the policy network has."""
        return self.num_values

    def draw_noise(self, generator: np.random.Generator, num: int) -> npt.NDArray[np.float32]:
        """Draw standard Gumbel noise for `num` samples, `[num, num_values]`."""
        # -log(E) of an exponential E is Gumbel; E = 0, which comes up once in 2²³ draws, would give infinity.
        exponential = generator.standard_exponential((num, self.num_values), np.float32)
        return -np.log(np.maximum(exponential, np.finfo(np.float32).tiny))

    def sample(self, xp: ArrayNamespace, logits: Array, noise: Array) -> Array:
        """Return argmax(logits + noise), which has the probabilities softmax(logits) under Gumbel noise.

        Source:
            Gumbel 1954; as the Gumbel-max trick, Maddison et al. 2014, arXiv:1411.0030.
        """
        self._check(logits)
        return xp.argmax(logits + noise)

    def mode(self, xp: ArrayNamespace, logits: Array) -> Array:
        """Return the likeliest value."""
        self._check(logits)
        return xp.argmax(logits)

    def log_prob(self, xp: ArrayNamespace, logits: Array, actions: Array) -> Array:
        """Return log p(action), `[...]`.

        Raises:
            ShapeError: if there is not one action per row of logits.
        """
        self._check(logits)
        if actions.shape != logits.shape[:-1]:
            raise ShapeError(
                f"`actions` has shape {tuple(actions.shape)}, `logits` has {tuple(logits.shape)}: "
                "Categorical takes one int32 action per row of logits."
            )
        return xp.pick(xp.log_softmax(logits), actions)

    def entropy(self, xp: ArrayNamespace, logits: Array) -> Array:
        """Return -Σ p log p in nats, `[...]`."""
        self._check(logits)
        log_p = xp.log_softmax(logits)
        return -xp.sum(xp.exp(log_p) * log_p, axis=-1)

    def kl(self, xp: ArrayNamespace, p: Array, q: Array) -> Array:
        """Return the divergence Σ p log(p / q) in nats, `[...]`, of two arrays of logits."""
        self._check(p)
        self._check(q)
        log_p, log_q = xp.log_softmax(p), xp.log_softmax(q)
        return xp.sum(xp.exp(log_p) * (log_p - log_q), axis=-1)

    def _check(self, logits: Array) -> None:
        if logits.shape[-1] != self.num_values:
            raise ShapeError(
                f"`logits` has shape {tuple(logits.shape)}, expected (..., {self.num_values}): "
                f"Categorical({self.num_values}) takes one logit per value."
            )


class GaussianParams(NamedTuple):
    """What a DiagonalGaussian is made of."""

    mean: Array
    """`[..., size]`."""
    log_std: Array
    """Log of the standard deviation, `[size]` or `[..., size]`."""


@dataclass(frozen=True)
class DiagonalGaussian:
    """Independent normals; its params are `GaussianParams`, actions float32 `[..., size]`.

    Densities are those of the sample itself: an environment that takes bounded actions clips what it is
    given, never what is stored.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> standard = GaussianParams(mean=xp.zeros((1, 2)), log_std=xp.zeros((2,)))
        >>> DiagonalGaussian(2).log_prob(xp, standard, xp.zeros((1, 2)))
        array([-1.837877], dtype=float32)
    """

    size: int

    @property
    def num_params(self) -> int:
        """How many outputs the policy network has: the mean's; `log_std` is a parameter beside it."""
        return self.size

    def draw_noise(self, generator: np.random.Generator, num: int) -> npt.NDArray[np.float32]:
        """Draw standard normal noise for `num` samples, `[num, size]`."""
        return generator.standard_normal((num, self.size), np.float32)

    def sample(self, xp: ArrayNamespace, params: GaussianParams, noise: Array) -> Array:
        """Return mean + std · noise, through which gradients flow."""
        self._check(params)
        return params.mean + xp.exp(params.log_std) * noise

    def mode(self, xp: ArrayNamespace, params: GaussianParams) -> Array:
        """Return the mean."""
        self._check(params)
        return params.mean

    def log_prob(self, xp: ArrayNamespace, params: GaussianParams, actions: Array) -> Array:
        """Return the log density -½ Σ (((a - μ) / σ)² + 2 log σ + log 2π), `[...]`.

        Raises:
            ShapeError: if `actions` does not have the shape of the mean.
        """
        self._check(params)
        if actions.shape != params.mean.shape:
            raise ShapeError(
                f"`actions` has shape {tuple(actions.shape)}, `mean` has {tuple(params.mean.shape)}: "
                "DiagonalGaussian takes actions of the shape of the mean."
            )
        scaled = (actions - params.mean) * xp.exp(-params.log_std)
        return -0.5 * xp.sum(xp.square(scaled) + 2.0 * params.log_std + _LOG_2PI, axis=-1)

    def entropy(self, xp: ArrayNamespace, params: GaussianParams) -> Array:
        """Return Σ (log σ + ½ log 2πe) in nats, `[...]`."""
        self._check(params)
        log_std = params.log_std + xp.zeros_like(params.mean)
        return xp.sum(log_std + 0.5 * (_LOG_2PI + 1.0), axis=-1)

    def kl(self, xp: ArrayNamespace, p: GaussianParams, q: GaussianParams) -> Array:
        """Return the divergence Σ (log σ_q - log σ_p + (σ_p² + (μ_p - μ_q)²) / 2σ_q² - ½) in nats, `[...]`."""
        self._check(p)
        self._check(q)
        variance = xp.exp(2.0 * p.log_std) + xp.square(p.mean - q.mean)
        return xp.sum(q.log_std - p.log_std + 0.5 * variance * xp.exp(-2.0 * q.log_std) - 0.5, axis=-1)

    def _check(self, params: GaussianParams) -> None:
        for name, array in (("mean", params.mean), ("log_std", params.log_std)):
            if array.shape[-1] != self.size:
                raise ShapeError(
                    f"`{name}` has shape {tuple(array.shape)}, expected (..., {self.size}): "
                    f"DiagonalGaussian({self.size}) takes one per dimension."
                )


Distribution = Categorical | DiagonalGaussian
"""What a policy network may stand for."""
