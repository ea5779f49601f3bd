"""Networks as specs: what a network is, apart from the framework that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = [
    "CNN",
    "GRU",
    "LSTM",
    "MLP",
    "NATURE_FILTERS",
    "Activation",
    "Heads",
    "Native",
    "NetworkSpec",
    "Normalizer",
    "Parameter",
    "ResNet",
    "Tree",
]


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
    output_initial: float | None = None
    """What all weights of the last layer start at, in place of an orthogonal kernel and a bias of 0."""


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
class ResNet:
    """The residual network of IMPALA, `[..., height, width, channels] -> [..., outputs]`, float32.

    One section for each of `channels`: a convolution 3 x 3, a maximum over 3 x 3 pixels with stride 2, then
    `num_blocks` residual blocks `x + conv(relu(conv(relu(x))))`, all convolutions 3 x 3 with stride 1. Everything is
    padded by one pixel on each side (with 0, the maximum with nothing), so each section halves the image, rounded up.
    Then ReLU, a dense layer and ReLU.

    Weights, by canonical name: `section_<i>/conv/kernel` `[3, 3, in, out]` and `.../bias` `[out]`,
    `section_<i>/block_<j>/conv_0/...` and `conv_1/...`, `output/kernel` `[in, out]`, `output/bias`; what the dense
    layer takes is flattened in the order height, width, channels. Kernels start orthogonal, scaled by `scale`.

    Source:
        Espeholt et al. 2018, arXiv:1802.01561, figure 3 (right), without its LSTM.
    """

    shape: tuple[int, int, int]
    """Height, width and channels of an image."""
    outputs: int = 256
    channels: tuple[int, ...] = (16, 32, 32)
    """Of each section."""
    num_blocks: int = 2
    """Residual blocks in a section."""
    scale: float = 2.0**0.5


@dataclass(frozen=True)
class LSTM:
    """A long short-term memory over time: `(x, state, is_first) -> (outputs, state)`.

    `x` is `[T, B, inputs]`, `state` `[B, 2 units]` (outputs, then cells, as the step before left them), `is_first`
    bool `[T, B]`: where it is True the state is 0 before that step, so that no episode remembers another one. The
    outputs are `[T, B, units]`, and the state is the one after the last step.

    Weights, by canonical name: `kernel` `[inputs, 4 units]`, `recurrent_kernel` `[units, 4 units]`, `bias`
    `[4 units]`; the gates in the order input, forget, cell, output. Kernels start orthogonal, biases at 0, that of the
    forget gate at 1.

    Source:
        Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000 and its bias of Jozefowicz et al. 2015.
    """

    inputs: int
    units: int

    @property
    def state_size(self) -> int:
        """The numbers in the state of one sequence."""
        return 2 * self.units


@dataclass(frozen=True)
class GRU:
    """A gated recurrent unit over time, called as `LSTM` is; the state is `[B, units]`.

    Weights, by canonical name: `kernel` `[inputs, 3 units]`, `recurrent_kernel` `[units, 3 units]`, `bias`
    `[3 units]`, `recurrent_bias` `[units]`; the gates in the order reset, update, new. The reset gate is applied
    after the recurrent product (as cuDNN has it): new = tanh(x W + b + reset * (h U + c)). Kernels start orthogonal,
    biases at 0.

    Source:
        Cho et al. 2014, arXiv:1406.1078v1.
    """

    inputs: int
    units: int

    @property
    def state_size(self) -> int:
        """The numbers in the state of one sequence."""
        return self.units


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


@dataclass(frozen=True)
class Tree:
    """An encoder for each leaf of a tree: `{part: inputs} -> [..., features]`, the parts' outputs side by side.

    Inputs are a mapping that has at least the parts' names. Weights are those of the parts, `<part>/<weight>`. A part
    is called with its input alone, so an LSTM or a GRU can be none: it is a network of its own.
    """

    parts: Mapping[str, NetworkSpec]
    """In the order in which their outputs are joined."""


@dataclass(frozen=True)
class Heads:
    """Several outputs of one trunk: `inputs -> {head: outputs}`.

    Weights, by canonical name: `trunk/<weight>` and `<head>/<weight>`.
    """

    trunk: NetworkSpec
    heads: Mapping[str, NetworkSpec]
    """Each takes what the trunk gives; none is called `trunk`. Neither they nor the trunk can be an LSTM or a GRU."""


@dataclass(frozen=True)
class Native:
    """A network of the user's own: a `torch.nn.Module` or a Keras model, in place of a spec.

    It is called as it is, runs on its own framework only, and starts from the weights that it makes itself, for which
    the backend seeds the framework. Its weights travel by its own names, with `/` between the parts; what it trains
    and what it does not is its own to say, as its framework has it.
    """

    make: Callable[[], Any]
    """Makes the module. It may be called in several processes, so it is a function that can be pickled, and always
    makes the same layers."""


NetworkSpec = MLP | CNN | ResNet | LSTM | GRU | Parameter | Normalizer | Tree | Heads | Native
