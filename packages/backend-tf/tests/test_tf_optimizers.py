"""Optimizers by their formulas in NumPy and, where torch is installed, by its own; none takes a spoilt step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rheos.backend import SGD, Adam, AdamW, OptimizerSpec, RMSProp
from rheos.errors import ShapeError
from rheos.networks.initial import initial_weights
from rheos.networks.specs import MLP, Normalizer, Parameter
from rheos.networks.weights import trainable_shapes
from rheos_tf.backend import TFBackend
from rheos_tf.framework import tf

SPECS = {"policy": MLP(4, 2, (8,)), "normalizer": Normalizer(4), "scale": Parameter((3,), initial=0.5)}
WEIGHTS = list(trainable_shapes(SPECS))
SIZE = sum(int(np.prod(shape)) for shape in trainable_shapes(SPECS).values())

OPTIMIZERS: dict[str, OptimizerSpec] = {
    "adam": Adam(),
    "adam, other betas": Adam(epsilon=1e-5, beta_1=0.5, beta_2=0.9),
    "adamw": AdamW(weight_decay=0.3),
    "rmsprop": RMSProp(),
    "rmsprop, of IMPALA": RMSProp(epsilon=0.1, momentum=0.9),
    "rmsprop, centered": RMSProp(decay=0.95, momentum=0.5, is_centered=True),
    "sgd": SGD(),
    "sgd, momentum": SGD(momentum=0.9),
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
        backend = TFBackend()
        self.networks = backend.build(SPECS, initial_weights(SPECS, np.random.default_rng(0)))
        self.optimizer = backend.optimizer(spec, self.networks)

    def step(self, seed: int, *, is_spoilt: bool = False) -> None:
        gradients = [tf.constant(0.0 * gradient(seed) if is_spoilt else gradient(seed))]
        self.optimizer.step(gradients, tf.constant(rate(seed)), tf.constant(not is_spoilt))

    def state(self) -> dict[str, np.ndarray]:
        return {**self.networks.weights(), **self.optimizer.state_dict()}


def gradient(seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return (generator.normal(size=SIZE) * generator.uniform(0.0, 3.0)).astype(np.float32)


def rate(seed: int) -> float:
    return 0.01 / (1 + seed)


def assert_equal_arrays(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    assert list(expected) == list(actual)
    for name, array in expected.items():
        np.testing.assert_array_equal(array, actual[name], err_msg=name)


def by_formula(spec: OptimizerSpec, weights: np.ndarray, steps: int) -> np.ndarray:
    """Take steps in float64, as the docstrings of the specs have them."""
    w, first, second, velocity = weights.astype(np.float64), np.zeros(SIZE), np.zeros(SIZE), np.zeros(SIZE)
    for t in range(1, steps + 1):
        g, lr = gradient(t - 1).astype(np.float64), rate(t - 1)
        match spec:
            case Adam() | AdamW():
                first = spec.beta_1 * first + (1 - spec.beta_1) * g
                second = spec.beta_2 * second + (1 - spec.beta_2) * g**2
                if isinstance(spec, AdamW):
                    w = w - lr * spec.weight_decay * w
                root = np.sqrt(second / (1 - spec.beta_2**t)) + spec.epsilon
                w = w - lr * first / (1 - spec.beta_1**t) / root
            case RMSProp():
                second = spec.decay * second + (1 - spec.decay) * g**2
                if spec.is_centered:
                    first = spec.decay * first + (1 - spec.decay) * g
                velocity = spec.momentum * velocity + g / (np.sqrt(second - first**2) + spec.epsilon)
                w = w - lr * velocity
            case SGD():
                velocity = spec.momentum * velocity + g
                w = w - lr * velocity
    return w


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_thirty_steps_follow_the_formulas(name: str) -> None:
    stepping = Stepping(OPTIMIZERS[name])
    start = stepping.networks.flat.numpy()

    for seed in range(30):
        stepping.step(seed)

    # Thirty steps in float32 against float64, each rounded at 6e-8 of a weight of about 1 a few times.
    np.testing.assert_allclose(stepping.networks.flat.numpy(), by_formula(OPTIMIZERS[name], start, 30), atol=2e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    oracles: dict[str, Callable[[Any], Any]] = {
        "adam": lambda p: torch.optim.Adam(p),
        "adam, other betas": lambda p: torch.optim.Adam(p, eps=1e-5, betas=(0.5, 0.9)),
        "adamw": lambda p: torch.optim.AdamW(p, weight_decay=0.3),
        "rmsprop": torch.optim.RMSprop,
        "rmsprop, of IMPALA": lambda p: torch.optim.RMSprop(p, eps=0.1, momentum=0.9),
        "rmsprop, centered": lambda p: torch.optim.RMSprop(p, alpha=0.95, momentum=0.5, centered=True),
        "sgd": torch.optim.SGD,
        "sgd, momentum": lambda p: torch.optim.SGD(p, momentum=0.9),
    }
    ours = Stepping(OPTIMIZERS[name])
    parameter = torch.nn.Parameter(torch.tensor(ours.networks.flat.numpy()))
    theirs = oracles[name]([parameter])

    for seed in range(50):
        ours.step(seed)
        parameter.grad = torch.tensor(gradient(seed))
        theirs.param_groups[0]["lr"] = rate(seed)
        theirs.step()

    # The same formulas in float32, with sums and products in another order: 6e-8 of a weight of about 1, fifty times.
    np.testing.assert_allclose(ours.networks.flat.numpy(), parameter.detach().numpy(), atol=3e-6)


@every_optimizer
def test_a_step_that_is_not_taken_changes_neither_weights_nor_state(name: str) -> None:
    fresh, stepped = Stepping(OPTIMIZERS[name]), Stepping(OPTIMIZERS[name])
    stepped.step(0)
    before = fresh.state(), stepped.state()

    for stepping in (fresh, stepped):
        stepping.step(3, is_spoilt=True)

    assert_equal_arrays(before[0], fresh.state())
    assert_equal_arrays(before[1], stepped.state())


@every_optimizer
def test_steps_after_one_that_is_not_taken_are_those_without_it(name: str) -> None:
    with_it, without_it = Stepping(OPTIMIZERS[name]), Stepping(OPTIMIZERS[name])

    with_it.step(1, is_spoilt=True)
    for seed in range(3):
        with_it.step(seed)
        without_it.step(seed)
        with_it.step(seed, is_spoilt=True)

    assert_equal_arrays(without_it.state(), with_it.state())


@every_optimizer
def test_a_state_has_steps_and_an_array_for_each_weight_under_the_name_of_what_it_is(name: str) -> None:
    stepping = Stepping(OPTIMIZERS[name])
    stepping.step(0)
    stepping.step(1)

    state = stepping.optimizer.state_dict()

    assert ["steps", *(f"{kind}/{weight}" for kind in STATES[name] for weight in WEIGHTS)] == list(state)
    assert 2 == state["steps"]
    assert all(state[f"{kind}/{weight}"].any() for kind in STATES[name] for weight in WEIGHTS)


@every_optimizer
def test_steps_go_on_from_a_state_bit_for_bit(name: str) -> None:
    whole, start, resumed = (Stepping(OPTIMIZERS[name]) for _ in range(3))
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
    before = stepping.networks.flat.numpy()

    stepping.optimizer.step([tf.zeros(SIZE)], tf.constant(0.5), tf.constant(True))

    np.testing.assert_allclose(stepping.networks.flat.numpy(), before * (1 - 0.5 * 0.1), rtol=1e-6)
