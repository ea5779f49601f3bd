"""TorchNetworks: native modules by name, whose weights lie in one flat tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rheos.errors import ConfigError
from rheos.networks.specs import Native, NetworkSpec
from rheos.networks.weights import check_arrays, leaf_specs
from rheos_torch.modules import make_module, weights_of

__all__ = ["Place", "TorchNetworks", "flatten"]

Place = tuple[slice, tuple[int, ...]]
"""Where in a flat tensor a weight lies, and its shape."""


class TorchNetworks(Mapping[str, nn.Module]):
    """Native modules by name, over one flat tensor of trainable weights and one of gradients.

    Every trainable weight of every module is a view of `flat`, every gradient one of `gradient`, in the order of
    the specs. So clipping, the optimizer's step and a copy of all weights are a handful of operations on
    one tensor, however many layers there are. The gradient is accumulated in place: zero it, and never
    set it to None. What no gradient changes lies apart: a normalizer's mean, the frozen parameters and the buffers
    of a user's own module.

    Args:
        specs: networks by name.
        weights: what they start from, by canonical name; those of a `Native` network may be missing, all of them.
        device: as torch spells it.
        seed: of what a `Native` network draws when it is made; torch's global generator is left as it was.

    Raises:
        ConfigError: if a `Native` network is not a module of float32 weights of its own.
        ShapeError: if a weight is missing, unknown or misshapen.
    """

    def __init__(
        self,
        specs: Mapping[str, NetworkSpec],
        weights: Mapping[str, npt.NDArray[np.float32]],
        device: str,
        *,
        seed: int = 0,
    ) -> None:
        leaves: dict[str, nn.Module] = {}
        with torch.random.fork_rng(devices=()), torch.device(device):
            torch.default_generator.manual_seed(seed)
            self._modules = {name: make_module(name, spec, leaves) for name, spec in specs.items()}
        natives = {path: leaves[path] for path, spec in leaf_specs(specs).items() if isinstance(spec, Native)}
        start = {**_own_weights(natives, weights), **weights}
        self._natives = tuple(native.to(device) for native in natives.values())

        parameters: dict[str, nn.Parameter] = {}
        self._fixed: dict[str, tuple[nn.Module, str]] = {}
        self._all_shapes: dict[str, tuple[int, ...]] = {}
        for path, leaf in leaves.items():
            for native_name, tensor in weights_of(leaf):
                name = _canonical(path, native_name)
                self._all_shapes[name] = tuple(tensor.shape)
                if isinstance(tensor, nn.Parameter) and tensor.requires_grad:
                    parameters[name] = tensor
                else:  # by place, since a module may put another tensor into a buffer's
                    owner, _, attribute = native_name.rpartition(".")
                    self._fixed[name] = leaf.get_submodule(owner), attribute
        self.shapes = {name: self._all_shapes[name] for name in parameters}
        """The shape of each trainable weight by canonical name, in the order in which they lie in `flat`."""
        self.flat = torch.zeros(sum(math.prod(shape) for shape in self.shapes.values()), device=device)
        self.gradient = torch.zeros_like(self.flat)
        self.parameters = tuple(parameters.values())
        """The native parameters, in the same order."""
        for name, value, gradient in zip(self.shapes, self._views(self.flat), self._views(self.gradient), strict=True):
            if parameters[name].grad is not None:
                raise ConfigError(
                    f"`{name}` is in use by other networks already: let make() make a new module each time."
                )
            parameters[name].data, parameters[name].grad = value, gradient
        self.load(start, strict=True)

    @property
    def fixed(self) -> dict[str, Tensor]:
        """What no gradient changes, by canonical name: the weights that do not lie in `flat`."""
        return {name: getattr(owner, attribute).detach() for name, (owner, attribute) in self._fixed.items()}

    @contextmanager
    def training(self) -> Iterator[None]:
        """Put the users' own modules into training mode for a while; else they are in evaluation mode."""
        try:
            for native in self._natives:
                native.train()
            yield
        finally:
            for native in self._natives:
                native.eval()

    def load(self, weights: Mapping[str, npt.NDArray[np.float32]], *, strict: bool) -> None:
        """Overwrite all weights, or only those that are given."""
        shapes = self._all_shapes
        if not strict:
            shapes = {name: shape for name, shape in shapes.items() if name in weights}
        check_arrays(weights, shapes)
        if strict:  # in one copy to the device
            self.flat.copy_(flatten(weights, self.shapes))
            targets = self.fixed
        else:
            targets = {**dict(zip(self.shapes, self._views(self.flat), strict=True)), **self.fixed}
        for name in targets.keys() & weights.keys():
            targets[name].copy_(torch.tensor(weights[name]))

    def weights(self) -> dict[str, npt.NDArray[np.float32]]:
        """Copy all weights to NumPy arrays by canonical name."""
        copies = self.by_name(self.flat)
        copies |= {name: tensor.to("cpu", copy=True).numpy() for name, tensor in self.fixed.items()}
        return {name: copies[name] for name in self._all_shapes}

    def by_name(self, flat: Tensor) -> dict[str, npt.NDArray[np.float32]]:
        """Copy a tensor that is laid out as `flat` to NumPy arrays by canonical name."""
        copied = flat.detach().to("cpu", copy=True)
        return {name: view.numpy() for name, view in zip(self.shapes, self._views(copied), strict=True)}

    def places(self, network: str) -> dict[str, Place]:
        """Return where in `flat` the trainable weights of a network lie, by the names of its native parameters."""
        ends = accumulate(math.prod(shape) for shape in self.shapes.values())
        places = {
            id(parameter): (slice(end - math.prod(shape), end), shape)
            for parameter, shape, end in zip(self.parameters, self.shapes.values(), ends, strict=True)
        }
        named = self._modules[network].named_parameters()
        return {name: places[id(parameter)] for name, parameter in named if id(parameter) in places}

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
    nothing = np.empty(0, np.float32)  # where there are no names
    return torch.from_numpy(np.concatenate([nothing, *(np.ravel(arrays[name]) for name in names)], dtype=np.float32))


def _own_weights(
    natives: Mapping[str, nn.Module], given: Mapping[str, npt.NDArray[np.float32]]
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the weights of those modules of which none is given."""
    start: dict[str, npt.NDArray[np.float32]] = {}
    for path, native in natives.items():
        own = {_canonical(path, name): tensor.numpy(force=True) for name, tensor in weights_of(native)}
        if own.keys().isdisjoint(given):
            start |= own
    return start


def _canonical(path: str, native_name: str) -> str:
    return f"{path}/{native_name.replace('.', '/')}"
