"""Initial weights, made in NumPy, so that a seed gives the same ones on every backend."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt

from rheos.networks.specs import CNN, GRU, LSTM, MLP, NetworkSpec, Parameter, ResNet
from rheos.networks.weights import Leaf, leaf_specs, weight_shapes

__all__ = ["initial_weights", "orthogonal"]


def initial_weights(
    specs: Mapping[str, NetworkSpec], generator: np.random.Generator
) -> dict[str, npt.NDArray[np.float32]]:
    """Draw the weights that networks start from: orthogonal kernels, zero biases, given parameters, idle normalizers.

    A convolution's kernel is orthogonal as the matrix from all that a filter sees to the channels. The bias of an
    LSTM's forget gate is 1. A `Native` network draws nothing here: it starts from what its framework gives it.

    Args:
        specs: networks by name; they draw in this order.
        generator: what the kernels are drawn from.

    Returns:
        float32 arrays by canonical name, as `weight_shapes` orders them.

    Example:
        >>> from rheos.networks.specs import MLP
        >>> weights = initial_weights({"value": MLP(4, 1, hidden=())}, np.random.default_rng(0))
        >>> {name: array.shape for name, array in weights.items()}
        {'value/output/kernel': (4, 1), 'value/output/bias': (1,)}
    """
    return {
        name: _initial(leaf, name.removeprefix(f"{path}/"), shape, generator)
        for path, leaf in leaf_specs(specs).items()
        for name, shape in weight_shapes({path: leaf}).items()
    }


def _initial(
    spec: Leaf, weight: str, shape: tuple[int, ...], generator: np.random.Generator
) -> npt.NDArray[np.float32]:
    if isinstance(spec, Parameter):
        return np.full(shape, spec.initial, np.float32)
    if isinstance(spec, MLP) and spec.output_initial is not None and weight.startswith("output/"):
        return np.full(shape, spec.output_initial, np.float32)
    if weight == "std":
        return np.ones(shape, np.float32)
    if weight == "mean" or weight.endswith("bias"):
        array = np.zeros(shape, np.float32)
        if isinstance(spec, LSTM):
            array[spec.units : 2 * spec.units] = 1.0  # of the forget gate
        return array
    return orthogonal((prod(shape[:-1]), shape[-1]), _scale(spec, weight), generator).reshape(shape)


def _scale(spec: Leaf, weight: str) -> float:
    if isinstance(spec, MLP):
        return spec.output_scale if weight == "output/kernel" else spec.hidden_scale
    if isinstance(spec, LSTM | GRU):
        return 1.0
    assert isinstance(spec, CNN | ResNet)
    return spec.scale


def orthogonal(shape: tuple[int, ...], scale: float, generator: np.random.Generator) -> npt.NDArray[np.float32]:
    """Draw a matrix uniformly from those with orthonormal rows or columns (whichever are fewer), times `scale`.

    The signs of the QR decomposition are fixed by a positive diagonal of R; without that, the draw would
    not be uniform and would depend on the LAPACK at hand.

    Source:
        Saxe et al. 2014, arXiv:1312.6120; for the signs, Mezzadri 2007, arXiv:math-ph/0609050.
    """
    rows, columns = shape
    normal = generator.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(normal)
    q *= np.where(np.diagonal(r) < 0.0, -1.0, 1.0)
    return np.ascontiguousarray((q if rows >= columns else q.T) * scale, dtype=np.float32)
