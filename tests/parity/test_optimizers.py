"""Optimizers have one definition: from the same weights and batches, all backends arrive at the same weights."""

from __future__ import annotations

import numpy as np
import pytest

from parity.network_cases import random_weights
from rheos.backend import SGD, Adam, AdamW, RMSProp
from rheos.networks.specs import MLP, Parameter
from rheos.testing.components import installed_places

SPECS = {"policy": MLP(4, 3, (16, 16)), "value": MLP(4, 1, (16,)), "log_std": Parameter((3,), -0.5)}
OPTIMIZERS = {
    "Adam": (Adam(epsilon=1e-5), 1e-2),
    "AdamW": (AdamW(epsilon=1e-5, weight_decay=0.1), 1e-2),
    "RMSProp": (RMSProp(epsilon=1e-5), 1e-2),
    "RMSProp, centered, with momentum": (RMSProp(epsilon=1e-5, momentum=0.9, is_centered=True), 1e-3),
    "SGD": (SGD(), 1e-1),
    "SGD with momentum": (SGD(momentum=0.9), 1e-2),
}
"""With a learning rate each; epsilon 1e-5 keeps a gradient that is nothing but rounding from being a full step."""
UPDATES = 50
AUTO = installed_places(modes=("auto",))
ALL = installed_places()


def loss(xp, networks, batch, coefficients):
    """An actor-critic on random numbers: a Gaussian policy and a value."""
    x = batch["x"]
    log_std = networks["log_std"](x)
    scaled = (batch["actions"] - networks["policy"](x)) * xp.exp(-log_std)
    log_probs = -0.5 * xp.sum(xp.square(scaled) + 2.0 * log_std, axis=-1)
    value_loss = xp.mean(xp.square(networks["value"](x)[..., 0] - batch["returns"]))
    return value_loss - xp.mean(log_probs * batch["advantages"]), {"value_loss": value_loss}


def batches():
    draw = np.random.default_rng(0)
    shapes = {"x": (32, 4), "actions": (32, 3), "returns": (32,), "advantages": (32,)}
    for _ in range(UPDATES):
        yield {name: draw.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def trained_on(place, optimizer, learning_rate, max_grad_norm):
    """Return the weights after 50 updates, whose learning rate changes, and the greatest norm of a gradient."""
    backend = place.make_backend()
    networks = backend.build(SPECS, random_weights(SPECS, seed=0))
    state = backend.optimizer(optimizer, networks)
    update = backend.update(loss, networks, state, max_grad_norm=max_grad_norm)
    norms = []
    for number, batch in enumerate(batches()):
        metrics = update(backend.put(batch), {"learning_rate": learning_rate * (1.0 - number / UPDATES)})
        norms.append(float(backend.get(metrics)["grad_norm"]))
    return backend.weights(networks), state.state_dict(), norms


@pytest.mark.parametrize(
    ("places", "max_grad_norm"),
    [
        (AUTO, 0.5),
        pytest.param(ALL, 0.5, marks=pytest.mark.slow),
        pytest.param(ALL, None, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("optimizer", "learning_rate"), OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_after_fifty_updates_the_weights_of_all_backends_are_the_same(optimizer, learning_rate, places, max_grad_norm):
    start = random_weights(SPECS, seed=0)
    expected, state, norms = trained_on(places[0], optimizer, learning_rate, max_grad_norm)

    assert max(norms) > 0.5  # some are clipped
    assert all(np.abs(array - start[name]).max() > 1e-3 for name, array in expected.items())
    for place in places[1:]:
        weights, other_state, _ = trained_on(place, optimizer, learning_rate, max_grad_norm)
        for name, array in expected.items():
            np.testing.assert_allclose(weights[name], array, atol=1e-4, err_msg=f"{name} on {place}")
        assert state.keys() == other_state.keys()  # so one's checkpoint can be the other one's
        for name, array in state.items():
            size = max(1.0, float(np.abs(array).max()))
            np.testing.assert_allclose(other_state[name], array, atol=1e-4 * size, err_msg=f"{name} on {place}")


@pytest.mark.parametrize(("optimizer", "learning_rate"), OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_an_optimizers_state_goes_on_on_another_backend(optimizer, learning_rate):
    first, *others = (place.make_backend() for place in AUTO)
    columns, coefficients = list(batches())[:4], {"learning_rate": learning_rate}
    networks = first.build(SPECS, random_weights(SPECS, seed=0))
    state = first.optimizer(optimizer, networks)
    update = first.update(loss, networks, state, max_grad_norm=0.5)
    for batch in columns[:3]:
        update(first.put(batch), coefficients)
    saved, saved_state = first.weights(networks), state.state_dict()
    update(first.put(columns[3]), coefficients)

    for backend in others:
        resumed = backend.build(SPECS, saved)
        resumed_state = backend.optimizer(optimizer, resumed)
        resumed_state.load_state_dict(saved_state)
        step = backend.update(loss, resumed, resumed_state, max_grad_norm=0.5)
        step(backend.put(columns[3]), coefficients)
        for name, array in first.weights(networks).items():
            np.testing.assert_allclose(backend.weights(resumed)[name], array, atol=1e-5, err_msg=name)  # of one step
