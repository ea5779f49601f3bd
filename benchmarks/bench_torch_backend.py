"""How fast the torch backend learns, beside loops written by hand, and how fast small networks act, beside NumPy.

Run: `nox -s bench -- benchmarks/bench_torch_backend.py`. Compare within one run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rheos.backend import Adam
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.networks.specs import MLP
from rheos_torch.backend import TorchBackend

SPECS = {"policy": MLP(4, 2, hidden=(64, 64)), "value": MLP(4, 1, hidden=(64, 64))}
ROWS, MINIBATCH, ENVS = 1024, 256, 8


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


def clipped_loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
    """The loss of PPO for two actions."""
    log_p = xp.log_softmax(networks["policy"](batch["observations"]))
    ratio = xp.exp(xp.pick(log_p, batch["actions"]) - batch["log_probs"])
    gain = xp.minimum(ratio * batch["advantages"], xp.clip(ratio, 0.8, 1.2) * batch["advantages"])
    values = xp.squeeze(networks["value"](batch["observations"]), axis=-1)
    value_loss = xp.mean(xp.square(values - batch["returns"]))
    entropy = -xp.mean(xp.sum(xp.exp(log_p) * log_p, axis=-1))
    return -xp.mean(gain) + 0.5 * value_loss - 0.01 * entropy, {"value_loss": value_loss, "entropy": entropy}


def by_hand(**adam: bool) -> Any:
    """Return `update()`, written as PyTorch's tutorials do: modules, optimizer, clip_grad_norm_."""
    torch.set_num_threads(1)

    def mlp(outputs: int) -> torch.nn.Module:
        tanh, linear = torch.nn.Tanh, torch.nn.Linear
        return torch.nn.Sequential(linear(4, 64), tanh(), linear(64, 64), tanh(), linear(64, outputs))

    batch = {name: torch.tensor(column) for name, column in columns(MINIBATCH).items()}
    actions = batch["actions"].long()
    policy, value = mlp(2), mlp(1)
    parameters = [*policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=3e-4, **adam)

    def update() -> None:
        log_p = torch.log_softmax(policy(batch["observations"]), -1)
        ratio = torch.exp(log_p.gather(-1, actions[:, None])[:, 0] - batch["log_probs"])
        gain = torch.minimum(ratio * batch["advantages"], torch.clamp(ratio, 0.8, 1.2) * batch["advantages"])
        value_loss = (value(batch["observations"])[:, 0] - batch["returns"]).square().mean()
        entropy = -(log_p.exp() * log_p).sum(-1).mean()
        loss = -gain.mean() + 0.5 * value_loss - 0.01 * entropy
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()

    return update


def built(mode: str = "eager") -> tuple[TorchBackend, Any, Any]:
    backend = TorchBackend(mode=mode)
    networks = backend.build(SPECS, initial_weights(SPECS, np.random.default_rng(0)))
    step = backend.update(clipped_loss, networks, backend.optimizer(Adam(), networks), max_grad_norm=0.5)
    return backend, networks, step


@pytest.mark.benchmark(group="update of two 64-64 networks, batch 256")
@pytest.mark.parametrize("adam", [{}, {"fused": True}], ids=["by hand", "by hand, fused"])
def test_update_by_hand(benchmark, adam):
    benchmark.pedantic(by_hand(**adam), rounds=300, warmup_rounds=30)


@pytest.mark.benchmark(group="update of two 64-64 networks, batch 256")
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's compiler uses what torch has deprecated
def test_update(benchmark, mode):
    backend, _, step = built(mode)

    benchmark.pedantic(step, (backend.put(columns(MINIBATCH)), {"learning_rate": 3e-4}), rounds=300, warmup_rounds=30)


@pytest.mark.benchmark(group="an epoch's four minibatches out of 1024 rows")
def test_take_each_minibatch(benchmark):
    backend, _, _ = built()
    native, order = backend.put(columns(ROWS)), np.random.default_rng(0).permutation(ROWS)

    benchmark(lambda: [backend.take(native, part) for part in np.split(order, ROWS // MINIBATCH)])


@pytest.mark.benchmark(group="an epoch's four minibatches out of 1024 rows")
def test_take_the_epoch_and_slice_it(benchmark):
    backend, _, _ = built()
    native, order = backend.put(columns(ROWS)), np.random.default_rng(0).permutation(ROWS)

    def minibatches() -> list[Any]:
        epoch = backend.take(native, order)
        return [{name: c[i : i + MINIBATCH] for name, c in epoch.items()} for i in range(0, ROWS, MINIBATCH)]

    benchmark(minibatches)


@pytest.mark.benchmark(group="an epoch's four minibatches out of 1024 rows")
def test_put_each_minibatch_from_numpy(benchmark):
    backend, _, _ = built()
    rows, order = columns(ROWS), np.random.default_rng(0).permutation(ROWS)

    def minibatches() -> list[Any]:
        parts = np.split(order, ROWS // MINIBATCH)
        return [backend.put({name: column[part] for name, column in rows.items()}) for part in parts]

    benchmark(minibatches)


@pytest.mark.benchmark(group="one act of policy and value, 8 environments")
def test_act_in_numpy(benchmark):
    networks = NumpyNetworks(SPECS, initial_weights(SPECS, np.random.default_rng(0)))
    x = columns(ENVS)["observations"]

    benchmark(lambda: (networks["policy"](x), networks["value"](x)))


@pytest.mark.benchmark(group="one act of policy and value, 8 environments")
def test_act_in_torch(benchmark):
    backend, networks, _ = built()
    act = backend.infer(lambda xp, nets, inputs: {name: nets[name](inputs["x"]) for name in nets}, networks)

    benchmark(act, {"x": columns(ENVS)["observations"]})


@pytest.mark.benchmark(group="a copy of all weights")
def test_weights(benchmark):
    backend, networks, _ = built()

    benchmark(backend.weights, networks)
