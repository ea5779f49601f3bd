"""Parity of the TensorFlow namespace with NumPy's, define-by-run and in graphs: values, dtypes, shapes, gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rheos.arrays.namespace import ArrayNamespace
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.errors import ShapeError
from rheos_tf.framework import tf
from rheos_tf.namespace import tf_xp

_generator = np.random.default_rng(0)
X = _generator.normal(size=(3, 4)).astype(np.float32)
Y = _generator.normal(size=(3, 4)).astype(np.float32)
CUBE = _generator.normal(size=(2, 4, 4)).astype(np.float32)
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


def decay_and_add(state: tuple[Any, ...], inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    (y,), (x_t, y_t) = state, inputs
    y = 0.5 * y * x_t + y_t
    return (y,), y * y


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
        smooth(lambda xp, x, y: xp.scan(decay_and_add, (x[0],), (x, y))[1], X, Y),
        smooth(lambda xp, x, y: xp.scan(decay_and_add, (x[0],), (x, y))[0][0], X, Y),
        smooth(lambda xp, x: xp.scan(decay_and_add, (x[0],), (x, x))[1], X[:1]),
    ],
    "matmul": [
        smooth(lambda xp, x, y: xp.matmul(x, y), X, SQUARE),
        smooth(lambda xp, x, y: xp.matmul(x, y), CUBE, SQUARE),
        smooth(lambda xp, x, y: xp.matmul(x, y), CUBE, X.T.copy()),
        smooth(lambda xp, x, y: xp.matmul(x, y), CUBE, CUBE[:, :, :3].copy()),
        smooth(lambda xp, x, y: xp.matmul(x, y[0]), X, SQUARE),
        smooth(lambda xp, x, y: xp.matmul(x[0], y), X, SQUARE),
    ],
    "concat": [smooth(lambda xp, x, y: xp.concat([x, y], axis=-1), X, Y)],
    "stack": [smooth(lambda xp, x, y: xp.stack([x, y], axis=1), X, Y)],
    "reshape": [
        smooth(lambda xp, x: xp.reshape(x, (-1, 6)), X),
        smooth(lambda xp, x: xp.reshape(x, (*x.shape[:-1], 2, 2)), X),
        smooth(lambda xp, x: xp.reshape(x, (*x.shape[:-1], -1, 2)), X),
    ],
    "expand_dims": [smooth(lambda xp, x: xp.expand_dims(x, axis=1), X)],
    "squeeze": [smooth(lambda xp, x: xp.squeeze(x, axis=-1), X[:, :1])],
    "permute_dims": [smooth(lambda xp, x: xp.permute_dims(x, (1, 0)), X)],
    "broadcast_to": [smooth(lambda xp, x: xp.broadcast_to(x, (2, 3, 4)), X)],
    "flip": [smooth(lambda xp, x: xp.flip(x, axis=0), X)],
    "take": [smooth(lambda xp, x, i: xp.take(x, i), X, ROWS), smooth(lambda xp, x, i: xp.take(x, i, axis=1), X, ROWS)],
    "take_along_axis": [
        smooth(lambda xp, x, i: xp.take_along_axis(x, i), X, COLUMN[:, None]),
        smooth(lambda xp, x, i: xp.take_along_axis(x, i, axis=0), X, ROWS[None]),
    ],
    "pick": [
        smooth(lambda xp, x, i: xp.pick(x, i), X, COLUMN),
        smooth(lambda xp, x, i: xp.pick(x, i), CUBE, np.stack([ROWS, ROWS[::-1]])),
    ],
}

FUNCTIONS = [name for name, member in vars(ArrayNamespace).items() if callable(member) and not name.startswith("_")]
EVERY_CASE = [pytest.param(case, id=f"{name}-{i}") for name, cases in CASES.items() for i, case in enumerate(cases)]
SMOOTH_CASES = [param for param in EVERY_CASE if param.values[0].is_differentiable]
NEEDS_THE_LENGTH = {"broadcast_to-0"}
"""In a graph, what makes a new array needs its whole shape."""


def eagerly(function: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Any:
    return function(*map(tf.constant, arrays))


def in_a_graph(function: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Any:
    """Call a function as a graph that leaves the length of every leading axis open."""
    signature = [tf.TensorSpec((None, *array.shape[1:]), array.dtype) for array in arrays]
    return tf.function(function, signature, autograph=False)(*arrays)


in_both_modes = pytest.mark.parametrize("run", [eagerly, in_a_graph])


def test_every_function_of_the_namespace_has_a_parity_case():
    assert sorted(FUNCTIONS) == sorted(CASES)


@in_both_modes
@pytest.mark.parametrize("case", EVERY_CASE)
def test_values_dtypes_and_shapes_equal_those_of_numpy(case, run):
    expected = np.asarray(case.call(numpy_xp, *case.arrays))

    result = run(lambda *arrays: case.call(tf_xp, *arrays), case.arrays).numpy()

    assert expected.dtype == result.dtype
    assert expected.shape == result.shape
    # The two libraries' exp, log and tanh differ in the last bits of 24 (6e-8 of a value), their sums in order:
    # twelve terms near 1 are rounded at 6e-8 of up to 4 a few times, whatever they cancel to.
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", SMOOTH_CASES)
def test_gradients_equal_finite_differences_in_float64(case):
    floats = [array.astype(np.float64) for array in case.arrays if array.dtype == np.float32]
    held = [tf.constant(array) for array in case.arrays if array.dtype != np.float32]

    def call(*arrays: Any) -> Any:
        remaining, rest = iter(arrays), iter(held)
        return case.call(tf_xp, *(next(remaining if a.dtype == np.float32 else rest) for a in case.arrays))

    expected, found = jacobians_of(call, floats)

    for numeric, gradient in zip(expected, found, strict=True):
        # Central differences in float64: 1e-12 of curvature by steps of 1e-6, and 1e-10 of rounding.
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-8)


def jacobians_of(call: Callable[..., Any], floats: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the slopes of `sum(call * weights)` by finite differences and by the gradient."""
    weights = np.random.default_rng(1).normal(size=call(*map(tf.constant, floats)).shape)
    numeric = []
    for index, array in enumerate(floats):
        slopes = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            sums = []
            for step in (1e-6, -1e-6):
                moved = [other.copy() for other in floats]
                moved[index][place] += step
                sums.append(float(np.sum(call(*map(tf.constant, moved)).numpy() * weights)))
            slopes[place] = (sums[0] - sums[1]) / 2e-6
        numeric.append(slopes)
    native = [tf.constant(array) for array in floats]
    with tf.GradientTape() as tape:
        tape.watch(native)
        value = tf.reduce_sum(call(*native) * weights)
    gradients = tape.gradient(value, native, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return numeric, [gradient.numpy() for gradient in gradients]


@pytest.mark.parametrize("case", SMOOTH_CASES)
def test_gradients_in_a_graph_are_those_of_define_by_run(case):
    is_smooth = [array.dtype == np.float32 for array in case.arrays]

    def gradients(*arrays: Any) -> Any:
        sources = [array for array, smooth in zip(arrays, is_smooth, strict=True) if smooth]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            value = tf.reduce_sum(tf.sin(case.call(tf_xp, *arrays)))
        found = tape.gradient(value, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [tf.convert_to_tensor(gradient) for gradient in found]

    for expected, found in zip(eagerly(gradients, case.arrays), in_a_graph(gradients, case.arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_stop_gradient_makes_a_constant_of_the_same_values():
    x = tf.constant([3.0])

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * tf_xp.stop_gradient(x)

    assert tape.gradient(y, x).numpy() == 3.0  # with the gradient flowing on, it would be 6


def test_the_deviation_of_equal_numbers_has_no_slope():
    x = tf.constant([2.0, 2.0])

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf_xp.std(x)

    np.testing.assert_array_equal([0.0, 0.0], tape.gradient(y, x))


def test_a_deviation_of_what_is_no_number_is_none():
    assert np.isnan(tf_xp.std(tf.constant([2.0, np.nan])))


@pytest.mark.parametrize("name", ["mean", "std"])
def test_what_numpy_refuses_to_promote_is_refused_alike(name):
    with pytest.raises(TypeError, match=r"takes float32, got int32: cast it first"):
        getattr(tf_xp, name)(tf.constant([1, 2]))


@pytest.mark.parametrize("name", ["sum", "cumulative_sum"])
def test_flags_are_not_summed_here_either(name):
    with pytest.raises(TypeError, match=r"takes numbers, got flags: cast them first"):
        getattr(tf_xp, name)(tf.constant([True, False]))


@pytest.mark.parametrize("xp", [numpy_xp, tf_xp], ids=lambda xp: xp.name)
def test_squeeze_refuses_an_axis_that_is_longer_than_one(xp):
    with pytest.raises(ValueError, match="squeeze"):
        xp.squeeze(xp.ones((2, 3)), axis=0)


@in_both_modes
def test_recurrence_refuses_factors_of_another_shape(run):
    with pytest.raises(ShapeError, match=r"`a` has shape \(\w+, 2\), `b` has \(\w+, 3\)"):
        run(tf_xp.linear_recurrence, (np.ones((4, 2), np.float32), np.ones((4, 3), np.float32)))


def test_an_index_beyond_the_last_one_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf_xp.pick(tf.constant(X), tf.constant([0, 4, 0]))


@pytest.mark.parametrize("name", ["zeros", "ones"])
def test_a_shape_that_a_graph_leaves_open_is_refused_with_the_way_out(name):
    with pytest.raises(TypeError, match=rf"^{name} got the shape \(None, 2\), and a graph leaves .+zeros_like"):
        in_a_graph(lambda x: getattr(tf_xp, name)((x.shape[0], 2)), (X,))


def test_read_only_arrays_are_taken_and_copied():
    array = np.ones(16, np.float32)
    array.flags.writeable = False
    taken = tf_xp.asarray(array)

    array.flags.writeable = True
    array[:] = 7.0

    np.testing.assert_array_equal(np.ones(16), taken)


@settings(deadline=None)  # the first call traces a graph
@given(
    st.integers(0, 33).flatmap(
        lambda steps: st.tuples(
            hnp.arrays(np.float32, (steps, 2), elements=st.floats(-1, 1, width=32)),
            hnp.arrays(np.float32, (steps, 2), elements=st.floats(-100, 100, width=32)),
        )
    ),
    st.booleans(),
)
def test_recurrences_of_any_length_are_the_same_in_one_graph(pair, reverse):
    expected = numpy_xp.linear_recurrence(*pair, reverse=reverse)

    # Products and sums of two are correctly rounded everywhere, and all take the same steps in the same order; but
    # TensorFlow takes what is below 1.2e-38 for 0.
    results = (
        tf_xp.linear_recurrence(*map(tf.constant, pair), reverse=reverse),
        RECURRENCES[reverse](*pair),
    )
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=0.0, atol=1e-36)


RECURRENCES = [
    tf.function(
        lambda a, b, reverse=reverse: tf_xp.linear_recurrence(a, b, reverse=reverse),
        [tf.TensorSpec((None, 2))] * 2,
        autograph=False,
    )
    for reverse in (False, True)
]
"""Graphs that leave the length open, forwards and backwards."""
