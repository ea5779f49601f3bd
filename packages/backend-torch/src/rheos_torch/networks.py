"""Network specs as native torch modules, whose weights lie in one flat tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rheos.networks.specs import MLP, Activation, NetworkSpec, Parameter
from rheos.networks.weights import check_arrays, layer_names, weight_shapes

__all__ = ["DenseModule", "MLPModule", "ParameterModule", "TorchNetworks", "flatten"]

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
        *self._hidden, self._output = layers
        self._activate = _ACTIVATIONS[spec.activation]

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., inputs]` to `[..., outputs]`."""
        for layer in self._hidden:
            x = self._activate(layer(x))
        y: Tensor = self._output(x)
        return y


class ParameterModule(nn.Module):
    """A learned array that depends on no input."""

    def __init__(self, spec: Parameter) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(spec.shape))

    def forward(self, _inputs: Tensor) -> Tensor:
        """Return the array."""
        return self.value


class TorchNetworks(Mapping[str, nn.Module]):
    """Native modules by name, over one flat tensor of weights and one of gradients.

    Every weight of every module is a view of `flat`, every gradient one of `gradient`, in the order of
    the specs. So clipping, the optimizer's step and a copy of all weights are a handful of operations on
    one tensor, however many layers there are. The gradient is accumulated in place: zero it, and never
    set it to None.

    Raises:
        ShapeError: if a weight is missing, unknown or misshapen.
    """

    def __init__(
        self, specs: Mapping[str, NetworkSpec], weights: Mapping[str, npt.NDArray[np.float32]], device: str
    ) -> None:
        with torch.device(device):
            self._modules = {name: _module(spec) for name, spec in specs.items()}
        self.shapes = weight_shapes(specs)
        """The shape of each weight by canonical name, in the order in which they lie in `flat`."""
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
        self.load(weights)

    def load(self, weights: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Overwrite all weights."""
        check_arrays(weights, self.shapes)
        self.flat.copy_(flatten(weights, self.shapes))

    def by_name(self, flat: Tensor) -> dict[str, npt.NDArray[np.float32]]:
        """Copy a tensor that is laid out as `flat` to NumPy arrays by canonical name."""
        copied = flat.detach().to("cpu", copy=True)
        return {name: view.numpy() for name, view in zip(self.shapes, self._views(copied), strict=True)}

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
    return ParameterModule(spec) if isinstance(spec, Parameter) else MLPModule(spec)
