"""Acting: forward, sample, log-probability and value, from NumPy to NumPy, beside the same written by hand.

Run: `nox -s bench -- benchmarks/bench_acting.py`. Within a group, the number in brackets is the ratio to the fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.networks.specs import MLP
from rheos_ops.distributions import Categorical
from rheos_tf.backend import TFBackend
from rheos_tf.framework import tf
from rheos_torch.backend import TorchBackend

SPECS = {"policy": MLP(4, 2, hidden=(64, 64)), "value": MLP(4, 1, hidden=(64, 64))}
LAYERS = ("hidden_0", "hidden_1", "output")
POLICY = Categorical(2)


def weights() -> dict[str, np.ndarray]:
    return initial_weights(SPECS, np.random.default_rng(0))


def inputs(rows: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {
        "observations": generator.normal(size=(rows, 4)).astype(np.float32),
        "noise": POLICY.draw_noise(generator, rows),
    }


def act(xp: Any, networks: Any, columns: Any) -> dict[str, Any]:
    """Over `xp`."""
    params = networks["policy"](columns["observations"])
    actions = POLICY.sample(xp, params, columns["noise"])
    return {
        "actions": actions,
        "log_probs": POLICY.log_prob(xp, params, actions),
        "values": networks["value"](columns["observations"])[..., 0],
    }


def numpy_by_hand() -> Callable[[Any], Any]:
    own = weights()

    def mlp(network: str, x: np.ndarray) -> np.ndarray:
        for layer in LAYERS[:-1]:
            x = np.tanh(x @ own[f"{network}/{layer}/kernel"] + own[f"{network}/{layer}/bias"])
        return x @ own[f"{network}/output/kernel"] + own[f"{network}/output/bias"]

    def function(columns: Any) -> dict[str, np.ndarray]:
        logits = mlp("policy", columns["observations"])
        actions = np.argmax(logits + columns["noise"], -1).astype(np.int32)
        shifted = logits - logits.max(-1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        log_probs = np.take_along_axis(log_p, actions[:, None], -1)[:, 0]
        return {"actions": actions, "log_probs": log_probs, "values": mlp("value", columns["observations"])[:, 0]}

    return function


def torch_by_hand() -> Callable[[Any], Any]:
    torch.set_num_threads(1)

    def mlp(network: str) -> torch.nn.Module:
        layers: list[torch.nn.Module] = []
        for name in LAYERS:
            kernel, bias = (torch.tensor(weights()[f"{network}/{name}/{part}"]) for part in ("kernel", "bias"))
            linear = torch.nn.Linear(*kernel.shape)
            linear.load_state_dict({"weight": kernel.T, "bias": bias})
            layers += [linear, torch.nn.Tanh()]
        return torch.nn.Sequential(*layers[:-1])

    policy, value = mlp("policy"), mlp("value")

    @torch.inference_mode()
    def function(columns: Any) -> dict[str, np.ndarray]:
        observations = torch.from_numpy(columns["observations"])
        logits = policy(observations)
        actions = torch.argmax(logits + torch.from_numpy(columns["noise"]), -1)
        log_probs = torch.log_softmax(logits, -1).gather(-1, actions[:, None])[:, 0]
        values = value(observations)[:, 0]
        return {"actions": actions.int().numpy(), "log_probs": log_probs.numpy(), "values": values.numpy()}

    return function


def tf_by_hand() -> Callable[[Any], Any]:
    own = {name: tf.Variable(array) for name, array in weights().items()}

    def mlp(network: str, x: Any) -> Any:
        for layer in LAYERS[:-1]:
            x = tf.tanh(x @ own[f"{network}/{layer}/kernel"] + own[f"{network}/{layer}/bias"])
        return x @ own[f"{network}/output/kernel"] + own[f"{network}/output/bias"]

    @tf.function(reduce_retracing=True)
    def acted(observations: Any, noise: Any) -> dict[str, Any]:
        logits = mlp("policy", observations)
        actions = tf.argmax(logits + noise, -1, output_type=tf.int32)
        log_probs = tf.gather(tf.nn.log_softmax(logits), actions, batch_dims=1)
        return {"actions": actions, "log_probs": log_probs, "values": mlp("value", observations)[:, 0]}

    def function(columns: Any) -> dict[str, np.ndarray]:
        outputs = acted(tf.constant(columns["observations"]), tf.constant(columns["noise"]))
        return {name: array.numpy() for name, array in outputs.items()}

    return function


def in_numpy() -> Callable[[Any], Any]:
    return partial(act, numpy_xp, NumpyNetworks(SPECS, weights()))


def on(backend: Any) -> Callable[[Any], Any]:
    return backend.infer(act, backend.build(SPECS, weights()))


PLACES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "numpy": (numpy_by_hand, in_numpy),
    "torch": (torch_by_hand, lambda: on(TorchBackend())),
    "tf": (tf_by_hand, lambda: on(TFBackend())),
}


@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", ["by hand", "over xp"])
def test_act(benchmark, place, rows, how):
    function, columns = PLACES[place][how == "over xp"](), inputs(rows)
    benchmark.group = f"act, {place}, batch {rows}"

    benchmark.pedantic(function, (columns,), rounds=1000, warmup_rounds=100)


@pytest.mark.parametrize("place", PLACES)
def test_both_act_alike(place):
    by_hand, over_xp = (function()(inputs(64)) for function in PLACES[place])

    assert by_hand.keys() == over_xp.keys()
    for name, expected in by_hand.items():
        np.testing.assert_allclose(over_xp[name], expected, atol=1e-5)
