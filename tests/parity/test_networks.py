"""Every network spec: NumPy's values and the same gradients everywhere, and weights that travel without loss."""

from __future__ import annotations

import numpy as np
import pytest

from parity.network_cases import NETWORKS, call, draw, random_weights
from parity.probes import assert_near
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.testing.components import Place, Steps, check_component, installed_places

NAMES = {name: f"network_{number}" for number, name in enumerate(NETWORKS)}
"""Of the networks that the backends build."""
SPECS = {NAMES[name]: spec for name, (spec, _) in NETWORKS.items()}
EAGER, ALL = installed_places(modes=("eager",)), installed_places()


def outputs_of(xp, networks, batch):
    """What all networks give."""
    return {
        name: output
        for network, (spec, _) in NETWORKS.items()
        for name, output in call(spec, networks[NAMES[network]], batch, network).items()
    }


def loss(xp, networks, batch, coefficients):
    """A sum over all outputs, none of which weighs as another one."""
    terms = [
        xp.mean(output * (0.5 + number) + xp.square(output))
        for number, output in enumerate(outputs_of(xp, networks, batch).values())
    ]
    return xp.sum(xp.stack(terms)), {}


@pytest.mark.parametrize(
    ("steps", "rows", "places"),
    [
        (1, 1, EAGER),
        (4, 3, EAGER),
        pytest.param(1, 1, ALL, marks=pytest.mark.slow),
        pytest.param(4, 3, ALL, marks=pytest.mark.slow),
        pytest.param(2, 33, ALL, marks=pytest.mark.slow),
    ],
)
def test_values_are_those_of_numpy_and_gradients_the_same_everywhere(steps, rows, places):
    weights = random_weights(SPECS, seed=0)
    built = {}
    for place in places:
        backend = place.make_backend()
        networks = backend.build(SPECS, weights)
        built[place] = backend, networks, backend.infer(outputs_of, networks), Steps(backend, loss, networks)

    for seed in range(3):
        weights, batch = random_weights(SPECS, seed), draw(seed, steps, rows)
        in_numpy = NumpyNetworks(SPECS, weights)
        expected, value = outputs_of(numpy_xp, in_numpy, batch), float(loss(numpy_xp, in_numpy, batch, {})[0])
        known = {}
        for place, (backend, networks, infer, gradients) in built.items():
            backend.load(networks, weights)
            for name, output in infer(batch).items():
                size = max(1.0, float(np.abs(expected[name]).max()))
                assert_near(output, expected[name], 1e-5 * size, f"{name} on {place}")
            metrics = gradients.step(backend.put(batch), {}, 0.0)
            assert metrics["loss"] == pytest.approx(value, rel=1e-5), f"the loss on {place}"
            for name, gradient in gradients.gradients().items():
                # A sum over hundreds of products; and the slope 1 - y² of a tanh near 1, which float32 tells to a few
                # 1e-7, is multiplied by the inputs.
                size = max(largest(batch[column] for column in batch if column.startswith(f"{network_of(name)}/")), 1.0)
                size = max(size, float(np.abs(known.setdefault(name, gradient)).max()))
                assert_near(gradient, known[name], 1e-5 * size, f"the gradient of {name} on {place}")
        check_slope(weights, batch, known)


def network_of(weight):
    """Return the name of the case that a weight belongs to."""
    return next(name for name, built in NAMES.items() if weight.startswith(f"{built}/"))


def largest(arrays):
    return max(float(np.abs(array).max()) for array in arrays if array.dtype == np.float32)


def check_slope(weights, batch, gradients):
    """Along one direction, gradients are a central difference of NumPy's loss, which float32 tells to a hundredth."""
    draws = np.random.default_rng(0)
    directions = {name: draws.choice([-1.0, 1.0], gradient.shape) for name, gradient in gradients.items()}
    step = 1e-3

    def value(side):
        moved = {name: array + side * step * directions.get(name, 0.0) for name, array in weights.items()}
        return float(loss(numpy_xp, NumpyNetworks(SPECS, moved), batch, {})[0])

    found = sum(float((gradient * directions[name]).sum()) for name, gradient in gradients.items())
    size = sum(float(np.abs(gradient).sum()) for gradient in gradients.values())

    assert found == pytest.approx((value(1) - value(-1)) / (2 * step), abs=1e-2 * size)


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_that_travel_through_all_backends_and_numpy_are_the_same_bits_and_give_the_same_outputs(name):
    specs = {NAMES[name]: NETWORKS[name][0]}
    weights, batch = random_weights(specs, seed=3), draw(0, 4, 3)
    route = [*EAGER, "numpy", *EAGER[:1]]
    arrived, given = weights, {}

    def function(xp, networks, batch):
        return call(NETWORKS[name][0], networks[NAMES[name]], batch, name)

    for stop in route:
        if isinstance(stop, Place):
            backend = stop.make_backend()
            networks = backend.build(specs, random_weights(specs, seed=4))
            backend.load(networks, arrived)
            arrived, outputs = backend.weights(networks), backend.infer(function, networks)(batch)
        else:
            outputs = function(numpy_xp, NumpyNetworks(specs, arrived), batch)
        for key, output in outputs.items():
            size = max(1.0, float(np.abs(output).max()))
            np.testing.assert_allclose(
                output, given.setdefault(key, output), atol=1e-6 * size, err_msg=f"{key}, {stop}"
            )

    assert weights.keys() == arrived.keys()
    for key, array in weights.items():
        np.testing.assert_array_equal(arrived[key], array, err_msg=key)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_alive_eagerly(name):
    check_component(*NETWORKS[name], modes=("eager",), lead=(8,))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "LSTM" else pytest.mark.slow) for name in NETWORKS]
)
def test_every_network_is_alive_in_graphs(name):
    check_component(*NETWORKS[name], modes=("graph",), lead=(8,))
