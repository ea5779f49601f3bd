"""A warning of Rheos is one line on stderr; any other stays what it is."""

from __future__ import annotations

import warnings

import pytest

from rheos.errors import RheosWarning
from rheos.plugins.registry import PluginWarning
from rheos_cli.main import main
from rheos_cli.warned import warnings_in_one_line


@pytest.mark.parametrize("category", [RheosWarning, PluginWarning])
def test_a_warning_of_ours_is_one_line(category, capsys):
    with warnings_in_one_line():
        warnings.warn("the checkpoint\n  is torn", category, stacklevel=1)

    assert ("", "rheos: warning: the checkpoint is torn\n") == tuple(capsys.readouterr())


def test_what_is_said_in_a_loop_is_said_once(capsys):
    with warnings_in_one_line():
        for _ in range(3):
            warnings.warn("again", RheosWarning, stacklevel=1)

    assert 1 == capsys.readouterr().err.count("again")


def test_quiet_leaves_them_out(capsys):
    with warnings_in_one_line(is_quiet=True):
        warnings.warn("hush", RheosWarning, stacklevel=1)

    assert ("", "") == tuple(capsys.readouterr())


def test_another_warning_stays_what_it_is():
    with pytest.warns(UserWarning, match="of a user"), warnings_in_one_line():
        warnings.warn("of a user", UserWarning, stacklevel=1)


def test_warnings_are_as_before_afterwards():
    before = warnings.showwarning, warnings.filters[:]

    with warnings_in_one_line():
        pass

    assert before == (warnings.showwarning, warnings.filters[:])


@pytest.mark.parametrize("command", ["eval", "plot", "graph"])
def test_every_command_tells_them_so(command, monkeypatch, capsys):
    def warn(arguments):
        warnings.warn("passed over", RheosWarning, stacklevel=1)
        return 0

    module = {"eval": "evaluate"}.get(command, command)
    monkeypatch.setattr(f"rheos_cli.commands.{module}.run", warn)

    assert 0 == main([command, "x"])
    assert "rheos: warning: passed over\n" == capsys.readouterr().err
