"""What an error reads like on the command line, whichever command it ends."""

from __future__ import annotations

import pytest

from rheos.errors import ConfigError, EnvironmentFailed, ShapeError
from rheos_cli.failures import print_error
from rheos_cli.main import COMMANDS, main


def noted(error: BaseException, note: str) -> BaseException:
    error.add_note(note)
    return error


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ConfigError("seed: got -1"), 2, "rheos: seed: got -1\n"),
        (noted(ConfigError("device: got 'x'"), "while learner was started"), 2, "rheos: device: got 'x'\n"),
        (ShapeError("`w` has shape (3,)"), 1, "rheos: `w` has shape (3,)\n"),
        (noted(EnvironmentFailed("it fell"), "in stage 4"), 1, "rheos: it fell\n  in stage 4\n"),
        (noted(MemoryError("too much"), "in stage 4"), 1, "rheos: not enough memory: too much; in stage 4\n"),
        (noted(MemoryError(), "in stage 4\nmore"), 1, "rheos: not enough memory: in stage 4\n"),
    ],
    ids=["usage", "usage with notes", "failure", "failure with notes", "memory", "memory without a text"],
)
def test_an_error_is_what_is_wrong_and_where_it_helps_the_place(error, code, text, capsys):
    assert code == print_error(error)
    assert ("", text) == tuple(capsys.readouterr())


def test_an_error_of_user_code_keeps_its_traceback_on_every_command(monkeypatch, capsys):
    def broken(arguments):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("rheos_cli.commands.list.run", broken)

    assert 1 == main(["list"])
    err = capsys.readouterr().err
    assert 1 == err.count("Traceback")
    assert err.endswith("rheos: ZeroDivisionError('division by zero')\n")


@pytest.mark.parametrize("command", ["list", "eval", "graph"])
@pytest.mark.parametrize("code", ["bye", 0, 3, None])
def test_user_code_that_exits_is_a_failure_whatever_its_code(command, code, monkeypatch, capsys):
    def exiting(arguments):
        raise SystemExit(code)

    monkeypatch.setattr(f"{COMMANDS[command][0]}.run", exiting)

    assert 1 == main([command, "x"] if command == "eval" else [command])
    assert capsys.readouterr().err.endswith(f"rheos: SystemExit({code!r})\n")


@pytest.mark.parametrize("error", [EnvironmentFailed("it fell"), ShapeError("it fell")], ids=repr)
@pytest.mark.parametrize("command", ["eval", "graph", "plot"])
def test_what_rheos_raises_is_one_line_on_every_command(command, error, monkeypatch, capsys):
    def failing(arguments):
        raise error

    monkeypatch.setattr(f"{COMMANDS[command][0]}.run", failing)

    assert 1 == main([command, "x"])
    assert ("", "rheos: it fell\n") == tuple(capsys.readouterr())


def test_what_user_code_raised_to_cause_a_failure_shows_its_traceback_above_the_line(capsys):
    def step():
        raise ZeroDivisionError("division by zero")

    try:
        try:
            step()
        except ZeroDivisionError as cause:
            raise EnvironmentFailed("rollout-0, environment 3, step 512") from cause
    except EnvironmentFailed as error:
        print_error(error)

    err = capsys.readouterr().err
    assert "in step\n" in err
    assert err.endswith("ZeroDivisionError: division by zero\nrheos: rollout-0, environment 3, step 512\n")
