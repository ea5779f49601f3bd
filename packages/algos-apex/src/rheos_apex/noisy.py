"""Noisy layers: dense layers whose weights have learned noise, the same for all rows of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Networks
from rheos.networks.specs import MLP, Activation, NetworkSpec

__all__ = ["NoisyMLP", "draw_factors"]


@dataclass(frozen=True)
class _Layer:
    """One layer, as two dense ones: y = W x + b + f(ε_out) (W_σ (f(ε_in) x) + b_σ)."""

    name: str
    inputs: int
    outputs: int

    @property
    def num_factors(self) -> int:
        return self.inputs + self.outputs

    def networks(self, sigma: float) -> dict[str, NetworkSpec]:
        deviation = MLP(self.inputs, self.outputs, (), output_initial=sigma / self.inputs**0.5)
        return {self.name: MLP(self.inputs, self.outputs, ()), f"{self.name}_deviation": deviation}

    def __call__(self, networks: Networks, x: Array, factors: Array | None) -> Array:
        mean = networks[self.name](x)
        if factors is None:
            return mean
        of_inputs, of_outputs = factors[: self.inputs], factors[self.inputs :]
        return mean + networks[f"{self.name}_deviation"](x * of_inputs) * of_outputs


@dataclass(frozen=True)
class NoisyMLP:
    """A multi-layer perceptron whose layers are noisy; without noise, one of the means.

    Args:
        name: of its networks, which begin with it.
        inputs: features that it takes.
        outputs: what it gives.
        hidden: units of hidden layers.
        activation: after each hidden layer.
        sigma: σ₀: the deviations start at σ₀ / √inputs of a layer.

    Source:
        Fortunato et al. 2018, arXiv:1706.10295, factorised Gaussian noise (equations 10 and 11).
    """

    name: str
    inputs: int
    outputs: int
    hidden: tuple[int, ...]
    activation: Activation
    sigma: float

    @property
    def _layers(self) -> tuple[_Layer, ...]:
        sizes = (self.inputs, *self.hidden, self.outputs)
        return tuple(
            _Layer(f"{self.name}_{index}", inputs, outputs) for index, (inputs, outputs) in enumerate(pairwise(sizes))
        )

    @property
    def networks(self) -> Mapping[str, NetworkSpec]:
        """The dense layers by name, two for each noisy one."""
        return {name: spec for layer in self._layers for name, spec in layer.networks(self.sigma).items()}

    @property
    def num_factors(self) -> int:
        """How many numbers of noise it takes."""
        return sum(layer.num_factors for layer in self._layers)

    def __call__(self, xp: ArrayNamespace, networks: Networks, x: Array, factors: Array | None) -> Array:
        """Return the outputs `[N, outputs]` of features `[N, inputs]`.

        Args:
            xp: the namespace of the arrays.
            networks: native networks by name.
            x: the features.
            factors: `[num_factors]`, of `draw_factors`; None gives the mean.
        """
        activate = xp.relu if self.activation is Activation.RELU else xp.tanh
        begin = 0
        for layer in self._layers:
            end = begin + layer.num_factors
            x = x if begin == 0 else activate(x)
            x = layer(networks, x, None if factors is None else factors[begin:end])
            begin = end
        return x


def draw_factors(generator: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    """Draw what noisy layers are multiplied by: sign(ε) √|ε| of standard normal ε."""
    noise = generator.standard_normal(shape, np.float32)
    return np.sign(noise) * np.sqrt(np.abs(noise))
