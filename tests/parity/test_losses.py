"""Every loss is alive everywhere: NumPy's values, the same gradients, weights that move, and a loss that falls."""

from __future__ import annotations

import pytest

from parity.loss_cases import LEARNERS, LOSSES
from rheos.testing.components import check_component

PROBLEMS = {f"{algorithm}, {name}": given for algorithm, own in LEARNERS.items() for name, given in own.items()}
GRAPHED = ("ppo, Discrete, masked", "ppo, Box, squashed")


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_learner_of_every_algorithm_is_alive_eagerly(name):
    check_component(*PROBLEMS[name], modes=("eager",))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in GRAPHED else pytest.mark.slow) for name in PROBLEMS]
)
def test_the_learner_of_every_algorithm_is_alive_in_graphs(name):
    check_component(*PROBLEMS[name], modes=("graph",))


@pytest.mark.parametrize("modes", [("eager",), pytest.param(("graph",), marks=pytest.mark.slow)], ids=" ".join)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_over_time_and_of_values_are_alive(name, modes):
    loss, spaces, settings = LOSSES[name]

    check_component(loss, spaces, modes=modes, **settings)


@pytest.mark.slow
@pytest.mark.usefixtures("makes_code")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's compiler uses what torch has deprecated
@pytest.mark.parametrize("name", ["ppo, Discrete, masked", "ppo, Box, squashed", "ppo, nested"])
def test_compiled_to_code_a_learner_is_alive_too(name):
    check_component(*PROBLEMS[name])


@pytest.mark.slow
@pytest.mark.usefixtures("makes_code")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", LOSSES)
def test_compiled_to_code_other_losses_are_alive_too(name):
    loss, spaces, settings = LOSSES[name]

    check_component(loss, spaces, **settings)
