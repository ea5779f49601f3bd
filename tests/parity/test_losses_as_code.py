"""Whole losses, compiled to machine code by inductor and by XLA, are alive, too."""

from __future__ import annotations

import pytest

from parity.loss_cases import LOSSES, PROBLEMS
from rheos.testing.components import check_component

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("makes_code"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),  # torch's compiler uses what it has deprecated
]


@pytest.mark.parametrize("name", ["ppo, Discrete, masked", "ppo, Box, squashed", "ppo, nested"])
def test_the_learner_of_an_algorithm_is_alive(name):
    check_component(*PROBLEMS[name])


@pytest.mark.parametrize("name", LOSSES)
def test_losses_over_time_and_of_values_are_alive(name):
    loss, spaces, settings = LOSSES[name]
    backends = ("torch",) if name == "vtrace_loss" else None  # its memory is a loop whose length XLA would have to know

    check_component(loss, spaces, backends=backends, **settings)
