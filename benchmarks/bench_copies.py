"""What a backend copies: the minibatches of an epoch, and all weights.

Run: `nox -s bench -- benchmarks/bench_copies.py`. Compare within one run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rheos.networks.initial import initial_weights
from rheos.networks.specs import MLP
from rheos_tf.backend import TFBackend
from rheos_torch.backend import TorchBackend

SPECS = {"policy": MLP(4, 2, hidden=(64, 64)), "value": MLP(4, 1, hidden=(64, 64))}
ROWS, MINIBATCH = 1024, 256
BACKENDS: dict[str, Any] = {"torch": TorchBackend, "tf": TFBackend}

every_backend = pytest.mark.parametrize("framework", BACKENDS)


def columns() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    numbers = {name: generator.normal(size=ROWS).astype(np.float32) for name in ("log_probs", "advantages", "returns")}
    observations = generator.normal(size=(ROWS, 4)).astype(np.float32)
    return {**numbers, "observations": observations, "actions": generator.integers(0, 2, ROWS).astype(np.int32)}


@pytest.mark.benchmark(group="an epoch's four minibatches out of 1024 rows")
@every_backend
def test_minibatches(benchmark, framework):
    backend = BACKENDS[framework]()
    native, order = backend.put(columns()), np.random.default_rng(0).permutation(ROWS)
    bounds = [slice(start, start + MINIBATCH) for start in range(0, ROWS, MINIBATCH)]

    benchmark(lambda: list(backend.minibatches(native, order, bounds)))


@pytest.mark.benchmark(group="an epoch's four minibatches out of 1024 rows")
@every_backend
def test_put_each_minibatch_from_numpy(benchmark, framework):
    backend = BACKENDS[framework]()
    rows, order = columns(), np.random.default_rng(0).permutation(ROWS)

    def minibatches() -> list[Any]:
        parts = np.split(order, ROWS // MINIBATCH)
        return [backend.put({name: column[part] for name, column in rows.items()}) for part in parts]

    benchmark(minibatches)


@pytest.mark.benchmark(group="a copy of all weights")
@every_backend
def test_weights(benchmark, framework):
    backend = BACKENDS[framework]()
    networks = backend.build(SPECS, initial_weights(SPECS, np.random.default_rng(0)))

    benchmark(backend.weights, networks)
