"""Initial weights and the forward pass in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.errors import ShapeError
from rheos.networks.initial import initial_weights, orthogonal
from rheos.networks.numpy_networks import MAX_NUMPY_WEIGHTS, NumpyNetworks, acts_in_numpy
from rheos.networks.specs import MLP, Activation, Parameter
from rheos.networks.weights import weight_shapes

SPECS = {"policy": MLP(4, 2, hidden=(8, 8), output_scale=0.01), "log_std": Parameter((2,), initial=-0.5)}


def weights_of(specs, seed=0):
    return initial_weights(specs, np.random.default_rng(seed))


@given(st.integers(1, 20), st.integers(1, 20), st.floats(0.01, 3.0))
def test_kernels_start_with_orthogonal_rows_or_columns_of_the_given_length(rows, columns, scale):
    kernel = orthogonal((rows, columns), scale, np.random.default_rng(0)).astype(np.float64)

    gram = kernel @ kernel.T if rows <= columns else kernel.T @ kernel

    # Entries are rounded to float32 (6e-8) and up to 20 of them summed.
    np.testing.assert_allclose(gram, scale**2 * np.eye(min(rows, columns)), atol=1e-5)


def test_signs_of_an_orthogonal_kernel_are_as_often_negative_as_positive():
    generator = np.random.default_rng(0)

    corners = np.array([orthogonal((3, 3), 1.0, generator)[0, 0] for _ in range(2_000)])

    # An entry of a uniform rotation has mean 0 and deviation 1/√3: the mean of 2,000 lies within
    # 4 · 0.577 / √2000 = 0.052. LAPACK's own signs make this corner negative every time.
    assert abs(corners.mean()) < 0.052


def test_initial_weights_have_canonical_names_shapes_scales_and_zero_biases():
    weights = weights_of(SPECS)

    assert weight_shapes(SPECS) == {name: array.shape for name, array in weights.items()}
    assert list(weight_shapes(SPECS)) == list(weights)
    assert {np.dtype(np.float32)} == {array.dtype for array in weights.values()}
    assert not any(array.any() for name, array in weights.items() if name.endswith("/bias"))
    np.testing.assert_array_equal(np.float32([-0.5, -0.5]), weights["log_std/value"])
    np.testing.assert_allclose(np.linalg.norm(weights["policy/hidden_1/kernel"], axis=0), 2**0.5, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(weights["policy/output/kernel"], axis=0), 0.01, rtol=1e-5)


def test_a_seed_gives_the_same_weights_and_another_gives_others():
    first, again, other = weights_of(SPECS, 1), weights_of(SPECS, 1), weights_of(SPECS, 2)

    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["policy/output/kernel"], other["policy/output/kernel"])


@pytest.mark.parametrize(
    ("activation", "expected"), [(Activation.TANH, [np.tanh(0.7) * 2 + 1]), (Activation.RELU, [2.4])]
)
def test_forward_pass_is_the_formula(activation, expected):
    specs = {"value": MLP(2, 1, hidden=(1,), activation=activation)}
    weights = {
        "value/hidden_0/kernel": np.float32([[0.1], [0.2]]),
        "value/hidden_0/bias": np.float32([0.2]),
        "value/output/kernel": np.float32([[2.0]]),
        "value/output/bias": np.float32([1.0]),
    }

    value = NumpyNetworks(specs, weights)["value"](np.float32([[1.0, 2.0]]))

    np.testing.assert_allclose(value, [expected], rtol=1e-6)
    assert value.dtype == np.float32


def test_relu_cuts_off_what_is_negative():
    specs = {"value": MLP(1, 1, hidden=(1,), activation=Activation.RELU)}
    names = ("hidden_0/kernel", "output/kernel", "hidden_0/bias", "output/bias")
    ones_and_zeros = (np.ones((1, 1)), np.ones((1, 1)), np.zeros(1), np.zeros(1))
    networks = NumpyNetworks(specs, {f"value/{n}": w for n, w in zip(names, ones_and_zeros, strict=True)})

    np.testing.assert_array_equal([[0.0], [3.0]], networks["value"](np.float32([[-3.0], [3.0]])))


@pytest.mark.parametrize("lead", [(), (5,), (3, 5), (2, 3, 5)])
def test_leading_axes_are_kept(lead):
    networks = NumpyNetworks(SPECS, weights_of(SPECS))
    x = np.random.default_rng(0).random((*lead, 4), np.float32)

    result = networks["policy"](x)

    assert (*lead, 2) == result.shape
    rows = np.array([networks["policy"](row) for row in x.reshape(-1, 4)])
    # BLAS may order the sums of a row otherwise than those of many rows: a rounding or two.
    np.testing.assert_allclose(result.reshape(-1, 2), rows, rtol=1e-5, atol=1e-7)


def test_a_parameter_ignores_its_input():
    networks = NumpyNetworks(SPECS, weights_of(SPECS))

    np.testing.assert_array_equal(np.float32([-0.5, -0.5]), networks["log_std"](np.zeros((3, 4), np.float32)))


def test_results_and_inputs_of_earlier_calls_are_not_overwritten():
    networks = NumpyNetworks(SPECS, weights_of(SPECS))
    first_x, second_x = np.random.default_rng(0).random((2, 5, 4), np.float32)
    kept_x = first_x.copy()
    first = networks["policy"](first_x)
    kept = first.copy()

    networks["policy"](second_x)

    np.testing.assert_array_equal(kept, first)
    np.testing.assert_array_equal(kept_x, first_x)


def test_loaded_weights_are_copied_and_replace_the_old_ones():
    networks = NumpyNetworks(SPECS, weights_of(SPECS, 1))
    weights = weights_of(SPECS, 2)
    x = np.ones((1, 4), np.float32)

    networks.load(weights)

    expected = NumpyNetworks(SPECS, weights_of(SPECS, 2))["policy"](x)
    weights["policy/output/bias"] += 1.0
    np.testing.assert_array_equal(expected, networks["policy"](x))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("policy/output/bias"), r"`policy/output/bias` is missing, expected shape \(2,\)"),
        (lambda w: w.update({"policy/output/bias": np.zeros(3)}), r"`policy/output/bias` has shape \(3,\), expected"),
        (lambda w: w.update({"critic/value": np.zeros(3)}), r"`critic/value` is unknown, expected policy/hidden_0"),
    ],
)
def test_weights_of_other_networks_are_refused_by_name_and_change_nothing(change, message):
    networks = NumpyNetworks(SPECS, weights_of(SPECS, 1))
    others = weights_of(SPECS, 2)
    change(others)
    x = np.ones((1, 4), np.float32)
    expected = networks["policy"](x)

    with pytest.raises(ShapeError, match=message):
        networks.load(others)

    np.testing.assert_array_equal(expected, networks["policy"](x))


def test_networks_are_a_mapping_in_the_order_of_the_specs():
    assert ["policy", "log_std"] == list(NumpyNetworks(SPECS, weights_of(SPECS)))
    assert len(NumpyNetworks(SPECS, weights_of(SPECS))) == 2


def test_small_networks_act_in_numpy_and_large_ones_do_not():
    assert acts_in_numpy({"policy": MLP(4, 2), "value": MLP(4, 1), "log_std": Parameter((2,))})
    assert acts_in_numpy({"value": MLP(1, 1, hidden=(MAX_NUMPY_WEIGHTS // 3 - 1,))})
    assert not acts_in_numpy({"value": MLP(1, 1, hidden=(MAX_NUMPY_WEIGHTS // 3 + 1,))})
