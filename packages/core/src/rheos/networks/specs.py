"""Networks as specs: what a network is, apart from the framework that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["MLP", "Activation", "NetworkSpec", "Parameter"]


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


@dataclass(frozen=True)
class Parameter:
    """A learned array that depends on no input (a log standard deviation, a temperature).

    As a network it takes the same inputs as its neighbours and ignores them. Weights: `value` `shape`.
    """

    shape: tuple[int, ...]
    initial: float = 0.0


NetworkSpec = MLP | Parameter
