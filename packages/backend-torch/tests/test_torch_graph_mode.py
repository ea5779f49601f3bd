"""`backend.mode=graph`: a compiled update is the eager one, compiled once, and what cannot be is refused clearly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from rheos.backend import Adam
from rheos.errors import ConfigError
from rheos.networks.initial import initial_weights
from rheos.networks.specs import CNN, MLP, Activation, Normalizer, Parameter
from rheos_torch.backend import TorchBackend

# torch's compiler itself uses what torch has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

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

    def __init__(self, mode: str, compiler: str = "inductor") -> None:
        self.backend = TorchBackend(mode=mode, compiler=compiler)
        self.trained, self.frozen = (
            self.backend.build(specs, initial_weights(specs, np.random.default_rng(0))) for specs in (TRAINED, FROZEN)
        )
        self.optimizer = self.backend.optimizer(Adam(), self.trained)
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


@pytest.fixture
def compiles_once() -> Iterator[None]:
    """Let torch compile the first call, and fail where it would compile again."""
    torch.compiler.reset()
    yield
    torch.compiler.set_stance("default")
    torch.compiler.reset()


@pytest.mark.usefixtures("compiles_once")
@pytest.mark.parametrize("compiler", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_updates_are_the_eager_ones_and_compile_once_for_like_rows_and_all_coefficients(compiler):
    eager, graph = Learning("eager"), Learning("graph", compiler)

    expected, found = [eager.update(0)], [graph.update(0)]
    torch.compiler.set_stance("fail_on_recompile")
    for seed, rows in enumerate((32, 31, 33, 200, 17), start=1):
        expected.append(eager.update(seed, rows=rows))
        found.append(graph.update(seed, rows=rows))

    assert [list(metrics) for metrics in expected] == [list(metrics) for metrics in found]
    for wanted, metrics in zip(expected, found, strict=True):
        for name, value in wanted.items():
            np.testing.assert_allclose(value, metrics[name], rtol=1e-4)  # float32 in another order, over six steps
    for name, array in eager.state().items():
        np.testing.assert_allclose(array, graph.state()[name], atol=1e-5, err_msg=name)
    assert (0, 1) == (eager.backend.num_compilations, graph.backend.num_compilations)


@pytest.mark.usefixtures("compiles_once")
def test_what_was_compiled_is_counted_by_the_backend_whose_update_it_was():
    def step_of(backend: TorchBackend, power: float) -> Any:
        specs = {"scale": Parameter((3,), 0.5)}
        networks = backend.build(specs, initial_weights(specs, np.random.default_rng(0)))

        def powers(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
            return xp.mean((networks["scale"](batch["x"]) * batch["x"]) ** power), {}

        step = backend.update(powers, networks, backend.optimizer(Adam(), networks), max_grad_norm=None)
        return lambda rows: step(backend.put({"x": np.ones((rows, 3), np.float32)}), {"learning_rate": 1e-2})

    first, second = (TorchBackend(mode="graph", compiler="aot_eager") for _ in range(2))
    counts = []

    for step, rows in [(step_of(first, 2.0), 5)] * 3 + [(step_of(first, 3.0), 5), (step_of(second, 4.0), 1)]:
        step(rows)
        counts.append((first.num_compilations, second.num_compilations))

    assert [(1, 0), (1, 0), (1, 0), (2, 0), (2, 1)] == counts


def test_acting_compiles_nothing():
    graph = Learning("graph", "aot_eager")
    act = graph.backend.infer(lambda xp, networks, inputs: {"y": networks["target"](inputs["x"])}, graph.frozen)

    act({"x": np.zeros((2, 3), np.float32)})

    assert 0 == graph.backend.num_compilations


@pytest.mark.usefixtures("compiles_once")
@pytest.mark.parametrize("compiler", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_compiled_update_leaves_what_is_not_trained_and_changes_nothing_by_a_spoilt_gradient(compiler):
    graph = Learning("graph", compiler)
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


@pytest.mark.usefixtures("compiles_once")
def test_a_loss_that_cannot_be_compiled_is_refused_in_one_line_with_the_way_out():
    backend = TorchBackend(mode="graph")
    specs = {"scale": Parameter((2,), 0.5)}
    networks = backend.build(specs, initial_weights(specs, np.random.default_rng(0)))

    def branching(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        value = xp.mean(networks["scale"](batch["x"]) * batch["x"])
        return (value if value > 0 else -value), {}

    step = backend.update(branching, networks, backend.optimizer(Adam(), networks), max_grad_norm=None)

    with pytest.raises(ConfigError, match=r"^backend.mode: torch cannot compile the loss \(.+\): use backend"):
        step(backend.put({"x": np.ones((3, 2), np.float32)}), {"learning_rate": 1e-2})


def test_a_missing_compiler_is_told_before_anything_runs(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")

    with pytest.raises(ConfigError, match=r"^backend.mode: 'graph' compiles C\+\+, but there is no `no-such-co"):
        TorchBackend(mode="graph")


@pytest.mark.parametrize("settings", [{"mode": "auto"}, {"mode": "eager"}, {"mode": "graph", "compiler": "aot_eager"}])
def test_other_modes_need_no_compiler(settings, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")

    assert TorchBackend(**settings).name == "torch"
