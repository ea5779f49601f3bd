"""Network specs as native torch modules, in the canonical layout of their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rheos.errors import ConfigError
from rheos.networks.recurrent import gru, lstm
from rheos.networks.specs import (
    CNN,
    GRU,
    LSTM,
    MLP,
    Activation,
    Heads,
    Native,
    NetworkSpec,
    Normalizer,
    Parameter,
    ResNet,
    Tree,
)
from rheos.networks.weights import layer_names, parts_of, weight_shapes
from rheos_torch.namespace import torch_xp

__all__ = [
    "CNNModule",
    "ConvolutionModule",
    "DenseModule",
    "HeadsModule",
    "MLPModule",
    "NormalizerModule",
    "ParameterModule",
    "RecurrentModule",
    "ResNetModule",
    "TreeModule",
    "make_module",
    "weights_of",
]

_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.TANH: torch.tanh,
    Activation.RELU: torch.relu,
}


class DenseModule(nn.Module):
    """An affine layer in the canonical layout: `kernel` `[in, out]`, `bias` `[out]`."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return x W + b."""
        if x.ndim == 2:
            return torch.addmm(self.bias, x, self.kernel)
        return x @ self.kernel + self.bias


class MLPModule(nn.Module):
    """An MLP; its children carry the canonical names of the layers."""

    def __init__(self, spec: MLP) -> None:
        super().__init__()
        sizes = (spec.inputs, *spec.hidden, spec.outputs)
        layers = tuple(DenseModule(inputs, outputs) for inputs, outputs in pairwise(sizes))
        for name, layer in zip(layer_names(spec), layers, strict=True):
            self.add_module(name, layer)
        self._layers = layers  # in a tuple, so that no second name is registered
        self._activate = _ACTIVATIONS[spec.activation]
        self._num_activated = len(layers) if spec.activates_output else len(layers) - 1

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., inputs]` to `[..., outputs]`."""
        for index, layer in enumerate(self._layers):
            x = layer(x)
            if index < self._num_activated:
                x = self._activate(x)
        return x


class ConvolutionModule(nn.Module):
    """A convolution in the canonical layout: `kernel` `[height, width, in, out]`, `bias` `[out]`."""

    def __init__(self, size: int, stride: int, inputs: int, outputs: int, *, padding: int = 0) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(size, size, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self._stride, self._padding = stride, padding

    def forward(self, x: Tensor) -> Tensor:
        """Map `[N, in, height, width]` to `[N, out, ...]`."""
        return nn.functional.conv2d(x, self.kernel.permute(3, 2, 0, 1), self.bias, self._stride, self._padding)


class CNNModule(nn.Module):
    """Convolutions and a dense layer; its children carry the canonical names of the layers."""

    def __init__(self, spec: CNN) -> None:
        super().__init__()
        *names, last = layer_names(spec)
        channels = (spec.shape[2], *(filters for filters, _, _ in spec.filters))
        convolutions = tuple(
            ConvolutionModule(size, stride, inputs, outputs)
            for (inputs, outputs), (_, size, stride) in zip(pairwise(channels), spec.filters, strict=True)
        )
        dense = DenseModule(*weight_shapes({"cnn": spec})[f"cnn/{last}/kernel"])
        for name, layer in zip([*names, last], [*convolutions, dense], strict=True):
            self.add_module(name, layer)
        self._layers = convolutions, dense  # in a tuple, so that no second name is registered
        self._activate = _ACTIVATIONS[spec.activation]

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., height, width, channels]` to `[..., outputs]`."""
        leading = x.shape[:-3]
        x = x.reshape(-1, *x.shape[-3:]).permute(0, 3, 1, 2)
        convolutions, dense = self._layers
        for layer in convolutions:
            x = self._activate(layer(x))
        x = x.permute(0, 2, 3, 1).reshape(x.shape[0], -1)  # flattened in the canonical order: height, width, channels
        y: Tensor = self._activate(dense(x))
        return y.reshape(*leading, -1)


class _Section(nn.Module):
    """A convolution, a maximum that halves the image, and residual blocks."""

    def __init__(self, inputs: int, channels: int, num_blocks: int) -> None:
        super().__init__()
        self.conv = ConvolutionModule(3, 1, inputs, channels, padding=1)
        self._blocks = tuple(_Block(channels) for _ in range(num_blocks))
        for index, block in enumerate(self._blocks):
            self.add_module(f"block_{index}", block)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(self.conv(x), 3, stride=2, padding=1)
        for block in self._blocks:
            x = block(x)
        return x


class _Block(nn.Module):
    """Two convolutions beside the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv_0 = ConvolutionModule(3, 1, channels, channels, padding=1)
        self.conv_1 = ConvolutionModule(3, 1, channels, channels, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv_1(torch.relu(self.conv_0(torch.relu(x))))
        return x + y


class ResNetModule(nn.Module):
    """The residual network of IMPALA; its descendants carry the canonical names of the layers."""

    def __init__(self, spec: ResNet) -> None:
        super().__init__()
        self._sections = tuple(
            _Section(inputs, channels, spec.num_blocks)
            for inputs, channels in pairwise((spec.shape[2], *spec.channels))
        )
        for index, section in enumerate(self._sections):
            self.add_module(f"section_{index}", section)
        self.output = DenseModule(*weight_shapes({"resnet": spec})["resnet/output/kernel"])

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., height, width, channels]` to `[..., outputs]`."""
        leading = x.shape[:-3]
        x = x.reshape(-1, *x.shape[-3:]).permute(0, 3, 1, 2)
        for section in self._sections:
            x = section(x)
        x = torch.relu(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1)  # flattened in the order height, width, channels
        y = torch.relu(self.output(x))
        return y.reshape(*leading, -1)


class NormalizerModule(nn.Module):
    """(x - mean) / std within limits; mean and deviation are buffers, so no gradient changes them."""

    mean: Tensor
    std: Tensor

    def __init__(self, spec: Normalizer) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(spec.size))
        self.register_buffer("std", torch.ones(spec.size))
        self._limit = spec.limit

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `[..., size]`."""
        return torch.clamp((x - self.mean) / self.std, -self._limit, self._limit)


class ParameterModule(nn.Module):
    """A learned array that depends on no input."""

    def __init__(self, spec: Parameter) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(spec.shape))

    def forward(self, _inputs: Tensor) -> Tensor:
        """Return the array."""
        return self.value


class RecurrentModule(nn.Module):
    """An LSTM or a GRU, as core writes them over `xp`; its parameters carry the canonical names."""

    def __init__(self, spec: LSTM | GRU) -> None:
        super().__init__()
        shapes = {name.removeprefix("/"): shape for name, shape in weight_shapes({"": spec}).items()}
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
        self._names = tuple(shapes)
        self._run = lstm if isinstance(spec, LSTM) else gru

    def forward(self, x: Tensor, state: Tensor, is_first: Tensor) -> tuple[Tensor, Tensor]:
        """Map `[T, B, inputs]`, `[B, state]` and `[T, B]` to `[T, B, units]` and `[B, state]`."""
        return self._run(torch_xp, {name: getattr(self, name) for name in self._names}, x, state, is_first)


class TreeModule(nn.Module):
    """An encoder for each part of its inputs, whatever the parts are called."""

    def __init__(self, parts: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts.values())
        self._named = tuple(parts.items())  # in a tuple, so that no second name is registered

    def forward(self, inputs: Mapping[str, Any]) -> Tensor:
        """Map `{part: inputs}` to `[..., features]`."""
        return torch.cat([part(inputs[name]) for name, part in self._named], -1)


class HeadsModule(nn.Module):
    """Several outputs of one trunk, the first of its parts."""

    def __init__(self, parts: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts.values())
        self._named = tuple(parts.items())  # in a tuple, so that no second name is registered

    def forward(self, inputs: Any) -> dict[str, Any]:
        """Map what the trunk takes to `{head: outputs}`."""
        (_, trunk), *heads = self._named
        x = trunk(inputs)
        return {name: head(x) for name, head in heads}


def make_module(path: str, spec: NetworkSpec, leaves: dict[str, nn.Module]) -> nn.Module:
    """Make the module of a spec, on torch's default device, and a `Native` one on the CPU.

    Args:
        path: the network's name.
        spec: what to make.
        leaves: gets the module, or those that it is made of in the end, by path (see `leaf_specs`).

    Raises:
        ConfigError: if a `Native` network is not what it should be.
    """
    match spec:
        case Tree() | Heads():
            parts = {name: make_module(f"{path}/{name}", part, leaves) for name, part in parts_of(spec).items()}
            return TreeModule(parts) if isinstance(spec, Tree) else HeadsModule(parts)
        case MLP():
            leaves[path] = MLPModule(spec)
        case CNN():
            leaves[path] = CNNModule(spec)
        case ResNet():
            leaves[path] = ResNetModule(spec)
        case LSTM() | GRU():
            leaves[path] = RecurrentModule(spec)
        case Normalizer():
            leaves[path] = NormalizerModule(spec)
        case Parameter():
            leaves[path] = ParameterModule(spec)
        case Native():
            leaves[path] = _native_module(path, spec)
    return leaves[path]


def _native_module(path: str, spec: Native) -> nn.Module:
    with torch.device("cpu"):  # so that a seed gives the same weights on every device
        module = spec.make()
    if not isinstance(module, nn.Module):
        raise ConfigError(f"network `{path}`: make() gave {type(module).__name__}, expected a torch.nn.Module.")
    for name, tensor in weights_of(module):
        if nn.parameter.is_lazy(tensor):
            raise ConfigError(f"network `{path}`: `{name}` has no shape yet: let make() run a lazy module once.")
        if tensor.dtype is not torch.float32:
            raise ConfigError(
                f"network `{path}`: `{name}` is {tensor.dtype}, expected torch.float32, in which all weights travel:"
                " cast the module, or register what is no weight with persistent=False."
            )
    return module.eval()


def weights_of(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Give the weights that travel, by native name: all parameters, and the floating buffers that the module saves."""
    yield from module.named_parameters()
    saved = module.state_dict()
    yield from ((name, b) for name, b in module.named_buffers() if name in saved and b.is_floating_point())
