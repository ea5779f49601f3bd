"""Torch and TensorFlow in one process, whichever comes first."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations

import pytest

from rheos.plugins import Kind, load_registry

SCRIPT = """
import sys
import numpy as np
from rheos.networks.specs import MLP
from rheos.networks.initial import initial_weights
from rheos.testing.components import Place, Steps

specs = {"value": MLP(3, 1, (8,))}
weights = initial_weights(specs, np.random.default_rng(0))
batch = {"x": np.ones((4, 3), np.float32)}

def loss(xp, networks, batch, coefficients):
    return xp.mean(xp.square(networks["value"](batch["x"]) - 1.0)), {}

learners = []
for name in sys.argv[1:]:
    backend = Place(name, "eager").make_backend()
    networks = backend.build(specs, weights)
    learners.append((backend, networks, Steps(backend, loss, networks)))
for _ in range(3):  # by turns
    losses = {float(steps.step(backend.put(batch), {}, 0.01)["loss"]) for backend, _, steps in learners}
    assert max(losses) - min(losses) < 1e-6, losses
print(*sorted({"torch", "tensorflow"} & set(sys.modules)))
"""


NAMES = load_registry().names(Kind.BACKEND)
ORDERS = [pytest.param(order, marks=() if order[0] == "torch" else pytest.mark.slow) for order in permutations(NAMES)]
"""By their names is how all other tests here import them."""


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_backends_learn_beside_each_other_in_either_order_of_import(order):
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, *order]

    process = subprocess.run(command, capture_output=True, text=True, timeout=300)

    assert process.returncode == 0, process.stderr[-2000:]
    assert ["tensorflow", "torch"] == process.stdout.split()
