"""Optimizers over flat weights are those of `torch.optim`, take no spoilt step, and go on from their state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rheos.backend import SGD, Adam, AdamW, OptimizerSpec, RMSProp
from rheos.errors import ShapeError
from rheos.networks.initial import initial_weights
from rheos.networks.specs import MLP, Normalizer, Parameter
from rheos.networks.weights import trainable_shapes
from rheos_torch.backend import TorchBackend
from rheos_torch.networks import TorchNetworks
from rheos_torch.optimizers import TorchOptimizer

SPECS = {"policy": MLP(4, 2, (8,)), "normalizer": Normalizer(4), "scale": Parameter((3,), initial=0.5)}
WEIGHTS = list(trainable_shapes(SPECS))

ORACLES: dict[str, tuple[OptimizerSpec, Any]] = {
    "adam": (Adam(), lambda p: torch.optim.Adam(p, fused=True)),
    "adam, other betas": (
        Adam(epsilon=1e-5, beta_1=0.5, beta_2=0.9),
        lambda p: torch.optim.Adam(p, eps=1e-5, betas=(0.5, 0.9), fused=True),
    ),
    "adamw": (AdamW(), lambda p: torch.optim.AdamW(p, fused=True)),
    "adamw, much decay": (AdamW(weight_decay=0.3), lambda p: torch.optim.AdamW(p, weight_decay=0.3, fused=True)),
    "rmsprop": (RMSProp(), torch.optim.RMSprop),
    "rmsprop, of IMPALA": (
        RMSProp(epsilon=0.1, momentum=0.9),
        lambda p: torch.optim.RMSprop(p, eps=0.1, momentum=0.9),
    ),
    "rmsprop, centered": (
        RMSProp(decay=0.95, momentum=0.5, is_centered=True),
        lambda p: torch.optim.RMSprop(p, alpha=0.95, momentum=0.5, centered=True),
    ),
    "sgd": (SGD(), torch.optim.SGD),
    "sgd, momentum": (SGD(momentum=0.9), lambda p: torch.optim.SGD(p, momentum=0.9)),
}
STATES = {
    "adam": ["first_moment", "second_moment"],
    "adamw": ["first_moment", "second_moment"],
    "rmsprop": ["square_average"],
    "rmsprop, of IMPALA": ["square_average", "momentum"],
    "rmsprop, centered": ["square_average", "gradient_average", "momentum"],
    "sgd": [],
    "sgd, momentum": ["momentum"],
}
every_optimizer = pytest.mark.parametrize("name", STATES)


class Stepping:
    """Networks and an optimizer, stepped along gradients drawn from a seed."""

    def __init__(self, spec: OptimizerSpec) -> None:
        backend = TorchBackend()
        self.networks: TorchNetworks = backend.build(SPECS, initial_weights(SPECS, np.random.default_rng(0)))
        self.optimizer: TorchOptimizer = backend.optimizer(spec, self.networks)

    def step(self, seed: int, *, is_spoilt: bool = False) -> None:
        self.networks.gradient.copy_(gradient(seed))
        if is_spoilt:
            self.networks.gradient[seed] = float("nan")
        self.optimizer.step(rate(seed), torch.tensor(is_spoilt))

    def state(self) -> dict[str, np.ndarray]:
        return {**self.networks.weights(), **self.optimizer.state_dict()}


def gradient(seed: int) -> torch.Tensor:
    generator = np.random.default_rng(seed)
    size = sum(int(np.prod(shape)) for shape in trainable_shapes(SPECS).values())
    return torch.tensor(generator.normal(size=size) * generator.uniform(0.0, 3.0), dtype=torch.float32)


def rate(seed: int) -> float:
    return 0.01 / (1 + seed)


def assert_equal_arrays(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    assert list(expected) == list(actual)
    for name, array in expected.items():
        np.testing.assert_array_equal(array, actual[name], err_msg=name)


@pytest.mark.parametrize("name", ORACLES)
def test_fifty_steps_are_those_of_torch(name: str) -> None:
    spec, oracle = ORACLES[name]
    ours = Stepping(spec)
    start = [torch.tensor(ours.networks.weights()[weight]) for weight in WEIGHTS]
    parameters = [torch.nn.Parameter(tensor) for tensor in start]
    theirs = oracle(parameters)

    for seed in range(50):
        ours.step(seed)
        parts = torch.split(gradient(seed), [parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        theirs.param_groups[0]["lr"] = rate(seed)
        theirs.step()

    weights = ours.networks.weights()
    for weight, parameter in zip(WEIGHTS, parameters, strict=True):
        # The same formulas; a kernel that multiplies and adds at once rounds once less.
        np.testing.assert_allclose(weights[weight], parameter.detach().numpy(), rtol=1e-6, atol=1e-8, err_msg=weight)


@every_optimizer
def test_a_spoilt_gradient_changes_neither_weights_nor_state(name: str) -> None:
    fresh, stepped = Stepping(ORACLES[name][0]), Stepping(ORACLES[name][0])
    stepped.step(0)
    before = fresh.state(), stepped.state()

    for stepping in (fresh, stepped):
        stepping.step(3, is_spoilt=True)

    assert_equal_arrays(before[0], fresh.state())
    assert_equal_arrays(before[1], stepped.state())


@every_optimizer
def test_steps_after_a_spoilt_one_are_those_without_it(name: str) -> None:
    with_it, without_it = Stepping(ORACLES[name][0]), Stepping(ORACLES[name][0])

    with_it.step(1, is_spoilt=True)
    for seed in range(3):
        with_it.step(seed)
        without_it.step(seed)
        with_it.step(seed, is_spoilt=True)

    assert_equal_arrays(without_it.state(), with_it.state())


@every_optimizer
def test_a_state_has_steps_and_an_array_for_each_weight_under_the_name_of_what_it_is(name: str) -> None:
    stepping = Stepping(ORACLES[name][0])
    stepping.step(0)
    stepping.step(1)

    state = stepping.optimizer.state_dict()

    assert ["steps", *(f"{kind}/{weight}" for kind in STATES[name] for weight in WEIGHTS)] == list(state)
    assert 2 == state["steps"]
    assert all(state[f"{kind}/{weight}"].any() for kind in STATES[name] for weight in WEIGHTS)


@every_optimizer
def test_steps_go_on_from_a_state_bit_for_bit(name: str) -> None:
    whole, start, resumed = (Stepping(ORACLES[name][0]) for _ in range(3))
    for seed in range(6):
        whole.step(seed)
    for seed in range(2):
        start.step(seed)

    resumed.networks.load(start.networks.weights(), strict=True)
    resumed.optimizer.load_state_dict(start.optimizer.state_dict())
    for seed in range(2, 6):
        resumed.step(seed)

    assert_equal_arrays(whole.state(), resumed.state())


def test_the_state_of_another_optimizer_is_refused_by_name() -> None:
    with pytest.raises(ShapeError, match=r"`square_average/policy/hidden_0/kernel` is missing"):
        Stepping(RMSProp()).optimizer.load_state_dict(Stepping(SGD()).optimizer.state_dict())


def test_weight_decay_moves_weights_without_a_gradient_and_by_no_more_than_it_says() -> None:
    stepping = Stepping(AdamW(weight_decay=0.1))
    before = stepping.networks.flat.clone()
    stepping.networks.gradient.zero_()

    stepping.optimizer.step(0.5, torch.tensor(False))

    torch.testing.assert_close(stepping.networks.flat, before * (1 - 0.5 * 0.1))  # w -= lr weight_decay w
