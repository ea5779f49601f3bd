"""Network specs on TensorFlow: the values of NumPy, true gradients, weights that come back, and what is not trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.backend import Adam
from rheos.errors import ShapeError
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.networks.specs import (
    CNN,
    GRU,
    LSTM,
    MLP,
    Activation,
    Heads,
    NetworkSpec,
    Normalizer,
    Parameter,
    ResNet,
    Tree,
)
from rheos.networks.weights import trainable_shapes, weight_shapes
from rheos_tf.backend import TFBackend
from rheos_tf.framework import tf
from rheos_tf.namespace import tf_xp

EYE = CNN((12, 10, 3), 7, ((4, 4, 2), (6, 3, 1)), Activation.TANH)
SPECS: dict[str, NetworkSpec] = {
    "mlp": MLP(5, 3, (8,)),
    "linear": MLP(5, 3, ()),
    "trunk": MLP(5, 6, (8,), Activation.RELU, activates_output=True),
    "cnn": EYE,
    "resnet": ResNet((9, 8, 3), 7, (4, 5), num_blocks=1),
    "normalizer": Normalizer(5, limit=2.0),
    "parameter": Parameter((2,), 0.5),
    "scalar": Parameter(()),
    "tree": Tree({"x": MLP(5, 4, (), activates_output=True), "image": EYE}),
    "heads": Heads(MLP(5, 6, (8,)), {"policy": MLP(6, 2, ()), "value": Heads(MLP(6, 3), {"mean": MLP(3, 1)})}),
}
RECURRENT: dict[str, LSTM | GRU] = {"lstm": LSTM(5, 4), "gru": GRU(5, 4)}
INPUTS: dict[str, tuple[int, ...]] = {**dict.fromkeys(SPECS, (5,)), "cnn": EYE.shape, "resnet": (9, 8, 3)}


def weights(specs: Any = SPECS) -> dict[str, np.ndarray]:
    """Initial weights, with biases and statistics that are not 0."""
    generator = np.random.default_rng(0)
    drawn = initial_weights(specs, generator)
    for name, array in drawn.items():
        if name.endswith(("bias", "mean")):
            drawn[name] = generator.normal(size=array.shape).astype(np.float32)
        elif name.endswith("std"):
            drawn[name] = generator.uniform(0.5, 2.0, array.shape).astype(np.float32)
    return drawn


def inputs_of(name: str, leading: tuple[int, ...]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    shapes = {"x": (5,), "image": EYE.shape} if name == "tree" else {"x": INPUTS[name]}
    return {key: generator.normal(size=(*leading, *shape)).astype(np.float32) for key, shape in shapes.items()}


def calling(name: str) -> Any:
    """Return a function of one network: `(xp, networks, inputs) -> outputs`, nested ones by their paths."""

    def function(_xp: Any, networks: Any, inputs: Any) -> dict[str, Any]:
        outputs = networks[name](inputs if name == "tree" else inputs["x"])
        return dict(flattened("output", outputs))

    return function


def flattened(path: str, outputs: Any) -> list[tuple[str, Any]]:
    if not isinstance(outputs, dict):
        return [(path, outputs)]
    return [pair for key, output in outputs.items() for pair in flattened(f"{path}/{key}", output)]


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("name", SPECS)
def test_outputs_are_those_of_numpy_whatever_the_leading_axes(name, mode):
    backend = TFBackend(mode=mode)
    act = backend.infer(calling(name), backend.build(SPECS, weights()))

    for leading in ((), (4,), (2, 3), (1,), (2, 1, 3)):
        inputs = inputs_of(name, leading)
        expected = calling(name)(numpy_xp, NumpyNetworks(SPECS, weights()), inputs)
        found = act(inputs)

        assert list(expected) == list(found)
        for key, array in expected.items():
            assert array.shape == found[key].shape
            # float32, sums over at most 120 numbers of about 1, in up to six layers of them
            np.testing.assert_allclose(array, found[key], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_networks_give_outputs_and_state_of_numpy_for_any_number_of_steps(name, mode):
    backend = TFBackend(mode=mode)

    def function(_xp: Any, networks: Any, inputs: Any) -> dict[str, Any]:
        outputs, state = networks[name](inputs["x"], inputs["state"], inputs["is_first"])
        return {"outputs": outputs, "state": state}

    act = backend.infer(function, backend.build(RECURRENT, weights(RECURRENT)))
    for steps in (1, 2, 7):
        generator = np.random.default_rng(steps)
        inputs = {
            "x": generator.normal(size=(steps, 3, 5)).astype(np.float32),
            "state": generator.normal(size=(3, RECURRENT[name].state_size)).astype(np.float32),
            "is_first": generator.random((steps, 3)) < 0.3,
        }
        expected = function(numpy_xp, NumpyNetworks(RECURRENT, weights(RECURRENT)), inputs)

        found = act(inputs)

        for key, array in expected.items():
            np.testing.assert_allclose(array, found[key], rtol=1e-5, atol=1e-6)
    assert backend.num_compilations == (0 if mode == "eager" else 1)


@pytest.mark.parametrize("name", [name for name in SPECS if name != "normalizer"])
def test_gradients_are_those_of_finite_differences_on_numpy(name):
    inputs, step = inputs_of(name, (4,)), 3e-5 if name == "resnet" else 3e-3  # its ReLUs bend at every turn
    native = TFBackend().build(SPECS, weights())
    direction = {
        weight: np.random.default_rng(2).normal(size=shape).astype(np.float32)
        for weight, shape in weight_shapes({name: SPECS[name]}).items()
    }

    def loss_along(distance: float) -> float:
        moved = {w: array + distance * direction.get(w, np.float32(0)) for w, array in weights().items()}
        outputs = calling(name)(numpy_xp, NumpyNetworks(SPECS, moved), inputs)
        return float(sum(np.square(output, dtype=np.float64).sum() for output in outputs.values()))

    with tf.GradientTape() as tape:
        outputs = calling(name)(tf_xp, native, {key: tf.constant(array) for key, array in inputs.items()})
        loss = tf.add_n([tf.reduce_sum(tf.square(output)) for output in outputs.values()])
    gradients = native.by_name([tape.gradient(loss, native.flat)])

    slope = (loss_along(step) - loss_along(-step)) / (2 * step)
    expected = sum(float((gradients[weight] * direction[weight]).sum()) for weight in direction)
    assert slope == pytest.approx(expected, rel=2e-2)  # of order step², rounding over step, and where a ReLU bends


def test_all_weights_come_back_in_their_order_and_as_copies():
    specs = {**SPECS, **RECURRENT}
    backend = TFBackend()
    native = backend.build(specs, weights(specs))

    found = backend.weights(native)
    for array in found.values():
        array += 1.0

    assert list(weight_shapes(specs)) == list(found)
    for name, array in backend.weights(native).items():
        np.testing.assert_array_equal(weights(specs)[name], array)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_an_update_moves_every_trainable_weight_and_no_normalizer(mode):
    backend = TFBackend(mode=mode)
    native = backend.build(SPECS, weights())
    optimizer = backend.optimizer(Adam(), native)
    columns = {f"{name}/{key}": array for name in SPECS for key, array in inputs_of(name, (16,)).items()}

    def loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        outputs = []
        for name in SPECS:
            inputs = {key.partition("/")[2]: array for key, array in batch.items() if key.startswith(f"{name}/")}
            if INPUTS[name] == (5,):
                inputs["x"] = networks["normalizer"](inputs["x"])
            outputs += calling(name)(xp, networks, inputs).values()
        return sum(xp.mean(xp.square(output)) for output in outputs if len(output.shape) > 0) + xp.square(
            networks["scalar"](batch["mlp/x"]) - 1.0
        ), {}

    update = backend.update(loss, native, optimizer, max_grad_norm=None)
    update(backend.put(columns), {"learning_rate": 1e-2})

    moved = {name for name, array in backend.weights(native).items() if not np.array_equal(weights()[name], array)}
    assert set(trainable_shapes(SPECS)) == moved
    assert not any("normalizer" in name for name in optimizer.state_dict())


def test_loading_some_weights_leaves_the_others_as_they_are():
    backend = TFBackend()
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
    backend = TFBackend()
    native = backend.build(SPECS, weights())

    with pytest.raises(ShapeError, match=message):
        backend.load(native, given, strict=False)

    np.testing.assert_array_equal(weights()["normalizer/mean"], backend.weights(native)["normalizer/mean"])


def test_without_saying_so_every_weight_must_be_given():
    backend = TFBackend()

    with pytest.raises(ShapeError, match="is missing"):
        backend.load(backend.build(SPECS, weights()), {"normalizer/mean": np.zeros(5, np.float32)})


def test_networks_are_those_of_the_specs_by_name():
    native = TFBackend().build(SPECS, weights())

    assert list(SPECS) == list(native)
    with pytest.raises(KeyError, match="critic"):
        native["critic"]
