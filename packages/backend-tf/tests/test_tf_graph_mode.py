"""`backend.mode=graph`: a traced update is the eager one, traced once, and what cannot be is refused clearly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rheos.backend import Adam, OptimizerSpec, RMSProp
from rheos.errors import ConfigError, ShapeError
from rheos.networks.initial import initial_weights
from rheos.networks.specs import CNN, GRU, MLP, Activation, Normalizer, Parameter
from rheos_tf.backend import TFBackend

TRAINED = {
    "cnn": CNN((5, 5, 2), 4, ((3, 3, 1),), Activation.TANH),
    "normalizer": Normalizer(3),
    "policy": MLP(7, 2, (8,)),
    "scale": Parameter((2,), 0.5),
}
FROZEN = {"target": MLP(3, 2, (8,))}


def loss(xp: Any, networks: Any, batch: Any, coefficients: Any) -> tuple[Any, dict[str, Any]]:
    """A loss that every network has a part in, with a range that may change from step to step."""
    features = xp.concat([networks["normalizer"](batch["x"]), networks["cnn"](batch["images"])], axis=-1)
    error = networks["policy"](features) * networks["scale"](features) - networks["target"](batch["x"])
    width = coefficients["range"]
    value = xp.mean(xp.square(error)) + xp.mean(xp.clip(error, -width, width))
    return value, {"error_max": xp.max(xp.abs(error))}


class Learning:
    """A backend with networks that are trained and one that is not, an optimizer and an update of `loss`."""

    def __init__(self, mode: str, spec: OptimizerSpec | None = None) -> None:
        self.backend = TFBackend(mode=mode)
        self.trained, self.frozen = (
            self.backend.build(specs, initial_weights(specs, np.random.default_rng(0))) for specs in (TRAINED, FROZEN)
        )
        self.optimizer = self.backend.optimizer(spec or Adam(), self.trained)
        networks = {**self.frozen, **self.trained}
        self.step = self.backend.update(loss, networks, self.optimizer, max_grad_norm=0.5)

    def update(self, seed: int, *, rows: int = 32, spoilt: bool = False) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(seed)
        batch = {
            "x": generator.normal(size=(rows, 3)).astype(np.float32),
            "images": generator.normal(size=(rows, 5, 5, 2)).astype(np.float32),
        }
        if spoilt:
            batch["x"][0, 0] = np.nan
        coefficients = {"learning_rate": 1e-2 / (seed + 1), "range": 0.1 * (seed + 1)}
        return self.backend.get(self.step(self.backend.put(batch), coefficients))

    def state(self) -> dict[str, np.ndarray]:
        weights = {**self.backend.weights(self.trained), **self.backend.weights(self.frozen)}
        return {**weights, **self.optimizer.state_dict()}


@pytest.mark.parametrize("spec", [Adam(), RMSProp(momentum=0.9, is_centered=True)], ids=["adam", "rmsprop"])
def test_traced_updates_are_the_eager_ones(spec):
    eager, graph = Learning("eager", spec), Learning("graph", spec)

    for seed, rows in enumerate((32, 31, 33, 200, 17, 1)):
        expected, found = eager.update(seed, rows=rows), graph.update(seed, rows=rows)
        assert list(expected) == list(found)
        for name, value in expected.items():
            np.testing.assert_allclose(value, found[name], rtol=1e-4)  # float32 in another order, over six steps

    for name, array in eager.state().items():
        np.testing.assert_allclose(array, graph.state()[name], atol=1e-5, err_msg=name)
    assert 0 == eager.backend.num_compilations


def test_a_hundred_updates_with_ragged_batches_and_schedules_are_traced_once():
    learning = Learning("graph")

    for seed in range(100):
        learning.update(seed, rows=32 if seed % 4 else 17 + seed)

    assert 1 == learning.backend.num_compilations


def test_auto_is_graph():
    learning = Learning("auto")

    learning.update(0)

    assert 1 == learning.backend.num_compilations


def test_inference_is_traced_once_for_any_number_of_rows_and_anew_for_other_columns():
    backend = TFBackend()
    networks = backend.build(FROZEN, initial_weights(FROZEN, np.random.default_rng(0)))
    act = backend.infer(lambda xp, nets, inputs: {"y": nets["target"](inputs["x"])}, networks)

    for rows in (1, 8, 1, 64):
        assert (rows, 2) == act({"x": np.zeros((rows, 3), np.float32)})["y"].shape
    assert 1 == backend.num_compilations

    act({"x": np.zeros((1, 3), np.float32), "noise": np.zeros((1, 2), np.float32)})
    act({"x": np.zeros((2, 2, 3), np.float32)})
    assert 3 == backend.num_compilations


def test_a_traced_update_leaves_what_is_not_trained_and_changes_nothing_by_a_spoilt_gradient():
    graph = Learning("graph")
    fresh = graph.state()

    graph.update(0)
    before = graph.state()
    metrics = graph.update(1, spoilt=True)

    moved = {name for name in fresh if not np.array_equal(fresh[name], before[name])}
    assert "policy/output/kernel" in moved
    assert not any(name.startswith(("normalizer", "target")) for name in moved)
    assert np.isnan(metrics["grad_norm"])
    for name, array in before.items():
        np.testing.assert_array_equal(array, graph.state()[name])


def test_a_time_major_loss_with_a_recurrent_network_learns_alike_in_both_modes():
    specs = {"memory": GRU(3, 4), "value": MLP(4, 1)}
    generator = np.random.default_rng(0)
    batch = {
        "x": generator.normal(size=(6, 5, 3)).astype(np.float32),
        "state": generator.normal(size=(5, 4)).astype(np.float32),
        "is_first": generator.random((6, 5)) < 0.2,
    }

    def returns(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        features, _ = networks["memory"](batch["x"], batch["state"], batch["is_first"])
        values = xp.squeeze(networks["value"](features), axis=-1)
        kept = 0.9 * (1.0 - xp.astype(batch["is_first"], xp.float32))
        return xp.mean(xp.square(xp.linear_recurrence(kept, values, reverse=True) - 1.0)), {}

    states = []
    for mode in ("eager", "graph"):
        backend = TFBackend(mode=mode)
        networks = backend.build(specs, initial_weights(specs, np.random.default_rng(0)))
        optimizer = backend.optimizer(Adam(), networks)
        update = backend.update(returns, networks, optimizer, max_grad_norm=None)
        for steps in (6, 6, 3, 1):
            columns = {**batch, "x": batch["x"][:steps], "is_first": batch["is_first"][:steps]}
            update(backend.put(columns), {"learning_rate": 1e-2})
        states.append({**backend.weights(networks), **optimizer.state_dict()})

    assert 1 == backend.num_compilations
    for name, array in states[0].items():
        np.testing.assert_allclose(array, states[1][name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    "branching",
    [
        lambda value: value if value > 0 else -value,
        lambda value: value * float(np.asarray(value)),
    ],
    ids=["a branch", "a number"],
)
def test_a_loss_that_needs_values_cannot_be_traced_and_is_refused_in_one_line_with_the_way_out(branching):
    backend = TFBackend()
    networks = backend.build(FROZEN, initial_weights(FROZEN, np.random.default_rng(0)))

    def loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        return branching(xp.mean(networks["target"](batch["x"]))), {}

    step = backend.update(loss, networks, backend.optimizer(Adam(), networks), max_grad_norm=None)

    with pytest.raises(ConfigError, match=r"^backend.mode: TensorFlow cannot trace the loss \(.+\): use backend"):
        step(backend.put({"x": np.ones((3, 3), np.float32)}), {"learning_rate": 1e-2})


def test_an_error_of_the_loss_itself_keeps_its_type():
    backend = TFBackend()
    networks = backend.build(FROZEN, initial_weights(FROZEN, np.random.default_rng(0)))

    def loss(xp: Any, _networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        return xp.linear_recurrence(batch["x"], batch["y"]), {}

    step = backend.update(loss, networks, backend.optimizer(Adam(), networks), max_grad_norm=None)

    with pytest.raises(ShapeError, match="linear_recurrence takes factors and terms of one shape"):
        step(backend.put({"x": np.ones((3, 3)), "y": np.ones((3, 2))}), {"learning_rate": 1e-2})
