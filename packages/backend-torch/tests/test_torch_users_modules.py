"""Updates of a user's own `torch.nn.Module`, with buffers that move and weights that do not, eagerly and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rheos.backend import Adam
from rheos.networks.specs import Native
from rheos_torch.backend import TorchBackend


class Normalizing(torch.nn.Module):
    """Moves two buffers and replaces one in training mode, has a frozen layer, and takes two arguments."""

    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.frozen = torch.nn.Linear(3, 2)
        self.frozen.requires_grad_(False)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return self.frozen(self.norm(self.dense(x - self.mean))) * scale


def squared_error(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
    error = networks["own"](batch["x"], xp.mean(batch["y"], axis=-1, keepdims=True)) - batch["y"]
    return xp.mean(xp.square(error)), {}


class Learning:
    """A backend with that module, an optimizer and an update of a loss."""

    def __init__(self, **settings: Any) -> None:
        self.backend = TorchBackend(**settings)
        self.networks = self.backend.build({"own": Native(Normalizing)}, {}, seed=3)
        self.optimizer = self.backend.optimizer(Adam(), self.networks)
        self.step = self.backend.update(squared_error, self.networks, self.optimizer, max_grad_norm=0.5)

    def update(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self.backend.get(self.step(self.backend.put(batch), {"learning_rate": 1e-2}))

    def state(self) -> dict[str, np.ndarray]:
        return {**self.backend.weights(self.networks), **self.optimizer.state_dict()}


def batch_of(*, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=(32, size)).astype(np.float32) for name, size in (("x", 4), ("y", 2))}


MODES = [{"mode": "eager"}, {"mode": "graph", "compiler": "aot_eager"}]


@pytest.mark.parametrize("settings", MODES, ids=["eager", "graph"])
def test_an_update_moves_the_buffers_of_a_users_module_and_nothing_that_is_frozen(settings):
    learning = Learning(**settings)
    before = learning.backend.weights(learning.networks)

    learning.update(batch_of())

    after = learning.backend.weights(learning.networks)
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    assert {"own/norm/running_mean", "own/norm/running_var", "own/mean"} <= moved
    assert {name for name in before if "frozen" in name} == before.keys() - moved


def test_compiled_updates_of_a_users_module_are_the_eager_ones():
    eager, graph = (Learning(**settings) for settings in MODES)

    for seed in range(3):
        expected, told = eager.update(batch_of(seed=seed)), graph.update(batch_of(seed=seed))
        assert told["loss"] == pytest.approx(expected["loss"], rel=1e-5)  # float32, the same operations

    for name, array in eager.backend.weights(eager.networks).items():
        np.testing.assert_allclose(array, graph.backend.weights(graph.networks)[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("settings", MODES, ids=["eager", "graph"])
def test_a_spoilt_batch_does_not_move_the_buffers_of_a_users_module_either(settings):
    learning = Learning(**settings)
    learning.update(batch_of(seed=1))
    before, poisoned = learning.state(), batch_of(seed=2)
    poisoned["x"][3, 1] = np.nan

    learning.update(poisoned)

    for name, array in learning.state().items():
        np.testing.assert_array_equal(before[name], array, err_msg=name)


def test_modules_of_a_user_start_from_their_seed_and_leave_torchs_generator_alone():
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)

    first, same, other = (TorchBackend().build({"own": Native(Normalizing)}, {}, seed=seed) for seed in (7, 7, 8))

    torch.testing.assert_close(expected, torch.rand(2))
    kernels = [networks.weights()["own/dense/weight"] for networks in (first, same, other)]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert not np.array_equal(kernels[0], kernels[2])
