"""Network specs as native torch modules, whose weights lie in one flat tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rheos.networks.specs import CNN, MLP, Activation, NetworkSpec, Normalizer, Parameter
from rheos.networks.weights import check_arrays, layer_names, trainable_shapes, weight_shapes

__all__ = [
    "CNNModule",
    "ConvolutionModule",
    "DenseModule",
    "MLPModule",
    "NormalizerModule",
    "ParameterModule",
    "Place",
    "TorchNetworks",
    "flatten",
]

Place = tuple[slice, tuple[int, ...]]
"""Where in a flat tensor a weight lies, and its shape."""

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

    def __init__(self, size: int, stride: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(size, size, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self._stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Map `[N, in, height, width]` to `[N, out, ...]`, without padding."""
        return nn.functional.conv2d(x, self.kernel.permute(3, 2, 0, 1), self.bias, self._stride)


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
        x = x.permute(0, 2, 3, 1).reshape(len(x), -1)  # flattened in the canonical order: height, width, channels
        y: Tensor = self._activate(dense(x))
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


class TorchNetworks(Mapping[str, nn.Module]):
    """Native modules by name, over one flat tensor of trainable weights and one of gradients.

    Every trainable weight of every module is a view of `flat`, every gradient one of `gradient`, in the order of
    the specs. So clipping, the optimizer's step and a copy of all weights are a handful of operations on
    one tensor, however many layers there are. The gradient is accumulated in place: zero it, and never
    set it to None. What no gradient changes, such as a normalizer's mean, lies apart.

    Raises:
        ShapeError: if a weight is missing, unknown or misshapen.
    """

    def __init__(
        self, specs: Mapping[str, NetworkSpec], weights: Mapping[str, npt.NDArray[np.float32]], device: str
    ) -> None:
        with torch.device(device):
            self._modules = {name: _module(spec) for name, spec in specs.items()}
        self._all_shapes = weight_shapes(specs)
        self.shapes = trainable_shapes(specs)
        """The shape of each trainable weight by canonical name, in the order in which they lie in `flat`."""
        self.flat = torch.zeros(sum(math.prod(shape) for shape in self.shapes.values()), device=device)
        self.gradient = torch.zeros_like(self.flat)
        parameters = {
            f"{network}/{name.replace('.', '/')}": parameter
            for network, module in self._modules.items()
            for name, parameter in module.named_parameters()
        }
        self.parameters = tuple(parameters[name] for name in self.shapes)
        """The native parameters, in the same order."""
        for parameter, value, gradient in zip(
            self.parameters, self._views(self.flat), self._views(self.gradient), strict=True
        ):
            parameter.data, parameter.grad = value, gradient
        buffers = {
            f"{network}/{name}": buffer
            for network, module in self._modules.items()
            for name, buffer in module.named_buffers()
        }
        self._by_name = {
            name: parameters[name].data if name in parameters else buffers[name] for name in self._all_shapes
        }
        self.load(weights, strict=True)

    def load(self, weights: Mapping[str, npt.NDArray[np.float32]], *, strict: bool) -> None:
        """Overwrite all weights, or only those that are given."""
        shapes = self._all_shapes
        if not strict:
            shapes = {name: shape for name, shape in shapes.items() if name in weights}
        check_arrays(weights, shapes)
        if strict:  # in one copy to the device
            self.flat.copy_(flatten(weights, self.shapes))
            shapes = {name: shape for name, shape in shapes.items() if name not in self.shapes}
        for name in shapes:
            self._by_name[name].copy_(torch.tensor(weights[name]))

    def weights(self) -> dict[str, npt.NDArray[np.float32]]:
        """Copy all weights to NumPy arrays by canonical name."""
        trained = self.by_name(self.flat)
        return {
            name: trained[name] if name in trained else tensor.to("cpu", copy=True).numpy()
            for name, tensor in self._by_name.items()
        }

    def by_name(self, flat: Tensor) -> dict[str, npt.NDArray[np.float32]]:
        """Copy a tensor that is laid out as `flat` to NumPy arrays by canonical name."""
        copied = flat.detach().to("cpu", copy=True)
        return {name: view.numpy() for name, view in zip(self.shapes, self._views(copied), strict=True)}

    def places(self, network: str) -> dict[str, Place]:
        """Return where in `flat` the trainable weights of a network lie, by the names of its native parameters."""
        ends = accumulate(math.prod(shape) for shape in self.shapes.values())
        return {
            name.removeprefix(f"{network}/").replace("/", "."): (slice(end - math.prod(shape), end), shape)
            for (name, shape), end in zip(self.shapes.items(), ends, strict=True)
            if name.startswith(f"{network}/")
        }

    def __getitem__(self, name: str) -> nn.Module:
        return self._modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def _views(self, flat: Tensor) -> list[Tensor]:
        parts = torch.split(flat, [math.prod(shape) for shape in self.shapes.values()])
        return [part.view(shape) for part, shape in zip(parts, self.shapes.values(), strict=True)]


def flatten(arrays: Mapping[str, npt.NDArray[np.generic]], names: Iterable[str]) -> Tensor:
    """Lay arrays one after the other, in the order of `names`, as float32."""
    return torch.from_numpy(np.concatenate([np.ravel(arrays[name]) for name in names], dtype=np.float32))


def _module(spec: NetworkSpec) -> nn.Module:
    match spec:
        case MLP():
            return MLPModule(spec)
        case CNN():
            return CNNModule(spec)
        case Normalizer():
            return NormalizerModule(spec)
        case Parameter():
            return ParameterModule(spec)
