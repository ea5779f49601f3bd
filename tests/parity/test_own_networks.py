"""check_component on the users' own networks: what is right passes, what is not is told in one line."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from rheos.errors import ConfigError
from rheos.networks.specs import MLP, Native
from rheos.testing import ComponentFailure, check_component

NUMBERS = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)


class Dead(torch.nn.Module):
    """A layer whose part in the result is multiplied by 0."""

    def __init__(self):
        super().__init__()
        self.dead, self.alive = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)

    def forward(self, x):
        return 0.0 * self.dead(x) + self.alive(x)


class Frozen(torch.nn.Module):
    """A layer that is not trained, and stays."""

    def __init__(self):
        super().__init__()
        self.frozen, self.head = torch.nn.Linear(4, 8).requires_grad_(False), torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.frozen(x)))


class Flattening(torch.nn.Linear):
    """A network that forgets the axis of the rows."""

    def __init__(self):
        super().__init__(4, 2)

    def forward(self, x):
        return super().forward(x).reshape(-1)


class Logarithm(torch.nn.Linear):
    """A network whose outputs are no numbers here and there."""

    def __init__(self):
        super().__init__(4, 2)

    def forward(self, x):
        return torch.log(super().forward(x))


def torch_network():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def keras_network():
    import keras

    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(2)])


@pytest.mark.parametrize("make", [torch_network, keras_network])
def test_a_network_of_the_users_own_is_checked_on_its_framework(make):
    check_component(Native(make), NUMBERS)


def test_a_frozen_layer_stays():
    check_component(Native(Frozen), NUMBERS, modes=("eager",))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Dead, r"network/dead/(weight|bias) in an update: got the numbers that it had before, expected every trained"),
        (Flattening, r"outputs: got the shape \(32,\), expected \(16, \.\.\.\), the axes of the inputs\."),
        (Logarithm, r"outputs: got nan in \d+ of 32, expected finite numbers\."),
    ],
)
def test_a_broken_network_is_told_in_one_line(make, message):
    with pytest.raises(ComponentFailure, match=rf"^Native on torch \(eager\): {message}") as failure:
        check_component(Native(make), NUMBERS, modes=("eager",))

    assert "\n" not in str(failure.value)


def test_a_loss_that_changes_what_is_compiled_is_told():
    class Counting:
        def __init__(self):
            self.calls = 0.5

        def __call__(self, xp, networks, batch, coefficients):
            self.calls += 1.0  # a number of Python is a constant of the graph, so another one is another graph
            return xp.mean(xp.square(networks["value"](batch["x"]))) + 0.0 * self.calls, {}

    with pytest.raises(ComponentFailure, match=r"^Counting on torch \(graph\): 100 updates: got \d+ compilations, exp"):
        check_component(Counting(), {"x": NUMBERS}, networks={"value": MLP(4, 1, ())}, backends=("torch",))


def test_without_the_framework_of_a_network_the_refusal_is_told():
    with pytest.raises(ConfigError, match="make\\(\\) gave Sequential, expected a Keras model"):
        check_component(Native(torch_network), NUMBERS, backends=("tf",))
