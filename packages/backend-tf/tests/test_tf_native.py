"""A user's own Keras model as a network: its weights, its updates in both modes, its seed, and what is refused."""

from __future__ import annotations

import importlib
import random
from typing import Any

import numpy as np
import pytest

from rheos.backend import Adam
from rheos.errors import ConfigError, ShapeError
from rheos.networks.initial import initial_weights
from rheos.networks.specs import MLP, Heads, Native
from rheos_tf.backend import TFBackend
from rheos_tf.framework import tf

keras: Any = importlib.import_module("keras")

NAMES = [
    *("sequential/dense/kernel", "sequential/dense/bias"),
    *(f"sequential/batch_normalization/{name}" for name in ("gamma", "beta", "moving_mean", "moving_variance")),
    *("sequential/held/kernel", "sequential/held/bias", "sequential/dense_1/kernel", "sequential/dense_1/bias"),
]


def make_model() -> Any:
    """Make a model with a layer that is not trained, statistics, and a generator of random numbers."""
    held = keras.layers.Dense(6, name="held", trainable=False)
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(6, activation="tanh"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.1),
            held,
            keras.layers.Dense(2),
        ]
    )


def squared_error(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
    return xp.mean(xp.square(networks["own"](batch["x"]) - batch["y"])), {}


def batch_of(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=(32, size)).astype(np.float32) for name, size in (("x", 4), ("y", 2))}


class Learning:
    """A backend with that model, an optimizer and an update of a loss."""

    def __init__(self, mode: str, make: Any = make_model) -> None:
        self.backend = TFBackend(mode=mode)
        self.networks = self.backend.build({"own": Native(make)}, {}, seed=3)
        self.optimizer = self.backend.optimizer(Adam(), self.networks)
        self.step = self.backend.update(squared_error, self.networks, self.optimizer, max_grad_norm=0.5)

    def update(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self.backend.get(self.step(self.backend.put(batch), {"learning_rate": 1e-2}))

    def state(self) -> dict[str, np.ndarray]:
        return {**self.backend.weights(self.networks), **self.optimizer.state_dict()}


every_mode = pytest.mark.parametrize("mode", ["eager", "graph"])


def test_weights_have_kerass_paths_however_many_layers_a_process_has_made():
    first, second = (TFBackend().build({"own": Native(make_model)}, {}) for _ in range(2))

    assert [f"own/{name}" for name in NAMES] == list(first.weights()) == list(second.weights())


def test_outputs_are_those_of_the_model_with_the_weights_that_are_loaded():
    backend = TFBackend()
    networks, others = (backend.build({"own": Native(make_model)}, {}, seed=seed) for seed in (1, 2))
    act = backend.infer(lambda xp, nets, inputs: {"y": nets["own"](inputs["x"])}, networks)
    x = batch_of()["x"]

    backend.load(networks, backend.weights(others))

    np.testing.assert_allclose(others.models[0](x), act({"x": x})["y"], rtol=1e-5, atol=1e-6)


@every_mode
def test_an_update_moves_what_is_trained_and_the_statistics_and_nothing_that_is_held(mode):
    learning = Learning(mode)
    before = learning.backend.weights(learning.networks)

    losses = [learning.update(batch_of())["loss"] for _ in range(30)]

    after = learning.backend.weights(learning.networks)
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    assert {name for name in before if "held" in name} == before.keys() - moved
    trained = [name for name in NAMES if "held" not in name and "moving" not in name]
    state = learning.optimizer.state_dict()
    assert [f"first_moment/own/{name}" for name in trained] == [name for name in state if name.startswith("first")]
    assert losses[-1] < losses[0]
    assert learning.backend.num_compilations == (1 if mode == "graph" else 0)


@every_mode
def test_a_spoilt_batch_moves_no_statistics_either(mode):
    learning = Learning(mode)
    learning.update(batch_of(seed=1))
    before, poisoned = learning.state(), batch_of(seed=2)
    poisoned["x"][3, 1] = np.nan

    learning.update(poisoned)

    for name, array in learning.state().items():
        np.testing.assert_array_equal(before[name], array, err_msg=name)


def test_gradients_of_specs_and_models_are_clipped_by_their_common_norm():
    def make() -> Any:
        model = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        model.build((None, 1))
        return model

    specs = {"own": Native(make), "mlp": MLP(1, 1, ())}
    backend = TFBackend()
    weights = {"mlp/output/kernel": np.zeros((1, 1), np.float32), "mlp/output/bias": np.zeros(1, np.float32)}
    networks = backend.build(specs, weights)
    optimizer = backend.optimizer(Adam(), networks)

    def loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        return xp.sum(2.0 * networks["own"](batch["x"]) + networks["mlp"](batch["x"])), {}

    update = backend.update(loss, networks, optimizer, max_grad_norm=1.5)

    metrics = update(backend.put({"x": np.full((1, 1), 2.0, np.float32)}), {"learning_rate": 0.0})

    # Gradients 4 of the model, 2 and 1 of the MLP: the norm is √21. First moments are a tenth.
    assert float(metrics["grad_norm"]) == pytest.approx(21**0.5)
    moments = {name: float(array.sum()) for name, array in optimizer.state_dict().items() if "first" in name}
    scale = 0.1 * 1.5 / 21**0.5
    assert moments == pytest.approx(
        {
            "first_moment/own/dense/kernel": 4 * scale,
            "first_moment/mlp/output/kernel": 2 * scale,
            "first_moment/mlp/output/bias": scale,
        },
        rel=1e-5,
    )


def test_a_model_may_be_a_part_of_a_network_and_embeddings_have_gradients():
    def make() -> Any:
        return keras.Sequential([keras.Input((1,)), keras.layers.Embedding(5, 3), keras.layers.Flatten()])

    specs = {"own": Heads(Native(make), {"value": MLP(3, 2, ())})}
    backend = TFBackend()
    networks = backend.build(specs, initial_weights(specs, np.random.default_rng(0)))
    optimizer = backend.optimizer(Adam(), networks)

    def loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        return xp.mean(xp.square(networks["own"](batch["x"])["value"] - 1.0)), {}

    before = backend.weights(networks)
    update = backend.update(loss, networks, optimizer, max_grad_norm=None)
    update(backend.put({"x": np.array([[1], [3]], np.float32)}), {"learning_rate": 0.1})

    name = "own/trunk/sequential/embedding/embeddings"
    assert [name, "own/value/output/kernel", "own/value/output/bias"] == list(before)
    moved = (backend.weights(networks)[name] != before[name]).any(axis=1)
    np.testing.assert_array_equal([False, True, False, True, False], moved)


def test_models_start_from_their_seed_and_leave_pythons_generator_alone():
    random.seed(1)
    expected = random.random()
    random.seed(1)

    first, same, other = (TFBackend().build({"own": Native(make_model)}, {}, seed=seed) for seed in (7, 7, 8))

    assert expected == random.random()
    kernels = [networks.weights()["own/sequential/dense/kernel"] for networks in (first, same, other)]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert not np.array_equal(kernels[0], kernels[2])


def test_polyak_moves_the_weights_of_models():
    backend = TFBackend()
    target, source = (backend.build({"own": Native(make_model)}, {}, seed=seed) for seed in (1, 2))

    backend.polyak(target, source, 1.0)

    for name, array in source.weights().items():
        np.testing.assert_array_equal(array, target.weights()[name])


def test_some_weights_of_a_model_are_not_enough():
    weights = TFBackend().build({"own": Native(make_model)}, {}).weights()
    del weights["own/sequential/held/bias"]

    with pytest.raises(ShapeError, match="`own/sequential/held/bias` is missing"):
        TFBackend().build({"own": Native(make_model)}, weights)


def _half() -> Any:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, dtype="bfloat16")])


def _alike() -> Any:
    class Model(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name="m")
            self.first, self.second = (self.add_weight(shape=(2,), name="same") for _ in range(2))

        def call(self, x: Any) -> Any:
            return x * self.first * self.second

    model = Model()
    model(tf.zeros((1, 2)))
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: object(), r"^network `own`: make\(\) gave object, expected a Keras model\.$"),
        (
            lambda: keras.Sequential([keras.layers.Dense(2)], name="lazy"),
            r"^network `own`: the model lazy has no weights yet: let make\(\) give it a keras.Input, or call it once",
        ),
        (_half, r"^network `own`: `own/sequential/dense/kernel` is bfloat16, expected float32\.$"),
        (_alike, r"^network `own`: two variables are called `own/m/same`: give their layers names\.$"),
    ],
    ids=["no model", "not built", "half", "alike"],
)
def test_what_is_no_keras_model_with_weights_is_refused_in_one_line(make, message):
    with pytest.raises(ConfigError, match=message):
        TFBackend().build({"own": Native(make)}, {})


def test_one_model_cannot_be_two_networks():
    model = make_model()
    backend = TFBackend()
    networks = backend.build({"own": Native(lambda: model)}, {})

    with pytest.raises(ConfigError, match=r"is in use already: let make\(\) make a new model each time\.$"):
        backend.build({"own": Native(lambda: model)}, {})

    assert networks.models == [model]
