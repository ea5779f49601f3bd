"""The weights of networks by canonical name: which there are, in which shape."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from rheos.errors import ShapeError
from rheos.networks.specs import CNN, MLP, NetworkSpec, Normalizer, Parameter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["check_arrays", "layer_names", "trainable_shapes", "weight_shapes"]


def layer_names(spec: MLP | CNN) -> tuple[str, ...]:
    """Return the names of a network's layers, from inputs to outputs.

    Example:
        >>> layer_names(MLP(4, 2, hidden=(64, 64))), layer_names(CNN((84, 84, 4)))
        (('hidden_0', 'hidden_1', 'output'), ('conv_0', 'conv_1', 'conv_2', 'output'))
    """
    if isinstance(spec, CNN):
        return (*(f"conv_{index}" for index in range(len(spec.filters))), "output")
    return (*(f"hidden_{index}" for index in range(len(spec.hidden))), "output")


def weight_shapes(specs: Mapping[str, NetworkSpec]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight, by canonical name `<network>/<weight>`, in the order of the specs.

    Raises:
        ShapeError: if a convolution does not fit what it gets.

    Example:
        >>> weight_shapes({"value": MLP(4, 1, hidden=()), "log_std": Parameter((2,))})
        {'value/output/kernel': (4, 1), 'value/output/bias': (1,), 'log_std/value': (2,)}
    """
    return {
        f"{network}/{weight}": shape for network, spec in specs.items() for weight, shape in _shapes_of(spec).items()
    }


def trainable_shapes(specs: Mapping[str, NetworkSpec]) -> dict[str, tuple[int, ...]]:
    """Return what `weight_shapes` does, without the weights that no gradient changes: those of a `Normalizer`.

    Example:
        >>> trainable_shapes({"normalizer": Normalizer(3), "log_std": Parameter((2,))})
        {'log_std/value': (2,)}
    """
    return weight_shapes({name: spec for name, spec in specs.items() if not isinstance(spec, Normalizer)})


def _shapes_of(spec: NetworkSpec) -> dict[str, tuple[int, ...]]:
    match spec:
        case Parameter():
            return {"value": spec.shape}
        case Normalizer():
            return {"mean": (spec.size,), "std": (spec.size,)}
        case MLP():
            sizes = (spec.inputs, *spec.hidden, spec.outputs)
            kernels: list[tuple[int, ...]] = list(pairwise(sizes))
        case CNN():
            kernels = _kernels_of(spec)
    return {
        f"{layer}/{weight}": shape
        for layer, kernel in zip(layer_names(spec), kernels, strict=True)
        for weight, shape in (("kernel", kernel), ("bias", kernel[-1:]))
    }


def _kernels_of(spec: CNN) -> list[tuple[int, ...]]:
    height, width, channels = spec.shape
    kernels: list[tuple[int, ...]] = []
    for index, (filters, size, stride) in enumerate(spec.filters):
        if min(height, width) < size:
            raise ShapeError(
                f"`conv_{index}` gets {height} x {width} pixels, its kernel has {size} x {size}: "
                f"an image of {spec.shape[0]} x {spec.shape[1]} needs smaller filters than {spec.filters}."
            )
        kernels.append((size, size, channels, filters))
        height, width, channels = (height - size) // stride + 1, (width - size) // stride + 1, filters
    return [*kernels, (height * width * channels, spec.outputs)]


def check_arrays(arrays: Mapping[str, npt.NDArray[np.generic]], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Require exactly the named arrays, in the given shapes.

    Raises:
        ShapeError: naming the first array that is missing, unknown or misshapen.

    Example:
        >>> check_arrays({}, {"value/bias": (1,)})
        Traceback (most recent call last):
        rheos.errors.ShapeError: `value/bias` is missing, expected shape (1,): these are weights of other networks.
    """
    because = "these are weights of other networks."
    for name, shape in shapes.items():
        if name not in arrays:
            raise ShapeError(f"`{name}` is missing, expected shape {shape}: {because}")
        if arrays[name].shape != shape:
            raise ShapeError(f"`{name}` has shape {arrays[name].shape}, expected {shape}: {because}")
    for name in arrays:
        if name not in shapes:
            raise ShapeError(f"`{name}` is unknown, expected {', '.join(shapes)}: {because}")
