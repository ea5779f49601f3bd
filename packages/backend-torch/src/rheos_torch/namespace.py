"""The PyTorch implementation of the array namespace."""
# ruff: noqa: D102 - ArrayNamespace says what the functions mean; a copy here would only go stale

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from rheos.arrays.namespace import Array, ArrayNamespace, Arrays, Step
from rheos.arrays.recurrence import doubling, looping

__all__ = ["TorchNamespace", "torch_xp"]

_Axis: TypeAlias = int | tuple[int, ...] | None


class TorchNamespace:
    """ArrayNamespace over torch; see there for what the functions mean.

    Indices are int32 as everywhere; where torch wants int64, they are cast here. New arrays are made on
    `device`.
    """

    name = "torch"
    float32: Any = torch.float32
    int32: Any = torch.int32
    bool: Any = torch.bool

    def __init__(self, device: str = "cpu") -> None:
        self.device = device

    def asarray(self, x: Any, dtype: Any = None) -> Tensor:
        if isinstance(x, Tensor):
            array = x.to(self.device)
        elif torch.compiler.is_compiling():  # then NumPy's arrays are tensors already
            array = torch.as_tensor(x, device=self.device)
        else:  # torch.tensor copies, so that a read-only NumPy array is taken without a warning
            array = torch.tensor(np.asarray(x), device=self.device)
        if dtype is not None:
            return array.to(dtype)
        if array.dtype is torch.bool:
            return array
        return array.to(torch.float32 if array.is_floating_point() else torch.int32)

    def astype(self, x: Tensor, dtype: Any) -> Tensor:
        return x.to(dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        return torch.zeros(shape, dtype=torch.float32 if dtype is None else dtype, device=self.device)

    def ones(self, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        return torch.ones(shape, dtype=torch.float32 if dtype is None else dtype, device=self.device)

    def zeros_like(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def ones_like(self, x: Tensor) -> Tensor:
        return torch.ones_like(x)

    def one_hot(self, indices: Tensor, num: int) -> Tensor:
        return (indices.unsqueeze(-1) == torch.arange(num, dtype=torch.int32, device=indices.device)).to(torch.float32)

    def abs(self, x: Tensor) -> Tensor:
        return torch.abs(x)

    def exp(self, x: Tensor) -> Tensor:
        return torch.exp(x)

    def log(self, x: Tensor) -> Tensor:
        return torch.log(x)

    def log1p(self, x: Tensor) -> Tensor:
        return torch.log1p(x)

    def sqrt(self, x: Tensor) -> Tensor:
        return torch.sqrt(x)

    def square(self, x: Tensor) -> Tensor:
        return torch.square(x)

    def sign(self, x: Tensor) -> Tensor:
        return torch.sign(x)

    def tanh(self, x: Tensor) -> Tensor:
        return torch.tanh(x)

    def sigmoid(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x)

    def softplus(self, x: Tensor) -> Tensor:
        return torch.nn.functional.softplus(x)

    def relu(self, x: Tensor) -> Tensor:
        return torch.relu(x)

    def isfinite(self, x: Tensor) -> Tensor:
        return torch.isfinite(x)

    def where(self, condition: Tensor, x: Tensor | float, y: Tensor | float) -> Tensor:
        return torch.where(condition, x, y)

    def minimum(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.minimum(x, y)

    def maximum(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.maximum(x, y)

    def clip(self, x: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
        return torch.clamp(x, min, max)

    def stop_gradient(self, x: Tensor) -> Tensor:
        return x.detach()

    def sum(self, x: Tensor, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Tensor:
        return torch.sum(_no_flags(x, "sum"), axis, keepdims, dtype=x.dtype)

    def mean(self, x: Tensor, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Tensor:
        return torch.mean(_floats(x, "mean"), axis, keepdims)

    def std(self, x: Tensor, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Tensor:
        return torch.std(_floats(x, "std"), axis, correction=0, keepdim=keepdims)

    def min(self, x: Tensor, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Tensor:
        return torch.amin(x, () if axis is None else axis, keepdims)

    def max(self, x: Tensor, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Tensor:
        return torch.amax(x, () if axis is None else axis, keepdims)

    def argmax(self, x: Tensor, *, axis: int = -1) -> Tensor:
        return torch.argmax(x, axis).to(torch.int32)

    def all(self, x: Tensor, *, axis: int | None = None) -> Tensor:
        return torch.all(x) if axis is None else torch.all(x, axis)

    def any(self, x: Tensor, *, axis: int | None = None) -> Tensor:
        return torch.any(x) if axis is None else torch.any(x, axis)

    def cumulative_sum(self, x: Tensor, *, axis: int = 0) -> Tensor:
        return torch.cumsum(_no_flags(x, "cumulative_sum"), axis, dtype=x.dtype)

    def logsumexp(self, x: Tensor, *, axis: int = -1) -> Tensor:
        return torch.logsumexp(x, axis)

    def softmax(self, x: Tensor, *, axis: int = -1) -> Tensor:
        return torch.softmax(x, axis)

    def log_softmax(self, x: Tensor, *, axis: int = -1) -> Tensor:
        return torch.log_softmax(x, axis)

    def linear_recurrence(self, a: Tensor, b: Tensor, *, reverse: builtins.bool = False, axis: int = 0) -> Any:
        return doubling(self, a, b, reverse=reverse, axis=axis)

    def scan(self, step: Step, state: Arrays, inputs: Arrays) -> tuple[Arrays, Array]:
        return looping(self, step, state, inputs)

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.matmul(x, y)

    def concat(self, arrays: Sequence[Tensor], *, axis: int = 0) -> Tensor:
        return torch.cat(tuple(arrays), axis)

    def stack(self, arrays: Sequence[Tensor], *, axis: int = 0) -> Tensor:
        return torch.stack(tuple(arrays), axis)

    def reshape(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        return x.reshape(shape)

    def expand_dims(self, x: Tensor, *, axis: int = 0) -> Tensor:
        return x.unsqueeze(axis)

    def squeeze(self, x: Tensor, *, axis: int) -> Tensor:
        if x.shape[axis] != 1:
            raise ValueError(f"squeeze drops an axis of length 1, axis {axis} of {tuple(x.shape)} is longer.")
        return x.squeeze(axis)

    def permute_dims(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return x.permute(axes)

    def broadcast_to(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        return x.expand(shape)

    def flip(self, x: Tensor, *, axis: int) -> Tensor:
        return torch.flip(x, (axis,))

    def take(self, x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
        return torch.index_select(x, axis, indices)

    def take_along_axis(self, x: Tensor, indices: Tensor, *, axis: int = -1) -> Tensor:
        return torch.gather(x, axis, indices.long())

    def pick(self, x: Tensor, indices: Tensor) -> Tensor:
        return torch.gather(x, -1, indices.long().unsqueeze(-1)).squeeze(-1)


torch_xp: ArrayNamespace = TorchNamespace()
"""The TorchNamespace of the CPU; it has no state."""


def _floats(x: Tensor, function: str) -> Tensor:
    if not x.is_floating_point():
        raise TypeError(f"{function} takes float32, got {x.dtype}: cast it first with xp.astype(x, xp.float32).")
    return x


def _no_flags(x: Tensor, function: str) -> Tensor:
    if x.dtype is torch.bool:
        raise TypeError(f"{function} takes numbers, got flags: cast them first with xp.astype(x, xp.float32).")
    return x
