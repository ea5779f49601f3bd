"""The verbs of the TensorFlow backend, as a graph and define-by-run: updates that equal a loop in NumPy, and states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rheos.backend import Adam
from rheos.errors import ShapeError
from rheos.networks.initial import initial_weights
from rheos.networks.specs import MLP, Normalizer, Parameter
from rheos.networks.weights import weight_shapes
from rheos_tf.backend import TFBackend

SPECS = {"policy": MLP(4, 2), "value": MLP(4, 1), "scale": Parameter((2,), initial=0.5)}
MODES = ("eager", "graph")
every_mode = pytest.mark.parametrize("mode", MODES)


def weights_of(specs: Any = SPECS, seed: int = 0) -> dict[str, np.ndarray]:
    return initial_weights(specs, np.random.default_rng(seed))


def batch_of(size: int = 32, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        "x": generator.normal(size=(size, 4)).astype(np.float32),
        "y": generator.normal(size=(size, 2)).astype(np.float32),
    }


def squared_error(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
    """A loss that every weight of SPECS has a part in."""
    x = batch["x"]
    error = networks["policy"](x) * networks["scale"](x) + networks["value"](x) - batch["y"]
    loss = xp.mean(xp.square(error))
    return loss, {"error_max": xp.max(xp.abs(error))}


class Learning:
    """A backend with networks, an optimizer and an update of a loss."""

    def __init__(
        self,
        mode: str = "graph",
        *,
        max_grad_norm: float | None = 0.5,
        loss: Any = squared_error,
        specs: Any = SPECS,
    ) -> None:
        self.backend = TFBackend(mode=mode)
        self.networks = self.backend.build(specs, weights_of(specs))
        self.optimizer = self.backend.optimizer(Adam(), self.networks)
        self.step = self.backend.update(loss, self.networks, self.optimizer, max_grad_norm=max_grad_norm)

    def update(self, batch: dict[str, np.ndarray], learning_rate: float = 1e-2) -> dict[str, np.ndarray]:
        return self.backend.get(self.step(self.backend.put(batch), {"learning_rate": learning_rate}))

    def state(self) -> dict[str, np.ndarray]:
        return {**self.backend.weights(self.networks), **self.optimizer.state_dict()}


def assert_equal_arrays(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    assert list(expected) == list(actual)
    for name, array in expected.items():
        np.testing.assert_array_equal(array, actual[name], err_msg=name)


# Weights


def test_weights_come_back_bit_for_bit_under_canonical_names():
    backend = TFBackend()

    result = backend.weights(backend.build(SPECS, weights_of()))

    assert_equal_arrays(weights_of(), result)
    assert list(weight_shapes(SPECS)) == list(result)


def test_weights_are_a_copy_that_neither_changes_nor_is_changed_by_what_follows():
    learning = Learning()
    before = learning.backend.weights(learning.networks)

    learning.update(batch_of())
    after = learning.backend.weights(learning.networks)
    for array in after.values():
        array[...] = 7.0

    assert_equal_arrays(weights_of(), before)
    assert not any((array == 7.0).any() for array in learning.backend.weights(learning.networks).values())


def test_load_overwrites_all_weights_and_takes_read_only_arrays():
    backend = TFBackend()
    networks = backend.build(SPECS, weights_of(seed=1))
    others = weights_of(seed=2)
    for array in others.values():
        array.flags.writeable = False

    backend.load(networks, others)

    assert_equal_arrays(others, backend.weights(networks))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("value/output/bias"), r"`value/output/bias` is missing, expected shape \(1,\)"),
        (
            lambda w: w.update({"value/output/bias": np.zeros(3)}),
            r"`value/output/bias` has shape \(3,\), expected \(1,\)",
        ),
        (lambda w: w.update({"critic/value": np.zeros(3)}), r"`critic/value` is unknown, expected policy/hidden_0"),
    ],
)
def test_weights_of_other_networks_are_refused_by_name_and_change_nothing(change, message):
    backend = TFBackend()
    networks = backend.build(SPECS, weights_of(seed=1))
    others = weights_of(seed=2)
    change(others)

    with pytest.raises(ShapeError, match=message):
        backend.load(networks, others)

    assert_equal_arrays(weights_of(seed=1), backend.weights(networks))


# Updates


@every_mode
def test_after_one_update_every_weight_tensor_moved_and_the_loss_on_the_same_batch_fell(mode):
    learning = Learning(mode)
    before, batch = learning.backend.weights(learning.networks), batch_of()

    first = learning.update(batch, learning_rate=1e-3)
    second = learning.update(batch, learning_rate=1e-3)

    after = learning.backend.weights(learning.networks)
    assert [] == [name for name in before if np.array_equal(before[name], after[name])]
    assert second["loss"] < first["loss"]


@every_mode
def test_metrics_are_those_of_the_loss_and_loss_and_grad_norm(mode):
    metrics = Learning(mode).update(batch_of())

    assert ["error_max", "loss", "grad_norm"] == list(metrics)
    assert {()} == {metric.shape for metric in metrics.values()}


GRADIENT = np.array([3.0, -4.0], np.float32)
"""Of norm 5."""


def linear_loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
    """A loss whose gradient is `batch["g"]` whatever the weights."""
    return xp.sum(networks["w"](batch["g"]) * batch["g"]), {}


@every_mode
def test_first_step_of_adam_moves_every_weight_by_the_learning_rate_against_the_gradient(mode):
    learning = Learning(mode, max_grad_norm=None, loss=linear_loss, specs={"w": Parameter((2,))})

    learning.update({"g": GRADIENT}, learning_rate=0.1)

    # Kingma & Ba 2015, section 2.1: m̂ / √v̂ = g / |g| after bias correction; epsilon is 1e-8 beside 3.
    np.testing.assert_allclose(learning.state()["w/value"], [-0.1, 0.1], rtol=1e-6)


@every_mode
@pytest.mark.parametrize(("max_grad_norm", "expected"), [(None, 1.0), (10.0, 1.0), (2.0, 2.0 / 5.0)])
def test_gradients_are_scaled_down_to_the_global_norm_and_never_up(mode, max_grad_norm, expected):
    learning = Learning(mode, max_grad_norm=max_grad_norm, loss=linear_loss, specs={"w": Parameter((2,))})

    metrics = learning.update({"g": GRADIENT})

    # The first moment after one step is (1 - β₁) = 0.1 of the gradient that was applied.
    np.testing.assert_allclose(learning.state()["first_moment/w/value"], 0.1 * expected * GRADIENT, rtol=1e-5)
    assert metrics["grad_norm"] == pytest.approx(5.0)


@every_mode
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("max_grad_norm", [None, 0.5])
def test_a_gradient_that_is_not_finite_changes_nothing_and_shows_in_grad_norm(mode, bad, max_grad_norm):
    learning = Learning(mode, max_grad_norm=max_grad_norm)
    learning.update(batch_of(seed=1))
    before, poisoned = learning.state(), batch_of(seed=2)
    poisoned["y"][3, 1] = bad

    metrics = learning.update(poisoned)

    assert not np.isfinite(metrics["grad_norm"])
    assert_equal_arrays(before, learning.state())


def test_updates_after_a_skipped_one_are_those_of_a_run_without_it():
    with_it, without_it = Learning(), Learning()
    poisoned = batch_of()
    poisoned["x"][0, 0] = np.nan

    with_it.update(poisoned)

    for seed in range(3):
        with_it.update(batch_of(seed=seed))
        without_it.update(batch_of(seed=seed))
    assert_equal_arrays(without_it.state(), with_it.state())


@every_mode
def test_only_what_the_optimizer_was_made_for_is_trained(mode):
    backend = TFBackend(mode=mode)
    trained = backend.build(
        {"policy": MLP(4, 2), "scale": Parameter((2,), initial=0.5)}, weights_of_some("policy", "scale")
    )
    frozen = backend.build({"critic": MLP(4, 1)}, {f"critic/{k[6:]}": v for k, v in weights_of_some("value").items()})
    networks = {**trained, "value": frozen["critic"]}  # a network may be called otherwise in a loss
    step = backend.update(squared_error, networks, backend.optimizer(Adam(), trained), max_grad_norm=None)
    before = backend.weights(frozen)

    step(backend.put(batch_of()), {"learning_rate": 1e-2})

    assert_equal_arrays(before, backend.weights(frozen))
    assert not np.array_equal(weights_of()["scale/value"], backend.weights(trained)["scale/value"])


def weights_of_some(*networks: str) -> dict[str, np.ndarray]:
    return {name: array for name, array in weights_of().items() if name.split("/")[0] in networks}


def test_a_weight_that_the_loss_does_not_reach_has_gradient_0():
    specs = {"w": Parameter((2,)), "other": MLP(4, 1, hidden=())}
    learning = Learning(max_grad_norm=None, loss=linear_loss, specs=specs)

    learning.update({"g": GRADIENT})

    state = learning.state()
    np.testing.assert_array_equal(weights_of(specs)["other/output/kernel"], state["other/output/kernel"])
    assert not state["first_moment/other/output/kernel"].any()


@every_mode
def test_the_same_updates_from_the_same_weights_give_the_same_bits(mode):
    first, second = Learning(mode), Learning(mode)

    for seed in range(5):
        first.update(batch_of(seed=seed))
        second.update(batch_of(seed=seed))

    assert_equal_arrays(first.state(), second.state())


def test_n_updates_equal_k_updates_then_save_and_load_then_the_rest_bit_for_bit():
    whole, start, resumed = Learning(), Learning(), Learning()
    batches = [batch_of(seed=seed) for seed in range(8)]

    for batch in batches:
        whole.update(batch)
    for batch in batches[:3]:
        start.update(batch)
    resumed.backend.load(resumed.networks, start.backend.weights(start.networks))
    resumed.optimizer.load_state_dict(start.optimizer.state_dict())
    for batch in batches[3:]:
        resumed.update(batch)

    assert_equal_arrays(whole.state(), resumed.state())


def test_optimizer_state_is_a_copy_by_the_names_of_the_weights():
    learning = Learning()
    learning.update(batch_of())
    state = learning.optimizer.state_dict()
    kept = {name: array.copy() for name, array in state.items()}

    learning.update(batch_of())

    names = list(weight_shapes(SPECS))
    assert ["steps", *(f"first_moment/{n}" for n in names), *(f"second_moment/{n}" for n in names)] == list(state)
    assert_equal_arrays(kept, state)


def test_optimizer_state_of_other_networks_is_refused_by_name_and_changes_nothing():
    learning = Learning()
    learning.update(batch_of())
    before = learning.optimizer.state_dict()
    other = {**Learning().optimizer.state_dict(), "second_moment/value/output/bias": np.zeros(7, np.float32)}

    with pytest.raises(ShapeError, match=r"`second_moment/value/output/bias` has shape \(7,\), expected \(1,\)"):
        learning.optimizer.load_state_dict(other)

    assert_equal_arrays(before, learning.optimizer.state_dict())


# Targets


@pytest.mark.parametrize("tau", [0.0, 0.005, 0.75, 1.0])
def test_polyak_moves_all_weights_by_tau_towards_others_and_leaves_those(tau):
    backend = TFBackend()
    specs = {**SPECS, "normalizer": Normalizer(3)}
    start, goal = weights_of(specs, seed=1), weights_of(specs, seed=2)
    goal["normalizer/mean"], goal["normalizer/std"] = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    target, source = backend.build(specs, start), backend.build(specs, goal)

    backend.polyak(target, source, tau)

    moved = backend.weights(target)
    for name, array in start.items():
        np.testing.assert_allclose(moved[name], (1 - tau) * array + tau * goal[name], rtol=1e-6, atol=1e-7)
    assert_equal_arrays(goal, backend.weights(source))
    if tau in (0.0, 1.0):
        assert_equal_arrays(start if tau == 0.0 else goal, moved)


# Arrays in and out


def test_put_copies_and_keeps_dtypes_of_read_only_columns():
    backend = TFBackend()
    columns = {
        "f": np.ones(16, np.float32),
        "d": np.ones(16, np.float64),
        "i": np.ones(16, np.int32),
        "u": np.ones(16, np.uint8),
        "b": np.ones(16, np.bool_),
    }
    for column in columns.values():
        column.flags.writeable = False

    native = backend.put(columns)
    columns["f"].flags.writeable = True
    columns["f"][:] = 0.0

    assert_equal_arrays({**columns, "f": np.ones(16, np.float32)}, backend.get(native))
    assert {name: c.dtype for name, c in columns.items()} == {name: c.dtype for name, c in backend.get(native).items()}


@every_mode
def test_minibatches_are_the_rows_of_every_column_in_the_order_asked_for(mode):
    backend = TFBackend(mode=mode)
    columns = {
        "x": np.arange(12.0, dtype=np.float32).reshape(4, 3),
        "action": np.arange(4, dtype=np.int32),
        "done": np.array([True, False, False, True]),
        "pixels": np.arange(16, dtype=np.uint8).reshape(4, 2, 2),
    }
    order, bounds = np.array([3, 0, 2, 1]), [slice(0, 1), slice(1, 4)]

    minibatches = [backend.get(part) for part in backend.minibatches(backend.put(columns), order, bounds)]

    assert len(bounds) == len(minibatches)
    for bound, minibatch in zip(bounds, minibatches, strict=True):
        assert_equal_arrays({name: column[order[bound]] for name, column in columns.items()}, minibatch)
    assert backend.num_compilations == 0  # neither an update nor an inference


def test_minibatches_may_leave_rows_out_and_take_rows_twice():
    backend = TFBackend()
    columns = backend.put({"x": np.arange(5.0)})

    minibatches = list(backend.minibatches(columns, np.array([4, 3, 2, 1, 0]), [slice(3, 5), slice(0, 2), slice(1, 3)]))

    assert [[1, 0], [4, 3], [3, 2]] == [minibatch["x"].numpy().tolist() for minibatch in minibatches]


@every_mode
def test_what_infer_gives_is_a_copy_even_of_a_parameter_or_an_input(mode):
    backend = TFBackend(mode=mode)
    networks = backend.build(SPECS, weights_of())
    act = backend.infer(lambda xp, nets, inputs: {"scale": nets["scale"](inputs["x"]), **inputs}, networks)
    inputs = {"x": np.ones((16, 4), np.float32)}

    outputs = act(inputs)
    for array in outputs.values():
        array[...] = 7.0

    np.testing.assert_array_equal(np.float32([0.5, 0.5]), backend.weights(networks)["scale/value"])
    np.testing.assert_array_equal(np.ones((16, 4)), inputs["x"])


@every_mode
def test_infer_sees_the_newest_weights(mode):
    learning = Learning(mode)
    batch = batch_of()
    act = learning.backend.infer(lambda xp, nets, inputs: {"v": nets["value"](inputs["x"])}, learning.networks)

    before = act(batch)["v"]
    learning.update(batch)

    assert not np.array_equal(before, act(batch)["v"])
