"""Networks as specs: what a network is, apart from the framework that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["CNN", "MLP", "NATURE_FILTERS", "Activation", "NetworkSpec", "Normalizer", "Parameter"]


class Activation(Enum):
    """The non-linearity after each hidden layer."""

    TANH = "tanh"
    RELU = "relu"


@dataclass(frozen=True)
class MLP:
    """A multi-layer perceptron `[..., inputs] -> [..., outputs]`.

    Weights, by canonical name: `hidden_<i>/kernel` `[in, out]`, `hidden_<i>/bias` `[out]`, `output/kernel`,
    `output/bias`. Kernels start orthogonal, scaled by `hidden_scale` and `output_scale`; biases start at 0.
    """

    inputs: int
    outputs: int
    hidden: tuple[int, ...] = (64, 64)
    activation: Activation = Activation.TANH
    hidden_scale: float = 2.0**0.5
    output_scale: float = 1.0
    activates_output: bool = False
    """Whether the activation comes after the last layer, too: a trunk that several heads share."""


NATURE_FILTERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, kernel size and stride of each convolution in Mnih et al. 2015, doi:10.1038/nature14236."""


@dataclass(frozen=True)
class CNN:
    """Convolutions without padding and a dense layer, `[..., height, width, channels] -> [..., outputs]`, float32.

    The activation comes after every layer, also the last. Weights, by canonical name: `conv_<i>/kernel`
    `[height, width, in, out]`, `conv_<i>/bias` `[out]`, `output/kernel` `[in, out]`, `output/bias`; what the dense
    layer takes is flattened in the order height, width, channels. Kernels start orthogonal, scaled by `scale`.
    """

    shape: tuple[int, int, int]
    """Height, width and channels of an image."""
    outputs: int = 512
    filters: tuple[tuple[int, int, int], ...] = NATURE_FILTERS
    """Channels, kernel size and stride of each convolution."""
    activation: Activation = Activation.RELU
    scale: float = 2.0**0.5


@dataclass(frozen=True)
class Normalizer:
    """`[..., size] -> [..., size]`: (x - mean) / std, clipped to [-limit, limit]; not trained by gradients.

    Weights: `mean` and `std`, `[size]`, at the start 0 and 1; a learner sets them from what it has seen. They travel
    and are saved with the other weights, so whoever acts with these normalises as the learner did.
    """

    size: int
    limit: float = 10.0


@dataclass(frozen=True)
class Parameter:
    """A learned array that depends on no input (a log standard deviation, a temperature).

    As a network it takes the same inputs as its neighbours and ignores them. Weights: `value` `shape`.
    """

    shape: tuple[int, ...]
    initial: float = 0.0


NetworkSpec = MLP | CNN | Parameter | Normalizer
