"""NumpyNetworks: the forward pass of small networks in NumPy, for actors that import no framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from rheos.networks.specs import Activation, NetworkSpec, Parameter
from rheos.networks.weights import check_arrays, layer_names, weight_shapes

__all__ = ["MAX_NUMPY_WEIGHTS", "NumpyNetworks", "acts_in_numpy"]

_Floats = npt.NDArray[np.float32]
_Network = Callable[[_Floats], _Floats]

MAX_NUMPY_WEIGHTS = 1_000_000
"""Up to here NumPy was the faster one wherever it was measured: see docs/decisions/acting-in-numpy.md."""


def acts_in_numpy(specs: Mapping[str, NetworkSpec]) -> bool:
    """Return whether NumPy runs these networks, and runs them faster than a framework would.

    True for MLPs and parameters of together at most `MAX_NUMPY_WEIGHTS` weights. What is saved is the
    framework's cost per operation, so the gain is largest for the smallest; beyond the bound only the
    matrix product counts, and that is the framework's to place (threads, accelerator).

    Example:
        >>> from rheos.networks.specs import MLP
        >>> acts_in_numpy({"policy": MLP(4, 2), "value": MLP(4, 1)})
        True
        >>> acts_in_numpy({"policy": MLP(4, 2, hidden=(2048, 2048))})
        False
    """
    return sum(math.prod(shape) for shape in weight_shapes(specs).values()) <= MAX_NUMPY_WEIGHTS


class NumpyNetworks(Mapping[str, _Network]):
    """Networks by name, each callable on `[..., inputs]` float32, without gradients.

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
    if isinstance(spec, Parameter):
        value = weights[f"{name}/value"]
        value.flags.writeable = False  # every call returns this one array
        return lambda _: value
    *hidden, output = [
        (weights[f"{name}/{layer}/kernel"], weights[f"{name}/{layer}/bias"]) for layer in layer_names(spec)
    ]
    activate = _ACTIVATIONS[spec.activation]

    def forward(x: _Floats) -> _Floats:
        if x.ndim > 2:  # np.dot uses BLAS for two axes only
            return forward(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1)
        # Each layer works in place on the fresh array of its product; np.dot costs less per call than `@`.
        for kernel, bias in hidden:
            x = np.dot(x, kernel)
            x += bias
            activate(x, x)
        y: _Floats = np.dot(x, output[0])
        y += output[1]
        return y

    return forward


def _relu(x: _Floats, out: _Floats) -> _Floats:
    return np.maximum(x, 0.0, out=out)


_ACTIVATIONS: dict[Activation, Callable[[_Floats, _Floats], _Floats]] = {
    Activation.TANH: np.tanh,
    Activation.RELU: _relu,
}
