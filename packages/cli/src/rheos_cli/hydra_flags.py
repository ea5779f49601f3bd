"""The flags of Hydra's command line: known to our parser, so they may stand anywhere and are checked like ours."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rheos.errors import UsageError, did_you_mean

__all__ = ["add_flags", "flags_of", "refuse_other_flags"]

_SWITCHES = {
    "--multirun": ("-m", "run one job for each combination of values"),
    "--run": ("-r", "run one job; the default"),
    "--resolve": (None, "with --cfg: references replaced by what they refer to"),
    "--hydra-help": (None, "show Hydra's own help"),
}
_WITH_VALUE = {
    "--cfg": ("-c", ("job", "hydra", "all"), "show the settings and run nothing"),
    "--package": ("-p", None, "with --cfg: only this part of them"),
    "--config-path": ("-cp", None, "another folder of configuration files instead of Rheos's"),
    "--config-name": ("-cn", None, "another file than config.yaml to start from"),
    "--config-dir": ("-cd", None, "one more folder of configuration files"),
}
_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of Hydra that mean something here; not those for shell completion and for pickles."""
    group = parser.add_argument_group("flags of Hydra, anywhere in the line")
    for flag, (short, help) in _SWITCHES.items():
        group.add_argument(*filter(None, (short, flag)), action="store_true", help=help)
    for flag, (short, choices, help) in _WITH_VALUE.items():
        group.add_argument(short, flag, choices=choices, metavar="WHAT" if choices is None else None, help=help)
    group.add_argument("-i", "--info", nargs="?", const="all", choices=_INFO, help="how the settings were put together")


def flags_of(arguments: argparse.Namespace) -> list[str]:
    """Return the flags that were given, each followed by its value, as Hydra takes them before all overrides.

    `--hydra-help` comes alone.
    """
    if arguments.hydra_help:
        return ["--hydra-help"]
    words: list[str] = []
    for flag in (*_SWITCHES, *_WITH_VALUE, "--info"):
        value = getattr(arguments, flag.removeprefix("--").replace("-", "_"))
        if value:
            words += [flag] if value is True else [flag, value]
    return words


def refuse_other_flags(words: Sequence[str]) -> None:
    """Refuse what looks like a flag among the words that should be overrides.

    Raises:
        UsageError: names the first such word, and the nearest flag.
    """
    for word in words:
        if word.startswith("--experimental-rerun"):
            raise UsageError("--experimental-rerun reads a pickle, which Rheos never does; start the run anew")
        if word.startswith("-"):
            near = did_you_mean(word, [*_SWITCHES, *_WITH_VALUE, "--info", "--quiet", "--plain"])
            raise UsageError(f"{word}: no such flag. {near}`rheos train --help` shows them.")
