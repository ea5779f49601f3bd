"""Every loss is alive everywhere: NumPy's values, the same gradients, weights that move, and a loss that falls."""

from __future__ import annotations

import pytest

from parity.loss_cases import LOSSES, PROBLEMS
from rheos.testing.components import check_component

PARTS = {"ppo, Discrete", "ppo, MultiBinary", "ppo, Box", "ppo, image"}
"""What others are made of, so that it is tried with them in every run of the tests, and by itself in the slow ones."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in PARTS else ()) for name in PROBLEMS]
)
def test_the_learner_of_every_algorithm_is_alive_eagerly(name):
    check_component(*PROBLEMS[name], modes=("eager",))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_learner_of_every_algorithm_is_alive_in_graphs(name):
    check_component(*PROBLEMS[name], modes=("graph",))


@pytest.mark.parametrize("modes", [("eager",), pytest.param(("graph",), marks=pytest.mark.slow)], ids=" ".join)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_over_time_and_of_values_are_alive(name, modes):
    loss, spaces, settings = LOSSES[name]

    check_component(loss, spaces, modes=modes, **settings)
