"""Parity of the torch namespace with NumPy's: values, dtypes, shapes, and gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rheos.arrays.namespace import ArrayNamespace
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.errors import ShapeError
from rheos_torch.namespace import torch_xp

_generator = np.random.default_rng(0)
X = _generator.normal(size=(3, 4)).astype(np.float32)
Y = _generator.normal(size=(3, 4)).astype(np.float32)
SQUARE = _generator.normal(size=(4, 4)).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)
FACTORS = np.tanh(X)
FLAGS = X > 0.3
COLUMN = np.array([2, 0, 3], np.int32)
"""One index into the four columns of each row."""
ROWS = np.array([1, 1, 0, 2], np.int32)
"""Indices of rows."""


@dataclass(frozen=True)
class Case:
    """A call, `(xp, *arrays) -> array`, and what it is called with."""

    call: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    is_differentiable: bool = True


def constant(call: Callable[..., Any], *arrays: np.ndarray) -> Case:
    return Case(call, arrays, is_differentiable=False)


def smooth(call: Callable[..., Any], *arrays: np.ndarray) -> Case:
    return Case(call, arrays)


def damped(state: Any, inputs: Any) -> tuple[Any, Any]:
    """A step of a recurrence that is not linear."""
    a_t, b_t = inputs
    y_t = a_t * (state[0] ** 2) + b_t
    return (y_t,), y_t


CASES: dict[str, list[Case]] = {
    "asarray": [
        constant(lambda xp: xp.asarray([[1.0, 2.0]])),
        constant(lambda xp: xp.asarray(np.arange(3))),
        constant(lambda xp: xp.asarray([True, False])),
        constant(lambda xp: xp.asarray(np.arange(3), xp.float32)),
        constant(lambda xp, x: xp.asarray(x), X),
    ],
    "astype": [
        constant(lambda xp, x: xp.astype(x, xp.int32), 3 * X),
        constant(lambda xp, x: xp.astype(x, xp.float32), FLAGS),
        constant(lambda xp, x: xp.astype(x, xp.bool), COLUMN),
    ],
    "zeros": [constant(lambda xp: xp.zeros((2, 3))), constant(lambda xp: xp.zeros((2,), xp.int32))],
    "ones": [constant(lambda xp: xp.ones((2, 3))), constant(lambda xp: xp.ones((2,), xp.bool))],
    "zeros_like": [constant(lambda xp, x: xp.zeros_like(x), X), constant(lambda xp, x: xp.zeros_like(x), COLUMN)],
    "ones_like": [constant(lambda xp, x: xp.ones_like(x), X), constant(lambda xp, x: xp.ones_like(x), FLAGS)],
    "one_hot": [constant(lambda xp, i: xp.one_hot(i, 4), COLUMN), constant(lambda xp, i: xp.one_hot(i, 2), COLUMN)],
    "abs": [smooth(lambda xp, x: xp.abs(x), X)],
    "exp": [smooth(lambda xp, x: xp.exp(x), X)],
    "log": [smooth(lambda xp, x: xp.log(x), POSITIVE)],
    "log1p": [smooth(lambda xp, x: xp.log1p(x), POSITIVE)],
    "sqrt": [smooth(lambda xp, x: xp.sqrt(x), POSITIVE)],
    "square": [smooth(lambda xp, x: xp.square(x), X)],
    "sign": [smooth(lambda xp, x: xp.sign(x), X)],
    "tanh": [smooth(lambda xp, x: xp.tanh(x), X)],
    "sigmoid": [smooth(lambda xp, x: xp.sigmoid(x), X), smooth(lambda xp, x: xp.sigmoid(x), 20 * X)],
    "softplus": [smooth(lambda xp, x: xp.softplus(x), X), constant(lambda xp, x: xp.softplus(x), 30 * X)],
    "relu": [smooth(lambda xp, x: xp.relu(x), X)],
    "isfinite": [constant(lambda xp, x: xp.isfinite(x), np.float32([1.0, np.nan, np.inf]))],
    "where": [
        smooth(lambda xp, f, x, y: xp.where(f, x, y), FLAGS, X, Y),
        smooth(lambda xp, f, x: xp.where(f, 0.0, x), FLAGS, X),
    ],
    "minimum": [smooth(lambda xp, x, y: xp.minimum(x, y), X, Y)],
    "maximum": [smooth(lambda xp, x, y: xp.maximum(x, y), X, Y)],
    "clip": [
        smooth(lambda xp, x: xp.clip(x, -0.5, 0.5), X),
        smooth(lambda xp, x: xp.clip(x, min=0.0), X),
        smooth(lambda xp, x: xp.clip(x, max=0.0), X),
    ],
    "stop_gradient": [constant(lambda xp, x: xp.stop_gradient(x), X)],
    "sum": [
        smooth(lambda xp, x: xp.sum(x), X),
        smooth(lambda xp, x: xp.sum(x, axis=-1, keepdims=True), X),
        smooth(lambda xp, x: xp.sum(x, axis=(0, 1)), X),
        constant(lambda xp, x: xp.sum(x, axis=0), ROWS),
    ],
    "mean": [smooth(lambda xp, x: xp.mean(x), X), smooth(lambda xp, x: xp.mean(x, axis=0, keepdims=True), X)],
    "std": [smooth(lambda xp, x: xp.std(x), X), smooth(lambda xp, x: xp.std(x, axis=(0, 1), keepdims=True), X)],
    "min": [smooth(lambda xp, x: xp.min(x), X), smooth(lambda xp, x: xp.min(x, axis=1, keepdims=True), X)],
    "max": [smooth(lambda xp, x: xp.max(x), X), smooth(lambda xp, x: xp.max(x, axis=(0, 1)), X)],
    "argmax": [constant(lambda xp, x: xp.argmax(x), X), constant(lambda xp, x: xp.argmax(x, axis=0), X)],
    "all": [constant(lambda xp, f: xp.all(f), FLAGS), constant(lambda xp, f: xp.all(f, axis=0), FLAGS)],
    "any": [constant(lambda xp, f: xp.any(f), FLAGS), constant(lambda xp, f: xp.any(f, axis=1), FLAGS)],
    "cumulative_sum": [
        smooth(lambda xp, x: xp.cumulative_sum(x), X),
        smooth(lambda xp, x: xp.cumulative_sum(x, axis=-1), X),
        constant(lambda xp, x: xp.cumulative_sum(x), ROWS),
    ],
    "logsumexp": [smooth(lambda xp, x: xp.logsumexp(x), X), smooth(lambda xp, x: xp.logsumexp(x, axis=0), X)],
    "softmax": [smooth(lambda xp, x: xp.softmax(x), X), smooth(lambda xp, x: xp.softmax(x, axis=0), X)],
    "log_softmax": [smooth(lambda xp, x: xp.log_softmax(x), X), smooth(lambda xp, x: xp.log_softmax(x, axis=0), X)],
    "linear_recurrence": [
        smooth(lambda xp, a, b: xp.linear_recurrence(a, b), FACTORS, Y),
        smooth(lambda xp, a, b: xp.linear_recurrence(a, b, reverse=True), FACTORS, Y),
        smooth(lambda xp, a, b: xp.linear_recurrence(a, b, axis=-1), FACTORS, Y),
    ],
    "scan": [
        smooth(lambda xp, a, b: xp.scan(damped, (b[1],), (a, b))[1], FACTORS, Y),
        smooth(lambda xp, a, b: xp.scan(damped, (b[1],), (a, b))[0][0], FACTORS, Y),
    ],
    "matmul": [
        smooth(lambda xp, x, y: xp.matmul(x, y), X, SQUARE),
        smooth(lambda xp, x, y: xp.matmul(xp.broadcast_to(x, (2, 3, 4)), y), X, SQUARE),
    ],
    "concat": [smooth(lambda xp, x, y: xp.concat([x, y], axis=-1), X, Y)],
    "stack": [smooth(lambda xp, x, y: xp.stack([x, y], axis=1), X, Y)],
    "reshape": [smooth(lambda xp, x: xp.reshape(x, (-1, 6)), X)],
    "expand_dims": [smooth(lambda xp, x: xp.expand_dims(x, axis=1), X)],
    "squeeze": [smooth(lambda xp, x: xp.squeeze(x, axis=-1), X[:, :1])],
    "permute_dims": [smooth(lambda xp, x: xp.permute_dims(x, (1, 0)), X)],
    "broadcast_to": [smooth(lambda xp, x: xp.broadcast_to(x, (2, 3, 4)), X)],
    "flip": [smooth(lambda xp, x: xp.flip(x, axis=0), X)],
    "take": [smooth(lambda xp, x, i: xp.take(x, i), X, ROWS), smooth(lambda xp, x, i: xp.take(x, i, axis=1), X, ROWS)],
    "take_along_axis": [smooth(lambda xp, x, i: xp.take_along_axis(x, i), X, COLUMN[:, None])],
    "pick": [smooth(lambda xp, x, i: xp.pick(x, i), X, COLUMN)],
}

FUNCTIONS = [name for name, member in vars(ArrayNamespace).items() if callable(member) and not name.startswith("_")]
EVERY_CASE = [pytest.param(case, id=f"{name}-{i}") for name, cases in CASES.items() for i, case in enumerate(cases)]
SMOOTH_CASES = [param for param in EVERY_CASE if param.values[0].is_differentiable]


def test_every_function_of_the_namespace_has_a_parity_case():
    assert sorted(FUNCTIONS) == sorted(CASES)


@pytest.mark.parametrize("case", EVERY_CASE)
def test_values_dtypes_and_shapes_equal_those_of_numpy(case):
    expected = np.asarray(case.call(numpy_xp, *case.arrays))

    result = case.call(torch_xp, *map(torch.tensor, case.arrays)).numpy()

    assert expected.dtype == result.dtype
    assert expected.shape == result.shape
    # The two libraries' exp, log and tanh differ in the last bits of 24 (6e-8 of a value), their sums in order:
    # twelve terms near 1 are rounded at 6e-8 of up to 4 a few times, whatever they cancel to.
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", SMOOTH_CASES)
def test_gradients_equal_finite_differences_in_float64(case):
    inputs = [
        torch.tensor(array, dtype=torch.float64, requires_grad=True)
        if array.dtype == np.float32
        else torch.tensor(array)
        for array in case.arrays
    ]

    # gradcheck's own tolerances, made for steps of 1e-6 in float64: atol 1e-5, rtol 1e-3.
    assert torch.autograd.gradcheck(lambda *arrays: case.call(torch_xp, *arrays), inputs)


def test_stop_gradient_makes_a_constant_of_the_same_values():
    x = torch.tensor([3.0], requires_grad=True)

    (x * torch_xp.stop_gradient(x)).sum().backward()

    assert x.grad is not None
    assert x.grad.item() == 3.0  # with the gradient flowing on, it would be 6


@pytest.mark.parametrize("name", ["mean", "std"])
def test_what_numpy_refuses_to_promote_is_refused_alike(name):
    with pytest.raises(TypeError, match=r"takes float32, got torch.int32: cast it first"):
        getattr(torch_xp, name)(torch.tensor([1, 2], dtype=torch.int32))


@pytest.mark.parametrize("name", ["sum", "cumulative_sum"])
def test_flags_are_not_summed_here_either(name):
    with pytest.raises(TypeError, match=r"takes numbers, got flags: cast them first"):
        getattr(torch_xp, name)(torch.tensor([True, False]))


@pytest.mark.parametrize("xp", [numpy_xp, torch_xp], ids=lambda xp: xp.name)
def test_squeeze_refuses_an_axis_that_is_longer_than_one(xp):
    with pytest.raises(ValueError, match="squeeze"):
        xp.squeeze(xp.ones((2, 3)), axis=0)


@pytest.mark.parametrize("xp", [numpy_xp, torch_xp], ids=lambda xp: xp.name)
def test_recurrence_refuses_factors_of_another_shape(xp):
    with pytest.raises(ShapeError, match=r"`a` has shape \(2,\), `b` has \(3,\)"):
        xp.linear_recurrence(xp.ones((2,)), xp.ones((3,)))


def test_read_only_arrays_are_taken_and_never_written_to():
    array = np.ones(3, np.float32)
    array.flags.writeable = False

    torch_xp.asarray(array).add_(1.0)

    np.testing.assert_array_equal(np.ones(3), array)


@given(
    st.integers(0, 33).flatmap(
        lambda steps: st.tuples(
            hnp.arrays(np.float32, (steps, 2), elements=st.floats(-1, 1, width=32)),
            hnp.arrays(np.float32, (steps, 2), elements=st.floats(-100, 100, width=32)),
        )
    ),
    st.booleans(),
)
def test_recurrences_of_any_length_are_the_same_to_the_bit(pair, reverse):
    expected = numpy_xp.linear_recurrence(*pair, reverse=reverse)

    result = torch_xp.linear_recurrence(*map(torch.tensor, pair), reverse=reverse)

    # Products and sums of two are correctly rounded everywhere, and both take the same steps in the same order.
    np.testing.assert_array_equal(expected, result.numpy())
