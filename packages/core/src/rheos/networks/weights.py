"""The weights of networks by canonical name: which there are, in which shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rheos.errors import ShapeError
from rheos.networks.specs import MLP, NetworkSpec, Parameter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["check_arrays", "layer_names", "weight_shapes"]


def layer_names(spec: MLP) -> tuple[str, ...]:
    """Return the names of an MLP's layers, from inputs to outputs.

    Example:
        >>> layer_names(MLP(4, 2, hidden=(64, 64)))
        ('hidden_0', 'hidden_1', 'output')
    """
    return (*(f"hidden_{index}" for index in range(len(spec.hidden))), "output")


def weight_shapes(specs: Mapping[str, NetworkSpec]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight, by canonical name `<network>/<weight>`, in the order of the specs.

    Example:
        >>> weight_shapes({"value": MLP(4, 1, hidden=()), "log_std": Parameter((2,))})
        {'value/output/kernel': (4, 1), 'value/output/bias': (1,), 'log_std/value': (2,)}
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for network, spec in specs.items():
        if isinstance(spec, Parameter):
            shapes[f"{network}/value"] = spec.shape
            continue
        sizes = (spec.inputs, *spec.hidden, spec.outputs)
        for layer, inputs, outputs in zip(layer_names(spec), sizes[:-1], sizes[1:], strict=True):
            shapes[f"{network}/{layer}/kernel"] = (inputs, outputs)
            shapes[f"{network}/{layer}/bias"] = (outputs,)
    return shapes


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
