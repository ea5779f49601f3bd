"""Network specs on torch: the values of NumPy, true gradients, weights that come back, and what is not trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rheos.backend import Adam
from rheos.errors import ShapeError
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.networks.specs import CNN, MLP, Activation, Normalizer, Parameter
from rheos.networks.weights import trainable_shapes, weight_shapes
from rheos_torch.backend import TorchBackend

SPECS = {
    "mlp": MLP(5, 3, (8,)),
    "trunk": MLP(5, 6, (8,), Activation.RELU, activates_output=True),
    "cnn": CNN((12, 10, 3), 7, ((4, 4, 2), (6, 3, 1)), Activation.TANH),
    "normalizer": Normalizer(5, limit=2.0),
    "parameter": Parameter((2,), 0.5),
}
INPUTS = {name: (12, 10, 3) if name == "cnn" else (5,) for name in SPECS}


def weights() -> dict[str, np.ndarray]:
    """Initial weights, with biases and statistics that are not 0."""
    generator = np.random.default_rng(0)
    drawn = initial_weights(SPECS, generator)
    for name, array in drawn.items():
        if name.endswith(("bias", "mean")):
            drawn[name] = generator.normal(size=array.shape).astype(np.float32)
        elif name.endswith("std"):
            drawn[name] = generator.uniform(0.5, 2.0, array.shape).astype(np.float32)
    return drawn


def inputs_of(name: str, leading: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(*leading, *INPUTS[name])).astype(np.float32)


@pytest.mark.parametrize("leading", [(), (4,), (2, 3), (1,), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("name", SPECS)
def test_outputs_are_those_of_numpy_whatever_the_leading_axes(name, leading):
    x = inputs_of(name, leading)

    expected = NumpyNetworks(SPECS, weights())[name](x)
    with torch.no_grad():
        outputs = TorchBackend().build(SPECS, weights())[name](torch.tensor(x)).numpy()

    assert expected.shape == outputs.shape
    np.testing.assert_allclose(expected, outputs, atol=2e-6)  # float32, sums over at most 120 numbers of about 1


@pytest.mark.parametrize("name", [name for name in SPECS if name != "normalizer"])
def test_gradients_are_those_of_finite_differences_on_numpy(name):
    x, step = inputs_of(name, (4,)), 3e-3
    backend = TorchBackend()
    native = backend.build(SPECS, weights())
    direction = {
        weight: np.random.default_rng(2).normal(size=shape).astype(np.float32)
        for weight, shape in weight_shapes({name: SPECS[name]}).items()
    }

    def loss_along(distance: float) -> float:
        moved = {w: array + distance * direction.get(w, np.float32(0)) for w, array in weights().items()}
        return float(np.square(NumpyNetworks(SPECS, moved)[name](x), dtype=np.float64).sum())

    torch.autograd.backward(torch.sum(torch.square(native[name](torch.tensor(x)))), inputs=native.parameters)
    gradients = native.by_name(native.gradient)

    slope = (loss_along(step) - loss_along(-step)) / (2 * step)
    expected = sum(float((gradients[weight] * direction[weight]).sum()) for weight in direction)
    assert slope == pytest.approx(expected, rel=2e-2)  # of order step², rounding over step, and where a ReLU bends


def test_all_weights_come_back_in_their_order_and_as_copies():
    backend = TorchBackend()
    native = backend.build(SPECS, weights())

    found = backend.weights(native)
    for array in found.values():
        array += 1.0

    assert list(weight_shapes(SPECS)) == list(found)
    for name, array in backend.weights(native).items():
        np.testing.assert_array_equal(weights()[name], array)


def test_an_update_moves_every_trainable_weight_and_no_normalizer():
    backend = TorchBackend()
    native = backend.build(SPECS, weights())
    optimizer = backend.optimizer(Adam(), native)

    def loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        outputs = [
            networks[name](networks["normalizer"](batch[name]) if INPUTS[name] == (5,) else batch[name])
            for name in SPECS
        ]
        return sum(xp.mean(xp.square(output)) for output in outputs), {}

    update = backend.update(loss, native, optimizer, max_grad_norm=None)
    update(backend.put({name: inputs_of(name, (16,)) for name in SPECS}), {"learning_rate": 1e-2})

    moved = {name for name, array in backend.weights(native).items() if not np.array_equal(weights()[name], array)}
    assert set(trainable_shapes(SPECS)) == moved
    assert not any("normalizer" in name for name in optimizer.state_dict())


def test_loading_some_weights_leaves_the_others_as_they_are():
    backend = TorchBackend()
    native = backend.build(SPECS, weights())
    given = {"normalizer/mean": np.full(5, 3.0, np.float32), "mlp/output/bias": np.ones(3, np.float32)}

    backend.load(native, given, strict=False)

    for name, array in backend.weights(native).items():
        np.testing.assert_array_equal({**weights(), **given}[name], array)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"normalizer/mean": np.zeros(4, np.float32)}, r"`normalizer/mean` has shape \(4,\), expected \(5,\)"),
        ({"normalizer/scale": np.zeros(5, np.float32)}, "`normalizer/scale` is unknown"),
    ],
    ids=["misshapen", "unknown"],
)
def test_some_weights_that_do_not_fit_are_refused_by_name_and_change_nothing(given, message):
    backend = TorchBackend()
    native = backend.build(SPECS, weights())

    with pytest.raises(ShapeError, match=message):
        backend.load(native, given, strict=False)

    np.testing.assert_array_equal(weights()["normalizer/mean"], backend.weights(native)["normalizer/mean"])


def test_without_saying_so_every_weight_must_be_given():
    backend = TorchBackend()

    with pytest.raises(ShapeError, match="is missing"):
        backend.load(backend.build(SPECS, weights()), {"normalizer/mean": np.zeros(5, np.float32)})
