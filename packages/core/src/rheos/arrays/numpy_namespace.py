"""The NumPy implementation of the array namespace: the oracle in tests, and a fast way to act."""
# ruff: noqa: D102 - ArrayNamespace says what the functions mean; a copy here would only go stale

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rheos.arrays.namespace import Array, ArrayNamespace, Arrays, Step
from rheos.arrays.recurrence import doubling, looping

__all__ = ["NumpyNamespace", "numpy_xp"]

_Axis: TypeAlias = int | tuple[int, ...] | None
_Array: TypeAlias = npt.NDArray[Any]


class NumpyNamespace:
    """ArrayNamespace over NumPy; see there for what the functions mean.

    What NumPy would promote silently and other frameworks refuse (the mean of integers, the sum of
    flags) is a TypeError here, too, so that mathematics tested on NumPy alone runs elsewhere.
    """

    name = "numpy"
    float32: Any = np.float32
    int32: Any = np.int32
    bool: Any = np.bool_

    def asarray(self, x: Any, dtype: Any = None) -> Any:
        array: Any = np.asarray(x, dtype)
        if dtype is not None or array.dtype.kind == "b":
            return array
        return array.astype(np.float32 if array.dtype.kind == "f" else np.int32, copy=False)

    def astype(self, x: _Array, dtype: Any) -> _Array:
        return x.astype(dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any = None) -> _Array:
        return np.zeros(shape, np.float32 if dtype is None else dtype)

    def ones(self, shape: tuple[int, ...], dtype: Any = None) -> _Array:
        return np.ones(shape, np.float32 if dtype is None else dtype)

    def zeros_like(self, x: _Array) -> _Array:
        return np.zeros_like(x)

    def ones_like(self, x: _Array) -> _Array:
        return np.ones_like(x)

    def one_hot(self, indices: _Array, num: int) -> Any:
        return (indices[..., None] == np.arange(num, dtype=np.int32)).astype(np.float32)

    def abs(self, x: _Array) -> _Array:
        return np.abs(x)

    def exp(self, x: _Array) -> _Array:
        return np.exp(x)

    def log(self, x: _Array) -> _Array:
        return np.log(x)

    def log1p(self, x: _Array) -> _Array:
        return np.log1p(x)

    def sqrt(self, x: _Array) -> _Array:
        return np.sqrt(x)

    def square(self, x: _Array) -> _Array:
        return np.square(x)

    def sign(self, x: _Array) -> _Array:
        return np.sign(x)

    def tanh(self, x: _Array) -> _Array:
        return np.tanh(x)

    def sigmoid(self, x: _Array) -> Any:
        return np.exp(np.minimum(x, 0.0)) / (1.0 + np.exp(-np.abs(x)))  # no overflow; tiny values stay

    def softplus(self, x: _Array) -> _Array:
        return np.logaddexp(0.0, x)

    def relu(self, x: _Array) -> _Array:
        return np.maximum(x, 0.0)

    def isfinite(self, x: _Array) -> _Array:
        return np.isfinite(x)

    def where(self, condition: _Array, x: _Array | float, y: _Array | float) -> _Array:
        return np.where(condition, x, y)

    def minimum(self, x: _Array, y: _Array) -> _Array:
        return np.minimum(x, y)

    def maximum(self, x: _Array, y: _Array) -> _Array:
        return np.maximum(x, y)

    def clip(self, x: _Array, min: float | None = None, max: float | None = None) -> _Array:
        return np.clip(x, min, max)

    def stop_gradient(self, x: _Array) -> _Array:
        return x

    def sum(self, x: _Array, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Any:
        return _no_flags(x, "sum").sum(axis=axis, dtype=x.dtype, keepdims=keepdims)

    def mean(self, x: _Array, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Any:
        return _floats(x, "mean").mean(axis=axis, keepdims=keepdims)

    def std(self, x: _Array, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Any:
        return _floats(x, "std").std(axis=axis, keepdims=keepdims)

    def min(self, x: _Array, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Any:
        return x.min(axis=axis, keepdims=keepdims)

    def max(self, x: _Array, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Any:
        return x.max(axis=axis, keepdims=keepdims)

    def argmax(self, x: _Array, *, axis: int = -1) -> Any:
        return x.argmax(axis=axis).astype(np.int32)

    def all(self, x: _Array, *, axis: int | None = None) -> Any:
        return x.all(axis=axis)

    def any(self, x: _Array, *, axis: int | None = None) -> Any:
        return x.any(axis=axis)

    def cumulative_sum(self, x: _Array, *, axis: int = 0) -> _Array:
        return _no_flags(x, "cumulative_sum").cumsum(axis=axis, dtype=x.dtype)

    def logsumexp(self, x: _Array, *, axis: int = -1) -> Any:
        top = x.max(axis=axis, keepdims=True)
        return np.squeeze(top, axis) + np.log(np.exp(x - top).sum(axis=axis))

    def softmax(self, x: _Array, *, axis: int = -1) -> Any:
        exps = np.exp(x - x.max(axis=axis, keepdims=True))
        return exps / exps.sum(axis=axis, keepdims=True)

    def log_softmax(self, x: _Array, *, axis: int = -1) -> Any:
        below_top = x - x.max(axis=axis, keepdims=True)
        return below_top - np.log(np.exp(below_top).sum(axis=axis, keepdims=True))

    def linear_recurrence(self, a: _Array, b: _Array, *, reverse: builtins.bool = False, axis: int = 0) -> Any:
        return doubling(self, a, b, reverse=reverse, axis=axis)

    def scan(self, step: Step, state: Arrays, inputs: Arrays) -> tuple[Arrays, Array]:
        return looping(self, step, state, inputs)

    def matmul(self, x: _Array, y: _Array) -> Any:
        if x.ndim > 2 and y.ndim == 2:  # one product instead of one for each leading index
            return np.dot(x.reshape(-1, x.shape[-1]), y).reshape(*x.shape[:-1], y.shape[-1])
        return np.matmul(x, y)

    def concat(self, arrays: Sequence[Array], *, axis: int = 0) -> _Array:
        return np.concatenate(arrays, axis=axis)

    def stack(self, arrays: Sequence[Array], *, axis: int = 0) -> _Array:
        return np.stack(arrays, axis=axis)

    def reshape(self, x: _Array, shape: tuple[int, ...]) -> _Array:
        return x.reshape(shape)

    def expand_dims(self, x: _Array, *, axis: int = 0) -> _Array:
        return np.expand_dims(x, axis)

    def squeeze(self, x: _Array, *, axis: int) -> _Array:
        return np.squeeze(x, axis)

    def permute_dims(self, x: _Array, axes: tuple[int, ...]) -> _Array:
        return x.transpose(axes)

    def broadcast_to(self, x: _Array, shape: tuple[int, ...]) -> _Array:
        return np.broadcast_to(x, shape)

    def flip(self, x: _Array, *, axis: int) -> _Array:
        return np.flip(x, axis)

    def take(self, x: _Array, indices: _Array, *, axis: int = 0) -> _Array:
        return x.take(indices, axis=axis)

    def take_along_axis(self, x: _Array, indices: _Array, *, axis: int = -1) -> _Array:
        return np.take_along_axis(x, indices, axis)

    def pick(self, x: _Array, indices: _Array) -> Any:
        rows = x.reshape(-1, x.shape[-1])
        return rows[np.arange(rows.shape[0]), indices.reshape(-1)].reshape(indices.shape)


numpy_xp: ArrayNamespace = NumpyNamespace()
"""The one NumpyNamespace that everybody uses; it has no state."""


def _floats(x: _Array, function: str) -> _Array:
    if x.dtype.kind != "f":
        raise TypeError(f"{function} takes float32, got {x.dtype}: cast it first with xp.astype(x, xp.float32).")
    return x


def _no_flags(x: _Array, function: str) -> _Array:
    if x.dtype.kind == "b":
        raise TypeError(f"{function} takes numbers, got flags: cast them first with xp.astype(x, xp.float32).")
    return x
