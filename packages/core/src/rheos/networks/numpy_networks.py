"""NumpyNetworks: the forward pass of small networks in NumPy, for actors that import no framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from rheos.networks.specs import CNN, MLP, Activation, NetworkSpec, Normalizer, Parameter
from rheos.networks.weights import check_arrays, layer_names, weight_shapes

__all__ = ["MAX_NUMPY_WEIGHTS", "NumpyNetworks", "acts_in_numpy"]

_Floats = npt.NDArray[np.float32]
_Network = Callable[[_Floats], _Floats]
_Layer = tuple[_Floats, _Floats]
"""Kernel and bias."""

MAX_NUMPY_WEIGHTS = 1_000_000
"""Up to here NumPy was the faster one wherever it was measured: see docs/decisions/acting-in-numpy.md."""


def acts_in_numpy(specs: Mapping[str, NetworkSpec]) -> bool:
    """Return whether NumPy runs these networks, and runs them faster than a framework would.

    True where no network is a CNN, and all together have at most `MAX_NUMPY_WEIGHTS` weights. What is saved is the
    framework's cost per operation, so the gain is largest for the smallest; beyond the bound only the
    matrix product counts, and that is the framework's to place (threads, accelerator).

    Example:
        >>> from rheos.networks.specs import MLP
        >>> acts_in_numpy({"policy": MLP(4, 2), "value": MLP(4, 1)})
        True
        >>> acts_in_numpy({"policy": MLP(4, 2, hidden=(2048, 2048))})
        False
    """
    if any(isinstance(spec, CNN) for spec in specs.values()):
        return False
    return sum(math.prod(shape) for shape in weight_shapes(specs).values()) <= MAX_NUMPY_WEIGHTS


class NumpyNetworks(Mapping[str, _Network]):
    """Networks by name, each callable on `[..., inputs]` float32, without gradients.

    CNNs are here as what frameworks are held against; a framework runs them faster.

    Raises:
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


def _layers(name: str, spec: MLP | CNN, weights: Mapping[str, _Floats]) -> list[_Layer]:
    return [(weights[f"{name}/{layer}/kernel"], weights[f"{name}/{layer}/bias"]) for layer in layer_names(spec)]


def _normalizer(mean: _Floats, std: _Floats, limit: float) -> _Network:
    inverse = 1.0 / std

    def forward(x: _Floats) -> _Floats:
        y: _Floats = x - mean
        y *= inverse
        return np.clip(y, -limit, limit, out=y)

    return forward


def _mlp(spec: MLP, layers: list[_Layer]) -> _Network:
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


def _cnn(spec: CNN, layers: list[_Layer]) -> _Network:
    activate = _ACTIVATIONS[spec.activation]
    *convolutions, (dense, dense_bias) = layers

    def forward(x: _Floats) -> _Floats:
        if x.ndim > 4:
            return forward(x.reshape(-1, *x.shape[-3:])).reshape(*x.shape[:-3], -1)
        for (kernel, bias), (_, size, stride) in zip(convolutions, spec.filters, strict=True):
            seen = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(-3, -2))
            x = np.einsum("...hwcij,ijco->...hwo", seen[..., ::stride, ::stride, :, :, :], kernel, optimize=True)
            x += bias
            activate(x, x)
        flat: _Floats = np.dot(x.reshape(*x.shape[:-3], -1), dense)
        flat += dense_bias
        return activate(flat, flat)

    return forward


def _relu(x: _Floats, out: _Floats) -> _Floats:
    return np.maximum(x, 0.0, out=out)


_ACTIVATIONS: dict[Activation, Callable[[_Floats, _Floats], _Floats]] = {
    Activation.TANH: np.tanh,
    Activation.RELU: _relu,
}
