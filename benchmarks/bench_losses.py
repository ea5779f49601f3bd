"""A loss written once over `xp`, beside the same loss written by hand in each framework: forward, and a whole step.

Run: `nox -s bench -- benchmarks/bench_losses.py`. Within a group, the number in brackets is the ratio to the fastest.
The networks are two 64-64 MLPs, policy and value; the loss is PPO's for two actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rheos import Adam
from rheos.networks.initial import initial_weights
from rheos.networks.specs import MLP
from rheos_tf.backend import TFBackend
from rheos_tf.framework import tf
from rheos_torch.backend import TorchBackend

SPECS = {"policy": MLP(4, 2, hidden=(64, 64)), "value": MLP(4, 1, hidden=(64, 64))}
ROWS = (256, 4096)
ROUNDS = {256: 400, 4096: 100}
LEARNING_RATE, MAX_NORM = 3e-4, 0.5

every_size = pytest.mark.parametrize("rows", ROWS)
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's compiler uses it


def columns(rows: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    floats = generator.normal(size=(3, rows)).astype(np.float32)
    return {
        "observations": generator.normal(size=(rows, 4)).astype(np.float32),
        "actions": generator.integers(0, 2, rows).astype(np.int32),
        "log_probs": np.float32(-0.7) + np.float32(0.1) * floats[0],
        "advantages": floats[1],
        "returns": floats[2],
    }


def weights() -> dict[str, np.ndarray]:
    return initial_weights(SPECS, np.random.default_rng(0))


def neutral_loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
    """The loss of PPO for two actions, over `xp`."""
    log_p = xp.log_softmax(networks["policy"](batch["observations"]))
    ratio = xp.exp(xp.pick(log_p, batch["actions"]) - batch["log_probs"])
    gain = xp.minimum(ratio * batch["advantages"], xp.clip(ratio, 0.8, 1.2) * batch["advantages"])
    values = xp.squeeze(networks["value"](batch["observations"]), axis=-1)
    value_loss = xp.mean(xp.square(values - batch["returns"]))
    entropy = -xp.mean(xp.sum(xp.exp(log_p) * log_p, axis=-1))
    return -xp.mean(gain) + 0.5 * value_loss - 0.01 * entropy, {"value_loss": value_loss, "entropy": entropy}


# By hand, in PyTorch: modules, optimizer and clip_grad_norm_, as its tutorials have them


def torch_mlp(network: str) -> torch.nn.Module:
    torch.set_num_threads(1)
    layers: list[torch.nn.Module] = []
    for name in ("hidden_0", "hidden_1", "output"):
        kernel, bias = (torch.tensor(weights()[f"{network}/{name}/{part}"]) for part in ("kernel", "bias"))
        linear = torch.nn.Linear(*kernel.shape)
        linear.load_state_dict({"weight": kernel.T, "bias": bias})
        layers += [linear, torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


def torch_loss(policy: Any, value: Any, batch: Any) -> torch.Tensor:
    log_p = torch.log_softmax(policy(batch["observations"]), -1)
    ratio = torch.exp(log_p.gather(-1, batch["actions"][:, None])[:, 0] - batch["log_probs"])
    gain = torch.minimum(ratio * batch["advantages"], torch.clamp(ratio, 0.8, 1.2) * batch["advantages"])
    value_loss = (value(batch["observations"])[:, 0] - batch["returns"]).square().mean()
    entropy = -(log_p.exp() * log_p).sum(-1).mean()
    return -gain.mean() + 0.5 * value_loss - 0.01 * entropy


def torch_batch(rows: int) -> dict[str, torch.Tensor]:
    batch = {name: torch.tensor(column) for name, column in columns(rows).items()}
    return {**batch, "actions": batch["actions"].long()}


def torch_forward_by_hand(mode: str, rows: int) -> Callable[[], Any]:
    policy, value, batch = torch_mlp("policy"), torch_mlp("value"), torch_batch(rows)
    loss = torch.compile(torch_loss, options={"compile_threads": 1}) if mode == "graph" else torch_loss
    return lambda: loss(policy, value, batch)


def torch_step_by_hand(mode: str, rows: int) -> Callable[[], Any]:
    policy, value, batch = torch_mlp("policy"), torch_mlp("value"), torch_batch(rows)
    parameters = [*policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=True)
    loss_of = torch.compile(torch_loss, options={"compile_threads": 1}) if mode == "graph" else torch_loss

    def step() -> None:
        loss = loss_of(policy, value, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM)
        optimizer.step()

    return step


# By hand, in TensorFlow: variables, a tape, clip_by_global_norm and TensorFlow's own Adam, in a tf.function


def tf_variables() -> dict[str, Any]:
    return {name: tf.Variable(array) for name, array in weights().items()}


def tf_mlp(variables: dict[str, Any], network: str, x: Any) -> Any:
    for layer in ("hidden_0", "hidden_1"):
        x = tf.tanh(x @ variables[f"{network}/{layer}/kernel"] + variables[f"{network}/{layer}/bias"])
    return x @ variables[f"{network}/output/kernel"] + variables[f"{network}/output/bias"]


def tf_loss(variables: dict[str, Any], batch: Any) -> Any:
    log_p = tf.nn.log_softmax(tf_mlp(variables, "policy", batch["observations"]))
    picked = tf.gather(log_p, batch["actions"], batch_dims=1)
    ratio = tf.exp(picked - batch["log_probs"])
    gain = tf.minimum(ratio * batch["advantages"], tf.clip_by_value(ratio, 0.8, 1.2) * batch["advantages"])
    values = tf_mlp(variables, "value", batch["observations"])[:, 0]
    value_loss = tf.reduce_mean(tf.square(values - batch["returns"]))
    entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(log_p) * log_p, -1))
    return -tf.reduce_mean(gain) + 0.5 * value_loss - 0.01 * entropy


def tf_batch(rows: int) -> dict[str, Any]:
    return {name: tf.constant(column) for name, column in columns(rows).items()}


def tf_forward_by_hand(_mode: str, rows: int) -> Callable[[], Any]:
    variables, batch = tf_variables(), tf_batch(rows)
    loss = tf.function(lambda batch: tf_loss(variables, batch))
    return lambda: loss(batch)


def tf_step_by_hand(_mode: str, rows: int) -> Callable[[], Any]:
    variables, batch = tf_variables(), tf_batch(rows)
    trained = list(variables.values())
    moments = [(tf.Variable(tf.zeros_like(each)), tf.Variable(tf.zeros_like(each))) for each in trained]
    powers = tf.Variable(1.0), tf.Variable(1.0)

    @tf.function
    def step(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf_loss(variables, batch)
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, trained), MAX_NORM)
        powers[0].assign(powers[0] * 0.9)
        powers[1].assign(powers[1] * 0.999)
        for variable, (first, second), gradient in zip(trained, moments, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=powers[0],
                beta2_power=powers[1],
                lr=LEARNING_RATE,
                beta1=0.9,
                beta2=0.999,
                epsilon=1e-8,
                grad=gradient,
            )
        return loss

    return lambda: step(batch)


# Ours

BACKENDS: dict[str, Any] = {"torch": TorchBackend, "tf": TFBackend}


def forward_over_xp(framework: str, mode: str, rows: int) -> Callable[[], Any]:
    """The loss alone, called as a user of the framework calls a function, so that only its text differs."""
    backend = BACKENDS[framework](mode=mode)
    networks, batch = backend.build(SPECS, weights()), backend.put(columns(rows))
    loss = lambda batch: neutral_loss(backend.xp, networks, batch, {})[0]  # noqa: E731
    if mode == "graph":
        loss = tf.function(loss) if framework == "tf" else torch.compile(loss, options={"compile_threads": 1})
    return lambda: loss(batch)


def step_over_xp(framework: str, mode: str, rows: int) -> Callable[[], Any]:
    backend = BACKENDS[framework](mode=mode)
    networks, batch = backend.build(SPECS, weights()), backend.put(columns(rows))
    step = backend.update(neutral_loss, networks, backend.optimizer(Adam(), networks), max_grad_norm=MAX_NORM)
    return lambda: step(batch, {"learning_rate": LEARNING_RATE})


FORWARD_BY_HAND = {"torch": torch_forward_by_hand, "tf": tf_forward_by_hand}
STEP_BY_HAND = {"torch": torch_step_by_hand, "tf": tf_step_by_hand}
PLACES = [("torch", "eager"), ("torch", "graph"), ("tf", "graph")]

every_place = pytest.mark.parametrize(("framework", "mode"), PLACES)


def measured(benchmark: Any, group: str, function: Callable[[], Any], rows: int) -> None:
    benchmark.group = group
    benchmark.pedantic(function, rounds=ROUNDS[rows], warmup_rounds=30)


@every_size
@every_place
@pytest.mark.parametrize("how", ["by hand", "over xp"])
def test_forward(benchmark, framework, mode, rows, how):
    function = FORWARD_BY_HAND[framework](mode, rows) if how == "by hand" else forward_over_xp(framework, mode, rows)

    measured(benchmark, f"forward, {framework} {mode}, batch {rows}", function, rows)


@every_size
@every_place
@pytest.mark.parametrize("how", ["by hand", "over xp"])
def test_step(benchmark, framework, mode, rows, how):
    function = STEP_BY_HAND[framework](mode, rows) if how == "by hand" else step_over_xp(framework, mode, rows)

    measured(benchmark, f"step, {framework} {mode}, batch {rows}", function, rows)


@every_size
@pytest.mark.parametrize(("framework", "mode"), [("torch", "eager"), ("tf", "graph")])
def test_step_on_both(benchmark, framework, mode, rows):
    measured(benchmark, f"step of ours, batch {rows}", step_over_xp(framework, mode, rows), rows)


def number_of(loss: Any) -> float:
    return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)


def test_the_losses_are_the_same():
    """What is compared computes the same number."""
    expected = number_of(torch_forward_by_hand("eager", 256)())

    for framework, mode in (("torch", "eager"), ("tf", "graph")):
        assert math.isclose(expected, number_of(forward_over_xp(framework, mode, 256)()), abs_tol=1e-6)
    assert math.isclose(expected, number_of(tf_forward_by_hand("graph", 256)()), abs_tol=1e-6)
