"""`rheos check-env`: arguments of the environment mean what they mean to train, and misfits are wrong input."""

from __future__ import annotations

import pytest

from rheos_cli.main import main


@pytest.mark.parametrize("word", ["sutton_barto_reward=true", "env.kwargs.sutton_barto_reward=true"])
def test_both_ways_to_name_an_argument_are_taken(word, capsys):
    assert 0 == main(["check-env", "CartPole-v1", word, "--seconds", "0.2"])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("gravity=3", "got an unexpected keyword argument 'gravity'; it takes sutton_barto_reward, render_mode"),
        ("sutton_barto_reward=true,false", "got several values, expected one"),
    ],
)
def test_an_argument_that_does_not_fit_is_one_line_and_exit_code_2(word, message, capsys):
    code = main(["check-env", "CartPole-v1", word])

    out, err = capsys.readouterr()
    assert (2, "", 1) == (code, out, len(err.splitlines()))
    assert message in err
