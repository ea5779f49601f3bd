"""The TensorFlow implementation of the array namespace."""
# ruff: noqa: D102 - ArrayNamespace says what the functions mean; a copy here would only go stale

from __future__ import annotations

import builtins
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np

from rheos.arrays.namespace import Array, ArrayNamespace, Arrays, Step
from rheos.arrays.recurrence import doubling, looping
from rheos.arrays.shapes import check_same_shape
from rheos_tf.framework import Tensor, tf

__all__ = ["TFNamespace", "filled", "integers", "raw", "tf_xp"]

_Axis: TypeAlias = int | tuple[int, ...] | None

raw: Any = tf.raw_ops
"""The operations themselves, without what `tf.math` and its like wrap around them."""


class TFNamespace:
    """ArrayNamespace over TensorFlow, define-by-run and inside a `tf.function`; see there for what the functions mean.

    In a graph the length of an axis may be unknown, as that of a batch's leading axis is: `x.shape` has None there.
    `reshape` takes a shape with None where `x` has one; where a new array is made, its shape must be known.

    Args:
        device: where new arrays are made, as TensorFlow spells it; None leaves it to TensorFlow.
    """

    name = "tf"
    float32: Any = tf.float32
    int32: Any = tf.int32
    bool: Any = tf.bool

    def __init__(self, device: str | None = None) -> None:
        self._device = device

    def asarray(self, x: Any, dtype: Any = None) -> Tensor:
        if tf.is_tensor(x):
            if dtype is None:
                dtype = _dialect(x.dtype)
            return self.astype(tf.convert_to_tensor(x), dtype)
        array = np.asarray(x)
        if dtype is None:
            dtype = _dialect(tf.as_dtype(array.dtype))
        with self._placed():
            return tf.constant(array.astype(dtype.as_numpy_dtype))

    def astype(self, x: Tensor, dtype: Any) -> Tensor:
        return x if x.dtype == dtype else raw.Cast(x=x, DstT=dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        with self._placed():
            return tf.zeros(_known(shape, "zeros"), tf.float32 if dtype is None else dtype)

    def ones(self, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        with self._placed():
            return tf.ones(_known(shape, "ones"), tf.float32 if dtype is None else dtype)

    def zeros_like(self, x: Tensor) -> Tensor:
        return raw.ZerosLike(x=x)

    def ones_like(self, x: Tensor) -> Tensor:
        return tf.ones_like(x)

    def one_hot(self, indices: Tensor, num: int) -> Tensor:
        return raw.OneHot(indices=indices, depth=num, on_value=1.0, off_value=0.0)

    def abs(self, x: Tensor) -> Tensor:
        return raw.Abs(x=x)

    def exp(self, x: Tensor) -> Tensor:
        return raw.Exp(x=x)

    def log(self, x: Tensor) -> Tensor:
        return raw.Log(x=x)

    def log1p(self, x: Tensor) -> Tensor:
        return raw.Log1p(x=x)

    def sqrt(self, x: Tensor) -> Tensor:
        return raw.Sqrt(x=x)

    def square(self, x: Tensor) -> Tensor:
        return raw.Square(x=x)

    def sign(self, x: Tensor) -> Tensor:
        return raw.Sign(x=x)

    def tanh(self, x: Tensor) -> Tensor:
        return raw.Tanh(x=x)

    def sigmoid(self, x: Tensor) -> Tensor:
        return raw.Sigmoid(x=x)

    def softplus(self, x: Tensor) -> Tensor:
        return raw.Softplus(features=x)

    def relu(self, x: Tensor) -> Tensor:
        return raw.Relu(features=x)

    def isfinite(self, x: Tensor) -> Tensor:
        return raw.IsFinite(x=x)

    def where(self, condition: Tensor, x: Any, y: Any) -> Tensor:
        if not tf.is_tensor(x):  # in a graph the dtype of the first one counts
            x = tf.constant(x, y.dtype)
        return raw.SelectV2(condition=condition, t=x, e=y)

    def minimum(self, x: Tensor, y: Tensor) -> Tensor:
        return raw.Minimum(x=x, y=y)

    def maximum(self, x: Tensor, y: Tensor) -> Tensor:
        return raw.Maximum(x=x, y=y)

    def clip(self, x: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
        if min is not None and max is not None:
            return raw.ClipByValue(t=x, clip_value_min=min, clip_value_max=max)
        if min is not None:
            return raw.Maximum(x=x, y=min)
        return x if max is None else raw.Minimum(x=x, y=max)

    def stop_gradient(self, x: Tensor) -> Tensor:
        return raw.StopGradient(input=x)

    def sum(self, x: Tensor, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Tensor:
        return raw.Sum(input=_no_flags(x, "sum"), axis=_axes(x, axis), keep_dims=keepdims)

    def mean(self, x: Tensor, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Tensor:
        return raw.Mean(input=_floats(x, "mean"), axis=_axes(x, axis), keep_dims=keepdims)

    def std(self, x: Tensor, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Tensor:
        axes = _axes(_floats(x, "std"), axis)
        deviations = x - raw.Mean(input=x, axis=axes, keep_dims=True)
        variance = raw.Mean(input=raw.Square(x=deviations), axis=axes, keep_dims=keepdims)
        is_zero = variance == 0.0  # there the root has no slope, and the gradient is 0
        return self.where(is_zero, 0.0, raw.Sqrt(x=self.where(is_zero, 1.0, variance)))

    def min(self, x: Tensor, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Tensor:
        return raw.Min(input=x, axis=_axes(x, axis), keep_dims=keepdims)

    def max(self, x: Tensor, *, axis: _Axis = None, keepdims: builtins.bool = False) -> Tensor:
        return raw.Max(input=x, axis=_axes(x, axis), keep_dims=keepdims)

    def argmax(self, x: Tensor, *, axis: int = -1) -> Tensor:
        return raw.ArgMax(input=x, dimension=axis, output_type=tf.int32)

    def all(self, x: Tensor, *, axis: int | None = None) -> Tensor:
        return raw.All(input=x, axis=_axes(x, axis))

    def any(self, x: Tensor, *, axis: int | None = None) -> Tensor:
        return raw.Any(input=x, axis=_axes(x, axis))

    def cumulative_sum(self, x: Tensor, *, axis: int = 0) -> Tensor:
        return raw.Cumsum(x=_no_flags(x, "cumulative_sum"), axis=axis)

    def logsumexp(self, x: Tensor, *, axis: int = -1) -> Tensor:
        return tf.reduce_logsumexp(x, axis)

    def softmax(self, x: Tensor, *, axis: int = -1) -> Tensor:
        return tf.nn.softmax(x, axis)

    def log_softmax(self, x: Tensor, *, axis: int = -1) -> Tensor:
        return tf.nn.log_softmax(x, axis)

    def linear_recurrence(self, a: Tensor, b: Tensor, *, reverse: builtins.bool = False, axis: int = 0) -> Any:
        if b.shape[axis] is not None:
            return doubling(self, a, b, reverse=reverse, axis=axis)
        return _doubling_in_a_loop(a, b, reverse=reverse, axis=axis)

    def scan(self, step: Step, state: Arrays, inputs: Arrays) -> tuple[Arrays, Array]:
        if tf.executing_eagerly():
            return looping(self, step, state, tuple(tf.unstack(x) for x in inputs))
        return _scan_in_a_loop(step, state, inputs)

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        if len(x.shape) == 2 == len(y.shape):
            return raw.MatMul(a=x, b=y)
        if len(y.shape) == 2:  # one product instead of one for each leading index
            inner = y.shape[0] if x.shape[-1] is None else x.shape[-1]
            rows = raw.MatMul(a=raw.Reshape(tensor=x, shape=integers([-1, inner])), b=y)
            return raw.Reshape(tensor=rows, shape=filled((*x.shape[:-1], y.shape[-1]), x))
        if len(y.shape) == 1:
            return tf.squeeze(self.matmul(x, y[:, None]), -1)
        if len(x.shape) == 1:
            return tf.squeeze(self.matmul(x[None], y), -2)
        return raw.BatchMatMulV2(x=x, y=y)

    def concat(self, arrays: Sequence[Tensor], *, axis: int = 0) -> Tensor:
        return tf.concat(tuple(arrays), axis)

    def stack(self, arrays: Sequence[Tensor], *, axis: int = 0) -> Tensor:
        return raw.Pack(values=tuple(arrays), axis=axis)

    def reshape(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        return raw.Reshape(tensor=x, shape=filled(tuple(shape), x))

    def expand_dims(self, x: Tensor, *, axis: int = 0) -> Tensor:
        return raw.ExpandDims(input=x, axis=axis)

    def squeeze(self, x: Tensor, *, axis: int) -> Tensor:
        if x.shape[axis] not in (1, None):
            raise ValueError(f"squeeze drops an axis of length 1, axis {axis} of {tuple(x.shape)} is longer.")
        return raw.Squeeze(input=x, axis=[axis])

    def permute_dims(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return raw.Transpose(x=x, perm=axes)

    def broadcast_to(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        return raw.BroadcastTo(input=x, shape=_known(shape, "broadcast_to"))

    def flip(self, x: Tensor, *, axis: int) -> Tensor:
        return raw.ReverseV2(tensor=x, axis=[axis])

    def take(self, x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
        # The gradient of rows is sparse; that of a reshape makes it dense without a warning.
        return raw.GatherV2(params=raw.Reshape(tensor=x, shape=raw.Shape(input=x)), indices=indices, axis=axis)

    def take_along_axis(self, x: Tensor, indices: Tensor, *, axis: int = -1) -> Tensor:
        last = len(x.shape) - 1
        axes = list(range(last + 1))
        axes[axis], axes[last] = axes[last], axes[axis]
        picked = tf.gather(raw.Transpose(x=x, perm=axes), raw.Transpose(x=indices, perm=axes), batch_dims=last)
        return raw.Transpose(x=picked, perm=axes)

    def pick(self, x: Tensor, indices: Tensor) -> Tensor:
        flat = raw.Reshape(tensor=indices, shape=integers([-1]))
        rows = raw.Range(start=0, limit=raw.Size(input=flat), delta=1)
        table = raw.Reshape(tensor=x, shape=integers([-1, x.shape[-1]]))
        picked = raw.GatherNd(params=table, indices=raw.Pack(values=(rows, flat), axis=1))
        return raw.Reshape(tensor=picked, shape=raw.Shape(input=indices))

    def _placed(self) -> AbstractContextManager[Any]:
        """Place what is made now; in a graph that is done for the whole of it."""
        if self._device is None or not tf.executing_eagerly():
            return nullcontext()
        device: AbstractContextManager[Any] = tf.device(self._device)
        return device


tf_xp: ArrayNamespace = TFNamespace()
"""A TFNamespace that leaves the device to TensorFlow; it has no state."""


def _doubling_in_a_loop(a: Tensor, b: Tensor, *, reverse: bool, axis: int) -> Tensor:
    """Do what `doubling` does where the graph leaves the length open, so that all arrays keep their shape.

    Where there is nothing earlier to compose with, the identity y -> 1 y + 0 stands in.
    """
    check_same_shape("linear_recurrence takes factors and terms of one shape", b=b, a=a)
    length = raw.Shape(input=b)[axis]
    index = tf.reshape(tf.range(length), [-1] + [1] * (len(b.shape) - 1 - axis % len(b.shape)))

    def compose(width: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        has_none = index >= length - width if reverse else index < width
        shift = -width if reverse else width
        earlier_a = tf.where(has_none, 1.0, tf.roll(a, shift, axis))
        earlier_b = tf.where(has_none, 0.0, tf.roll(b, shift, axis))
        return 2 * width, a * earlier_a, b + a * earlier_b

    return tf.while_loop(lambda width, *_: width < length, compose, (tf.constant(1), a, b))[2]


def _scan_in_a_loop(step: Step, state: Arrays, inputs: Arrays) -> tuple[Arrays, Array]:
    """Scan where the graph leaves the number of steps open; the first one, outside the loop, says what an output is."""
    length = raw.Shape(input=inputs[0])[0]
    rows = [tf.TensorArray(x.dtype, length, element_shape=x.shape[1:]).unstack(x) for x in inputs]
    state, y_0 = step(state, tuple(row.read(0) for row in rows))
    outputs = tf.TensorArray(y_0.dtype, length, element_shape=y_0.shape).write(0, y_0)

    def body(t: Tensor, state: Arrays, outputs: Any) -> tuple[Tensor, Arrays, Any]:
        state, y_t = step(state, tuple(row.read(t) for row in rows))
        return t + 1, state, outputs.write(t, y_t)

    _, state, outputs = tf.while_loop(lambda t, *_: t < length, body, (tf.constant(1), state, outputs))
    return state, tf.ensure_shape(outputs.stack(), (inputs[0].shape[0], *y_0.shape))


def integers(numbers: Any) -> Any:
    """Return axes or lengths as an array: define-by-run, an operation takes it three times as fast as a tuple."""
    return np.array(numbers, np.int32)


def _dialect(dtype: Any) -> Any:
    """Return the dtype that an array of another one gets."""
    if dtype == tf.bool:
        return dtype
    return tf.float32 if dtype.is_floating else tf.int32


def _axes(x: Tensor, axis: _Axis) -> Any:
    return np.arange(len(x.shape), dtype=np.int32) if axis is None else integers(axis)


def _floats(x: Tensor, function: str) -> Tensor:
    if not x.dtype.is_floating:
        raise TypeError(f"{function} takes float32, got {x.dtype.name}: cast it first with xp.astype(x, xp.float32).")
    return x


def _no_flags(x: Tensor, function: str) -> Tensor:
    if x.dtype == tf.bool:
        raise TypeError(f"{function} takes numbers, got flags: cast them first with xp.astype(x, xp.float32).")
    return x


def _known(shape: tuple[int, ...], function: str) -> tuple[int, ...]:
    if None in tuple(shape):
        raise TypeError(
            f"{function} got the shape {tuple(shape)}, and a graph leaves the length of a batch's leading axis open:"
            " make the array from another one (zeros_like, ones_like, 0.0 * x), or use backend.mode=eager."
        )
    return tuple(shape)


def filled(shape: tuple[int | None, ...], x: Tensor) -> Any:
    """Return a shape in which the lengths that a graph leaves open are those of `x`."""
    if None not in shape:
        return integers(shape)
    if shape.count(None) == 1 and -1 not in shape:
        return integers([-1 if length is None else length for length in shape])
    lengths = raw.Shape(input=x)
    return [lengths[index] if length is None else length for index, length in enumerate(shape)]
