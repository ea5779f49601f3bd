"""The weights of networks by canonical name: which there are, in which shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from rheos.errors import ConfigError, ShapeError
from rheos.networks.specs import CNN, GRU, LSTM, MLP, Heads, Native, NetworkSpec, Normalizer, Parameter, ResNet, Tree

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Leaf", "check_arrays", "layer_names", "leaf_specs", "parts_of", "trainable_shapes", "weight_shapes"]

Leaf = MLP | CNN | ResNet | LSTM | GRU | Parameter | Normalizer | Native
"""A network that is not made of others."""


def parts_of(spec: Tree | Heads) -> dict[str, NetworkSpec]:
    """Return the networks that a network is made of, in the order of their weights.

    Raises:
        ConfigError: if a head is called `trunk`.

    Example:
        >>> list(parts_of(Heads(MLP(4, 64), {"policy": MLP(64, 2), "value": MLP(64, 1)})))
        ['trunk', 'policy', 'value']
    """
    if isinstance(spec, Tree):
        return dict(spec.parts)
    if "trunk" in spec.heads:
        raise ConfigError("Heads: a head is called `trunk`, as the trunk is: give the head another name.")
    return {"trunk": spec.trunk, **spec.heads}


def leaf_specs(specs: Mapping[str, NetworkSpec]) -> dict[str, Leaf]:
    """Return what the networks are made of in the end, by the path that their weights' names begin with.

    Raises:
        ConfigError: if an LSTM or a GRU is a part of another network, a head is called `trunk`, or a `/` in a name
            makes weights of two networks alike.

    Example:
        >>> list(leaf_specs({"eye": CNN((84, 84, 4)), "net": Heads(MLP(4, 64), {"value": MLP(64, 1)})}))
        ['eye', 'net/trunk', 'net/value']
    """
    leaves = [leaf for name, spec in specs.items() for leaf in _leaves(name, spec)]
    paths = [path for path, _ in leaves]
    for path in paths:
        if paths.count(path) > 1 or any(path.startswith(f"{other}/") for other in paths):
            raise ConfigError(
                f"network `{path}`: weights of another one are named so, too: give it a name without `/`."
            )
    return dict(leaves)


def _leaves(path: str, spec: NetworkSpec) -> Iterator[tuple[str, Leaf]]:
    if not isinstance(spec, Tree | Heads):
        yield path, spec
        return
    for name, part in parts_of(spec).items():
        if isinstance(part, LSTM | GRU):
            raise ConfigError(
                f"network `{path}/{name}`: {type(part).__name__} needs a state beside its input, which"
                f" {type(spec).__name__} does not pass on: let it be a network of its own, beside `{path}`."
            )
        yield from _leaves(f"{path}/{name}", part)


def layer_names(spec: MLP | CNN | ResNet) -> tuple[str, ...]:
    """Return the names of a network's layers, from inputs to outputs.

    Example:
        >>> layer_names(MLP(4, 2, hidden=(64, 64))), layer_names(CNN((84, 84, 4)))
        (('hidden_0', 'hidden_1', 'output'), ('conv_0', 'conv_1', 'conv_2', 'output'))
        >>> layer_names(ResNet((84, 84, 4), channels=(16,), num_blocks=1))
        ('section_0/conv', 'section_0/block_0/conv_0', 'section_0/block_0/conv_1', 'output')
    """
    match spec:
        case MLP():
            hidden = [f"hidden_{index}" for index in range(len(spec.hidden))]
        case CNN():
            hidden = [f"conv_{index}" for index in range(len(spec.filters))]
        case ResNet():
            in_section = ["conv", *(f"block_{block}/conv_{i}" for block in range(spec.num_blocks) for i in (0, 1))]
            hidden = [f"section_{index}/{conv}" for index in range(len(spec.channels)) for conv in in_section]
    return (*hidden, "output")


def weight_shapes(specs: Mapping[str, NetworkSpec]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight, by canonical name `<network>/<weight>`, in the order of the specs.

    Those of a `Native` network are not among them: only its framework knows them.

    Raises:
        ConfigError: if the networks do not go together: see `leaf_specs`.
        ShapeError: if a convolution does not fit what it gets.

    Example:
        >>> weight_shapes({"value": MLP(4, 1, hidden=()), "log_std": Parameter((2,))})
        {'value/output/kernel': (4, 1), 'value/output/bias': (1,), 'log_std/value': (2,)}
    """
    return _shapes(leaf_specs(specs))


def trainable_shapes(specs: Mapping[str, NetworkSpec]) -> dict[str, tuple[int, ...]]:
    """Return what `weight_shapes` does, without the weights that no gradient changes: those of a `Normalizer`.

    Example:
        >>> trainable_shapes({"normalizer": Normalizer(3), "log_std": Parameter((2,))})
        {'log_std/value': (2,)}
    """
    return _shapes({path: leaf for path, leaf in leaf_specs(specs).items() if not isinstance(leaf, Normalizer)})


def _shapes(leaves: Mapping[str, Leaf]) -> dict[str, tuple[int, ...]]:
    return {f"{path}/{weight}": shape for path, leaf in leaves.items() for weight, shape in _shapes_of(leaf).items()}


def _shapes_of(spec: Leaf) -> dict[str, tuple[int, ...]]:
    match spec:
        case Native():
            return {}
        case Parameter():
            return {"value": spec.shape}
        case Normalizer():
            return {"mean": (spec.size,), "std": (spec.size,)}
        case LSTM():
            gates = 4 * spec.units
            return {"kernel": (spec.inputs, gates), "recurrent_kernel": (spec.units, gates), "bias": (gates,)}
        case GRU():
            gates = 3 * spec.units
            kernels = {"kernel": (spec.inputs, gates), "recurrent_kernel": (spec.units, gates)}
            return {**kernels, "bias": (gates,), "recurrent_bias": (spec.units,)}
        case MLP():
            sizes = (spec.inputs, *spec.hidden, spec.outputs)
            layers: list[tuple[int, ...]] = list(pairwise(sizes))
        case CNN():
            layers = _kernels_of_cnn(spec)
        case ResNet():
            layers = _kernels_of_resnet(spec)
    return {
        f"{layer}/{weight}": shape
        for layer, kernel in zip(layer_names(spec), layers, strict=True)
        for weight, shape in (("kernel", kernel), ("bias", kernel[-1:]))
    }


def _kernels_of_cnn(spec: CNN) -> list[tuple[int, ...]]:
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


def _kernels_of_resnet(spec: ResNet) -> list[tuple[int, ...]]:
    height, width, inputs = spec.shape
    kernels: list[tuple[int, ...]] = []
    for channels in spec.channels:
        kernels += [(3, 3, inputs, channels), *[(3, 3, channels, channels)] * (2 * spec.num_blocks)]
        height, width, inputs = (height + 1) // 2, (width + 1) // 2, channels
    return [*kernels, (height * width * inputs, spec.outputs)]


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
