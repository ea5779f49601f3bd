"""LSTM and GRU in NumPy: the formulas, resets inside a fragment, and fragments that follow each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.errors import ShapeError
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.networks.specs import GRU, LSTM
from rheos.networks.weights import weight_shapes

SPECS = {"lstm": LSTM(3, 4), "gru": GRU(3, 4)}
KINDS = pytest.mark.parametrize("name", SPECS)


def networks(seed=0):
    """Networks whose weights, biases too, are all different from 0."""
    generator = np.random.default_rng(seed)
    return NumpyNetworks(
        SPECS, {n: generator.normal(size=shape).astype(np.float32) for n, shape in weight_shapes(SPECS).items()}
    )


def inputs(name, steps, rows, seed=1):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(steps, rows, 3)).astype(np.float32)
    return x, generator.normal(size=(rows, SPECS[name].state_size)).astype(np.float32)


def never(steps, rows):
    return np.zeros((steps, rows), bool)


def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


def test_a_step_of_an_lstm_is_the_formula_with_the_gates_in_their_order():
    gates = {"input": 0.1, "forget": -0.2, "cell": 0.3, "output": 0.4}
    weights = {
        "n/kernel": np.zeros((1, 4), np.float32),
        "n/recurrent_kernel": np.full((1, 4), 0.5, np.float32),
        "n/bias": np.float32(list(gates.values())),
    }

    outputs, state = NumpyNetworks({"n": LSTM(1, 1)}, weights)["n"](
        np.zeros((1, 1, 1), np.float32), np.float32([[0.6, 0.8]]), never(1, 1)
    )

    i, f, g, o = (0.3 + gate for gate in gates.values())  # 0.5 h is 0.3
    cell = sigmoid(f) * 0.8 + sigmoid(i) * math.tanh(g)
    output = sigmoid(o) * math.tanh(cell)
    np.testing.assert_allclose([[[output]]], outputs, rtol=1e-6)
    np.testing.assert_allclose([[output, cell]], state, rtol=1e-6)


def test_a_step_of_a_gru_is_the_formula_with_the_reset_after_the_product():
    weights = {
        "n/kernel": np.zeros((1, 3), np.float32),
        "n/recurrent_kernel": np.full((1, 3), 0.5, np.float32),
        "n/bias": np.float32([0.1, -0.2, 0.3]),
        "n/recurrent_bias": np.float32([0.7]),
    }

    outputs, state = NumpyNetworks({"n": GRU(1, 1)}, weights)["n"](
        np.zeros((1, 1, 1), np.float32), np.float32([[0.6]]), never(1, 1)
    )

    reset, update = sigmoid(0.3 + 0.1), sigmoid(0.3 - 0.2)
    output = (1 - update) * math.tanh(0.3 + reset * (0.3 + 0.7)) + update * 0.6
    np.testing.assert_allclose([[[output]]], outputs, rtol=1e-6)
    np.testing.assert_array_equal(outputs[-1], state)


@KINDS
def test_a_fragment_equals_its_pieces_with_the_state_passed_on(name):
    network = networks()[name]
    x, state = inputs(name, steps=7, rows=2)
    whole, last = network(x, state, never(7, 2))

    pieces = []
    for piece in (x[:1], x[1:4], x[4:]):
        outputs, state = network(piece, state, never(len(piece), 2))
        pieces.append(outputs)

    # The products of other numbers of rows may be summed in another order.
    np.testing.assert_allclose(whole, np.concatenate(pieces), atol=1e-6)
    np.testing.assert_allclose(last, state, atol=1e-6)


@given(st.sampled_from(list(SPECS)), st.lists(st.booleans(), min_size=1, max_size=9), st.integers(0, 9))
def test_a_reset_inside_a_fragment_starts_a_run_from_zeros(name, is_first, seed):
    network = networks(seed)[name]
    steps = len(is_first)
    x, state = inputs(name, steps, rows=1, seed=seed)

    outputs, last = network(x, state, np.array(is_first)[:, None])

    begins = sorted({0, *(t for t in range(steps) if is_first[t])})
    separate = []
    for begin, end in zip(begins, [*begins[1:], steps], strict=True):
        start = np.zeros_like(state) if is_first[begin] else state
        piece, state = network(x[begin:end], start, never(end - begin, 1))
        separate.append(piece)
    np.testing.assert_allclose(np.concatenate(separate), outputs, atol=1e-6)  # sums in another order
    np.testing.assert_allclose(state, last, atol=1e-6)


@KINDS
def test_a_reset_concerns_its_own_row_only(name):
    network = networks()[name]
    x, state = inputs(name, steps=5, rows=3)
    is_first = never(5, 3)
    is_first[2, 1] = True

    expected, _ = network(x, state, never(5, 3))
    outputs, _ = network(x, state, is_first)

    np.testing.assert_array_equal(expected[:, [0, 2]], outputs[:, [0, 2]])
    np.testing.assert_array_equal(expected[:2, 1], outputs[:2, 1])
    assert not np.isclose(expected[2:, 1], outputs[2:, 1]).all(axis=-1).any()


@KINDS
def test_a_reset_forgets_even_a_state_that_is_not_finite(name):
    network = networks()[name]
    x, state = inputs(name, steps=2, rows=1)

    expected, _ = network(x, np.zeros_like(state), never(2, 1))
    outputs, _ = network(x, np.full_like(state, np.nan), np.array([[True], [False]]))

    np.testing.assert_array_equal(expected, outputs)


@KINDS
def test_outputs_states_and_inputs_are_arrays_apart(name):
    network = networks()[name]
    x, state = inputs(name, steps=2, rows=1)
    kept_x, kept_state = x.copy(), state.copy()

    outputs, last = network(x, state, never(2, 1))
    kept = last.copy()
    outputs += 1.0

    np.testing.assert_array_equal(kept, last)
    np.testing.assert_array_equal(kept_x, x)
    np.testing.assert_array_equal(kept_state, state)
    assert outputs.dtype == last.dtype == np.float32


def test_weights_start_orthogonal_with_zero_biases_and_a_forget_gate_that_keeps():
    weights = initial_weights(SPECS, np.random.default_rng(0))

    assert weight_shapes(SPECS) == {name: array.shape for name, array in weights.items()}
    np.testing.assert_array_equal([0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0], weights["lstm/bias"])
    assert not weights["gru/bias"].any()
    assert not weights["gru/recurrent_bias"].any()
    for name in ("lstm/kernel", "lstm/recurrent_kernel", "gru/kernel", "gru/recurrent_kernel"):
        kernel = weights[name].astype(np.float64)
        np.testing.assert_allclose(np.eye(len(kernel)), kernel @ kernel.T, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("x", "state", "is_first"),
    [
        ((2, 3), (2, 8), (2, 1)),  # no time
        ((5, 2, 4), (2, 8), (5, 2)),  # other inputs
        ((5, 2, 3), (2, 4), (5, 2)),  # the state of a GRU
        ((5, 2, 3), (1, 8), (5, 2)),
        ((5, 2, 3), (2, 8), (5, 1)),
        ((5, 2, 3), (2, 8), (4, 2)),
        ((5, 2, 3), (2, 8), (5,)),
        ((5, 2, 3), (8,), (5, 2)),
    ],
)
def test_arrays_of_other_shapes_are_refused_not_broadcast(x, state, is_first):
    network = networks()["lstm"]

    with pytest.raises(ShapeError, match=r"takes time-major arrays \[T, B, 3\], \[B, 8\] and \[T, B\]\.$"):
        network(np.zeros(x, np.float32), np.zeros(state, np.float32), np.zeros(is_first, bool))
