"""NumpyNetworks: the forward pass of small networks in NumPy, for actors that import no framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.arrays.numpy_namespace import numpy_xp
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
from rheos.networks.weights import check_arrays, layer_names, leaf_specs, parts_of, weight_shapes

__all__ = ["MAX_NUMPY_WEIGHTS", "NumpyNetworks", "acts_in_numpy"]

_Floats = npt.NDArray[np.float32]
_Network = Callable[..., Any]
_Encoder = Callable[[_Floats], _Floats]
_Layer = tuple[_Floats, _Floats]
"""Kernel and bias."""

MAX_NUMPY_WEIGHTS = 1_000_000
"""Up to here NumPy was the faster one wherever it was measured: see docs/decisions/acting-in-numpy.md."""


def acts_in_numpy(specs: Mapping[str, NetworkSpec]) -> bool:
    """Return whether NumPy runs these networks, and runs them faster than a framework would.

    True where no network, and no part of one, sees images (`CNN`, `ResNet`) or is a framework's own (`Native`), and all
    together have at most `MAX_NUMPY_WEIGHTS` weights. What is saved is the framework's cost per operation, so the gain
    is largest for the smallest; beyond the bound only the matrix product counts, and that is the framework's to place
    (threads, accelerator).

    Example:
        >>> from rheos.networks.specs import MLP
        >>> acts_in_numpy({"policy": MLP(4, 2), "value": MLP(4, 1)})
        True
        >>> acts_in_numpy({"policy": MLP(4, 2, hidden=(2048, 2048))})
        False
    """
    if any(isinstance(leaf, CNN | ResNet | Native) for leaf in leaf_specs(specs).values()):
        return False
    return sum(math.prod(shape) for shape in weight_shapes(specs).values()) <= MAX_NUMPY_WEIGHTS


class NumpyNetworks(Mapping[str, _Network]):
    """Networks by name, each callable as its spec says, on float32, without gradients.

    Networks that see images are here as what frameworks are held against; a framework runs them faster.

    Raises:
        ConfigError: if a network, or a part of one, is `Native`.
        ShapeError: if a weight is missing, unknown or misshapen.

    Example:
        >>> from rheos.networks.initial import initial_weights
        >>> from rheos.networks.specs import MLP
        >>> specs = {"value": MLP(4, 1, hidden=(64,))}
        >>> networks = NumpyNetworks(specs, initial_weights(specs, np.random.default_rng(0)))
        >>> networks["value"](np.zeros((8, 4), np.float32)).shape
        (8, 1)
    """

    def __init__(self, specs: Mapping[str, NetworkSpec], weights: Mapping[str, npt.NDArray[np.float32]]) -> None:
        for path, leaf in leaf_specs(specs).items():
            if isinstance(leaf, Native):
                raise ConfigError(f"network `{path}`: a Native network runs on its own framework only, not in NumPy.")
        self._specs = dict(specs)
        self._shapes = weight_shapes(specs)
        self.load(weights)

    def load(self, weights: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Take a copy of all weights, by canonical name.

        Raises:
            ShapeError: if a weight is missing, unknown or misshapen; then nothing has changed.
        """
        check_arrays(weights, self._shapes)
        copies = {name: np.array(weights[name], np.float32, order="C") for name in self._shapes}
        self._networks = {name: _network(name, spec, copies) for name, spec in self._specs.items()}

    def __getitem__(self, name: str) -> _Network:
        return self._networks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._networks)

    def __len__(self) -> int:
        return len(self._networks)


def _network(name: str, spec: NetworkSpec, weights: Mapping[str, _Floats]) -> _Network:
    assert not isinstance(spec, Native)
    match spec:
        case Parameter():
            value = weights[f"{name}/value"]
            value.flags.writeable = False  # every call returns this one array
            return lambda _: value
        case Normalizer():
            return _normalizer(weights[f"{name}/mean"], weights[f"{name}/std"], spec.limit)
        case MLP():
            return _mlp(spec, _layers(name, spec, weights))
        case CNN():
            return _cnn(spec, _layers(name, spec, weights))
        case ResNet():
            return _resnet(spec, _layers(name, spec, weights))
        case LSTM() | GRU():
            run = lstm if isinstance(spec, LSTM) else gru
            own = {weight.removeprefix(f"{name}/"): weights[weight] for weight in weight_shapes({name: spec})}
            return lambda x, state, is_first: run(numpy_xp, own, x, state, is_first)
        case Tree() | Heads():
            parts = {part: _network(f"{name}/{part}", inner, weights) for part, inner in parts_of(spec).items()}
            return _tree(parts) if isinstance(spec, Tree) else _heads(parts)


def _layers(name: str, spec: MLP | CNN | ResNet, weights: Mapping[str, _Floats]) -> list[_Layer]:
    return [(weights[f"{name}/{layer}/kernel"], weights[f"{name}/{layer}/bias"]) for layer in layer_names(spec)]


def _tree(parts: Mapping[str, _Network]) -> _Network:
    return lambda inputs: np.concatenate([part(inputs[name]) for name, part in parts.items()], axis=-1)


def _heads(parts: Mapping[str, _Network]) -> _Network:
    trunk, heads = parts["trunk"], {name: part for name, part in parts.items() if name != "trunk"}

    def forward(inputs: Any) -> dict[str, Any]:
        x = trunk(inputs)
        return {name: head(x) for name, head in heads.items()}

    return forward


def _normalizer(mean: _Floats, std: _Floats, limit: float) -> _Encoder:
    inverse = 1.0 / std

    def forward(x: _Floats) -> _Floats:
        y: _Floats = x - mean
        y *= inverse
        return np.clip(y, -limit, limit, out=y)

    return forward


def _mlp(spec: MLP, layers: list[_Layer]) -> _Encoder:
    activate = _ACTIVATIONS[spec.activation]
    hidden, output = (layers, None) if spec.activates_output else (layers[:-1], layers[-1])

    def forward(x: _Floats) -> _Floats:
        if x.ndim > 2:  # np.dot uses BLAS for two axes only
            return forward(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1)
        # Each layer works in place on the fresh array of its product; np.dot costs less per call than `@`.
        for kernel, bias in hidden:
            x = np.dot(x, kernel)
            x += bias
            activate(x, x)
        if output is not None:
            x = np.dot(x, output[0])
            x += output[1]
        return x

    return forward


def _cnn(spec: CNN, layers: list[_Layer]) -> _Encoder:
    activate = _ACTIVATIONS[spec.activation]
    *convolutions, dense = layers

    def features(x: _Floats) -> _Floats:
        for layer, (_, _, stride) in zip(convolutions, spec.filters, strict=True):
            x = _convolve(x, layer, stride)
            activate(x, x)
        return x

    return _image_encoder(features, dense, activate)


def _resnet(spec: ResNet, layers: list[_Layer]) -> _Encoder:
    *convolutions, dense = layers

    def features(x: _Floats) -> _Floats:
        layer = iter(convolutions)
        for _ in spec.channels:
            x = _convolve(_padded(x, 0.0), next(layer), stride=1)
            x = _seen(_padded(x, -np.inf), size=3, stride=2).max(axis=(-2, -1))
            for _ in range(spec.num_blocks):
                y = x
                for _ in range(2):
                    y = _convolve(_padded(np.maximum(y, 0.0), 0.0), next(layer), stride=1)
                x = x + y
        return np.maximum(x, 0.0)

    return _image_encoder(features, dense, _relu)


def _image_encoder(features: _Encoder, dense: _Layer, activate: Callable[[_Floats, _Floats], _Floats]) -> _Encoder:
    """Put the dense layer behind what is made of images, whatever axes lead them."""
    kernel, bias = dense

    def forward(x: _Floats) -> _Floats:
        if x.ndim > 4:
            return forward(x.reshape(-1, *x.shape[-3:])).reshape(*x.shape[:-3], -1)
        flat: _Floats = np.dot(features(x).reshape(*x.shape[:-3], -1), kernel)
        flat += bias
        return activate(flat, flat)

    return forward


def _convolve(x: _Floats, layer: _Layer, stride: int) -> _Floats:
    kernel, bias = layer
    y: _Floats = np.einsum("...hwcij,ijco->...hwo", _seen(x, kernel.shape[0], stride), kernel, optimize=True)
    y += bias
    return y


def _seen(x: _Floats, size: int, stride: int) -> _Floats:
    """Return what each position of a square filter sees, `[..., rows, columns, channels, size, size]`."""
    views = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(-3, -2))
    return views[..., ::stride, ::stride, :, :, :]


def _padded(x: _Floats, value: float) -> _Floats:
    """Add a pixel at each side."""
    around = [(0, 0)] * (x.ndim - 3) + [(1, 1), (1, 1), (0, 0)]
    return np.pad(x, around, constant_values=value)


def _relu(x: _Floats, out: _Floats) -> _Floats:
    return np.maximum(x, 0.0, out=out)


_ACTIVATIONS: dict[Activation, Callable[[_Floats, _Floats], _Floats]] = {
    Activation.TANH: np.tanh,
    Activation.RELU: _relu,
}
