"""How long it takes to compose and build learners shaped like those of PPO, DQN, SAC and IMPALA.

Run: `nox -s bench -- benchmarks/bench_building.py`. Three times are apart: to compose and build specs, native networks,
optimizer and update in eager mode, with zeros as start values; to draw the start values; and to take the first update,
which traces or compiles in graph mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rheos import Adam
from rheos.networks.initial import initial_weights
from rheos.networks.specs import CNN, LSTM, MLP, NetworkSpec, Parameter, ResNet
from rheos.networks.weights import weight_shapes
from rheos_ops.distributions import Categorical, SquashedGaussian
from rheos_ops.q_learning import double_q_targets, huber, td_errors
from rheos_ops.vtrace import vtrace
from rheos_tf.backend import TFBackend
from rheos_torch.backend import TorchBackend

BACKENDS: dict[str, Any] = {"torch": TorchBackend, "tf": TFBackend}
IMAGE = (84, 84, 4)
ROWS, STEPS, ENVS = 32, 10, 2

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's compiler uses it


@dataclass(frozen=True)
class Shape:
    """Networks, a loss over them, and the columns of a small batch."""

    networks: Mapping[str, NetworkSpec]
    loss: Callable[..., Any]
    columns: Mapping[str, np.ndarray]


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def ppo() -> Shape:
    """Two MLPs."""
    policy = Categorical(2)

    def loss(xp: Any, networks: Any, batch: Any, _: Any) -> tuple[Any, dict[str, Any]]:
        params = networks["policy"](batch["observations"])
        ratio = xp.exp(policy.log_prob(xp, params, batch["actions"]) - batch["log_probs"])
        gain = xp.minimum(ratio * batch["advantages"], xp.clip(ratio, 0.8, 1.2) * batch["advantages"])
        errors = networks["value"](batch["observations"])[..., 0] - batch["returns"]
        return xp.mean(xp.square(errors)) - xp.mean(gain) - 0.01 * xp.mean(policy.entropy(xp, params)), {}

    networks = {"policy": MLP(4, 2), "value": MLP(4, 1)}
    columns = {name: floats(ROWS) for name in ("log_probs", "advantages", "returns")}
    return Shape(networks, loss, {**columns, "observations": floats(ROWS, 4), "actions": np.zeros(ROWS, np.int32)})


def dqn() -> Shape:
    """Nature's CNN and its target."""

    def loss(xp: Any, networks: Any, batch: Any, _: Any) -> tuple[Any, dict[str, Any]]:
        def values(network: str, column: str) -> Any:
            return networks[f"{network}_q"](networks[f"{network}_cnn"](batch[column]))

        q, chosen, targets = (
            values("online", "observations"),
            values("online", "next_observations"),
            values("target", "next_observations"),
        )
        targets = double_q_targets(xp, batch["rewards"], batch["discounts"], chosen, targets)
        errors = td_errors(xp, q, batch["actions"], xp.stop_gradient(targets))
        return xp.mean(huber(xp, errors)), {}

    networks = {
        f"{name}_{part}": spec
        for name in ("online", "target")
        for part, spec in (("cnn", CNN(IMAGE)), ("q", MLP(512, 6, hidden=())))
    }
    columns = {name: floats(ROWS, *IMAGE) for name in ("observations", "next_observations")}
    rewards = {"rewards": floats(ROWS), "discounts": np.full(ROWS, 0.99, np.float32)}
    return Shape(networks, loss, {**columns, **rewards, "actions": np.zeros(ROWS, np.int32)})


def sac() -> Shape:
    """A squashed Gaussian, two critics, their targets and a temperature."""
    policy = SquashedGaussian(6)

    def loss(xp: Any, networks: Any, batch: Any, _: Any) -> tuple[Any, dict[str, Any]]:
        params = networks["policy"](batch["observations"])
        actions = policy.sample(xp, params, batch["noise"])
        log_probs = policy.log_prob(xp, params, actions)
        temperature = xp.exp(networks["log_temperature"](batch["observations"]))
        inputs = xp.concat([batch["observations"], actions], axis=-1)
        q = xp.minimum(networks["critic_0"](inputs), networks["critic_1"](inputs))[..., 0]
        targets = xp.minimum(networks["target_0"](inputs), networks["target_1"](inputs))[..., 0]
        errors = xp.square(q - xp.stop_gradient(batch["rewards"] + 0.99 * targets))
        return xp.mean(temperature * log_probs - q) + xp.mean(errors), {}

    critics = {f"{name}_{index}": MLP(17 + 6, 1, (256, 256)) for name in ("critic", "target") for index in (0, 1)}
    networks = {"policy": MLP(17, 12, (256, 256)), **critics, "log_temperature": Parameter(())}
    return Shape(networks, loss, {"observations": floats(ROWS, 17), "noise": floats(ROWS, 6), "rewards": floats(ROWS)})


def impala() -> Shape:
    """The residual network and an LSTM over time."""
    policy = Categorical(6)

    def loss(xp: Any, networks: Any, batch: Any, _: Any) -> tuple[Any, dict[str, Any]]:
        features, _state = networks["memory"](
            networks["torso"](batch["observations"]), batch["state"], batch["is_first"]
        )
        params, values = networks["policy"](features), networks["value"](features)[..., 0]
        log_probs = policy.log_prob(xp, params, batch["actions"])
        estimated = vtrace(
            xp,
            xp.stop_gradient(log_probs) - batch["log_probs"],
            batch["rewards"],
            xp.stop_gradient(values),
            batch["bootstrap"],
            batch["discounts"],
        )
        return xp.mean(xp.square(values - estimated.targets)) - xp.mean(log_probs * estimated.advantages), {}

    networks = {
        "torso": ResNet(IMAGE),
        "memory": LSTM(256, 256),
        "policy": MLP(256, 6, hidden=()),
        "value": MLP(256, 1, hidden=()),
    }
    columns = {name: floats(STEPS, ENVS) for name in ("log_probs", "rewards")}
    return Shape(
        networks,
        loss,
        {
            **columns,
            "observations": floats(STEPS, ENVS, *IMAGE),
            "state": floats(ENVS, 512),
            "is_first": np.zeros((STEPS, ENVS), np.bool_),
            "actions": np.zeros((STEPS, ENVS), np.int32),
            "bootstrap": floats(ENVS),
            "discounts": np.full((STEPS, ENVS), 0.99, np.float32),
        },
    )


SHAPES = {"PPO": ppo, "DQN": dqn, "SAC": sac, "IMPALA": impala}

every_shape = pytest.mark.parametrize("name", SHAPES)


def zeros(shape: Shape) -> dict[str, np.ndarray]:
    return {name: np.zeros(size, np.float32) for name, size in weight_shapes(shape.networks).items()}


def built(backend: Any, shape: Shape, weights: dict[str, np.ndarray]) -> Any:
    networks = backend.build(shape.networks, weights)
    return backend.update(shape.loss, networks, backend.optimizer(Adam(), networks), max_grad_norm=0.5)


@every_shape
@pytest.mark.parametrize("framework", BACKENDS)
def test_compose_and_build_without_start_values(benchmark, framework, name):
    backend = BACKENDS[framework](mode="eager")
    weights = zeros(SHAPES[name]())
    benchmark.group = f"compose and build, {name}"

    benchmark.pedantic(lambda: built(backend, SHAPES[name](), weights), rounds=10, warmup_rounds=1)


@every_shape
def test_draw_start_values(benchmark, name):
    specs = SHAPES[name]().networks
    benchmark.group = "draw start values"

    benchmark.pedantic(lambda: initial_weights(specs, np.random.default_rng(0)), rounds=3, warmup_rounds=1)


@every_shape
@pytest.mark.parametrize(
    ("framework", "mode"), [("torch", "eager"), ("tf", "eager"), ("torch", "graph"), ("tf", "graph")]
)
def test_first_update(benchmark, framework, mode, name):
    backend, shape = BACKENDS[framework](mode=mode), SHAPES[name]()
    step, batch = built(backend, shape, initial_weights(shape.networks, np.random.default_rng(0))), None
    batch = backend.put(shape.columns)
    benchmark.group = f"first update, {name}"

    loss = benchmark.pedantic(lambda: float(step(batch, {"learning_rate": 1e-4})["loss"]), rounds=1)

    assert np.isfinite(loss)
