"""Product: independent distributions side by side, for actions that are a tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod

import numpy as np
import numpy.typing as npt

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos_ops.distributions.protocol import Distribution, check_actions, check_params

__all__ = ["Product"]


@dataclass(frozen=True)
class Product:
    """Independent parts; actions are the parts' own, one behind the other, float32 `[..., total]`.

    Params are the outputs of all parts, then the log standard deviations of all parts. Log-probabilities, entropies and
    divergences are sums over the parts.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp as xp
        >>> from rheos_ops.distributions import Categorical, DiagonalGaussian
        >>> both = Product((Categorical(2), DiagonalGaussian(1)))
        >>> both.num_outputs, both.num_log_stds, both.action_shape
        (3, 1, (2,))
        >>> both.mode(xp, xp.asarray([[0.0, 1.0, 0.5, 0.0]]))
        array([[1. , 0.5]], dtype=float32)
    """

    parts: tuple[Distribution, ...]

    @property
    def num_outputs(self) -> int:
        """Those of all parts."""
        return sum(part.num_outputs for part in self.parts)

    @property
    def num_log_stds(self) -> int:
        """Those of all parts."""
        return sum(part.num_log_stds for part in self.parts)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """The numbers of all parts in a row."""
        return (sum(prod(part.action_shape) for part in self.parts),)

    @property
    def is_discrete(self) -> bool:
        """False: actions are float32, also those of discrete parts."""
        return False

    def draw_noise(self, generator: np.random.Generator, num: int) -> npt.NDArray[np.float32]:
        """Draw the noise of every part, one after the other, `[num, num_outputs]`."""
        return np.concatenate([part.draw_noise(generator, num) for part in self.parts], axis=-1)

    def sample(self, xp: ArrayNamespace, params: Array, noise: Array) -> Array:
        """Return a sample of every part."""
        samples = [
            self._as_columns(xp, place.part, place.part.sample(xp, place.params(xp, params), noise[..., place.outputs]))
            for place in self._checked(params)
        ]
        return xp.concat(samples, axis=-1)

    def mode(self, xp: ArrayNamespace, params: Array) -> Array:
        """Return the mode of every part."""
        modes = [
            self._as_columns(xp, place.part, place.part.mode(xp, place.params(xp, params)))
            for place in self._checked(params)
        ]
        return xp.concat(modes, axis=-1)

    def log_prob(self, xp: ArrayNamespace, params: Array, actions: Array) -> Array:
        """Return the sum of the parts' log-probabilities and log-densities, `[...]`.

        Raises:
            ShapeError: if there is not one row of actions per row of params.
        """
        check_actions(self, params, actions)
        return self._sum(lambda place: place.part.log_prob(xp, place.params(xp, params), place.actions_of(xp, actions)))

    def entropy(self, xp: ArrayNamespace, params: Array) -> Array:
        """Return the sum of the parts' entropies in nats, `[...]`."""
        check_params(self, params)
        return self._sum(lambda place: place.part.entropy(xp, place.params(xp, params)))

    def kl(self, xp: ArrayNamespace, p: Array, q: Array) -> Array:
        """Return the sum of the parts' divergences in nats, `[...]`."""
        check_params(self, p)
        check_params(self, q)
        return self._sum(lambda place: place.part.kl(xp, place.params(xp, p), place.params(xp, q)))

    def _checked(self, params: Array) -> tuple[_Place, ...]:
        check_params(self, params)
        return self._places

    def _sum(self, term: Callable[[_Place], Array]) -> Array:
        return reduce(lambda total, place: total + term(place), self._places[1:], term(self._places[0]))

    @staticmethod
    def _as_columns(xp: ArrayNamespace, part: Distribution, actions: Array) -> Array:
        columns = actions if part.action_shape else xp.expand_dims(actions, axis=-1)
        return xp.astype(columns, xp.float32) if part.is_discrete else columns

    @cached_property
    def _places(self) -> tuple[_Place, ...]:
        places = []
        output, log_std, action = 0, self.num_outputs, 0
        for part in self.parts:
            ends = output + part.num_outputs, log_std + part.num_log_stds, action + prod(part.action_shape)
            places.append(_Place(part, slice(output, ends[0]), slice(log_std, ends[1]), slice(action, ends[2])))
            output, log_std, action = ends
        return tuple(places)


@dataclass(frozen=True)
class _Place:
    """Where a part has its params and its actions."""

    part: Distribution
    outputs: slice
    log_stds: slice
    actions: slice

    def params(self, xp: ArrayNamespace, params: Array) -> Array:
        outputs = params[..., self.outputs]
        if not self.part.num_log_stds:
            return outputs
        return xp.concat([outputs, params[..., self.log_stds]], axis=-1)

    def actions_of(self, xp: ArrayNamespace, actions: Array) -> Array:
        own = actions[..., self.actions]
        if self.part.is_discrete:
            own = xp.astype(own, xp.int32)
        return own if self.part.action_shape else xp.squeeze(own, axis=-1)
