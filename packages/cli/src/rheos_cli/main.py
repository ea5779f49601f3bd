"""The entry point of `rheos`: finds the command, imports only its module, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from rheos.errors import UsageError, did_you_mean
from rheos_cli.failures import EXIT_FAILED, EXIT_INTERRUPTED, print_error
from rheos_cli.startup import one_thread_an_actor
from rheos_cli.warned import warnings_in_one_line

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "train": ("rheos_cli.commands.train", "train an algorithm: rheos train algo=ppo env=cartpole"),
    "resume": ("rheos_cli.commands.resume", "go on with a run that was cut, or shall do more"),
    "eval": ("rheos_cli.commands.evaluate", "play episodes with the weights of a run"),
    "export": ("rheos_cli.commands.export", "write the policy of a run as ONNX, torch.export or SavedModel"),
    "plot": ("rheos_cli.commands.plot", "draw the learning curves of runs"),
    "list": ("rheos_cli.commands.list", "what is installed: algorithms, environments, backends, executors, loggers"),
    "info": ("rheos_cli.commands.info", "what a name is, where it comes from, and its settings"),
    "graph": ("rheos_cli.commands.graph", "show the dataflow of an algorithm; starts no actor"),
    "check-env": ("rheos_cli.commands.check_env", "check an environment: spaces, numbers, seeds, ends, speed"),
}
"""Command -> its module and a summary; a table, so that `rheos --help` imports none of the modules."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of `rheos`.

    Args:
        argv: The words after `rheos`; those of the process by default.

    Returns:
        0, 1 for what failed, 2 for wrong input (one line on stderr), 130 when interrupted.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except KeyboardInterrupt:
        print("rheos: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe left, as in `rheos list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except (Exception, SystemExit) as error:  # no command exits by itself: user code did, and that is a failure
        return print_error(error)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if words[0] in ("-V", "--version", "version"):
        print(_version())
        return 0
    name = words[0]
    if name not in COMMANDS:
        raise UsageError(f"No command {name!r}. {did_you_mean(name, COMMANDS)}Commands: {', '.join(COMMANDS)}.")
    module_name, summary = COMMANDS[name]
    command = importlib.import_module(module_name)
    parser = _Parser(
        prog=f"rheos {name}",
        description=f"{summary[0].upper()}{summary[1:]}.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    try:
        arguments, others = parser.parse_known_args(words[1:])
    except SystemExit:  # argparse has printed the help; what is wrong is a UsageError
        return 0
    if getattr(command, "TAKES_OVERRIDES", False):
        arguments.overrides = others
    elif others:
        parser.error(f"cannot understand {' '.join(others)!r}")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # else it greets on stdout where frames are drawn
    one_thread_an_actor()
    _find_modules_here()
    with warnings_in_one_line(is_quiet=getattr(arguments, "quiet", False)):
        code: int = command.run(arguments)
    return code


def _find_modules_here() -> None:
    """Have `env.id=my_module:MyEnv-v0` find a file in the working directory; what is installed comes first."""
    with suppress(OSError):  # the directory was removed
        here = os.getcwd()
        if here not in sys.path:
            sys.path.append(here)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are errors of Rheos, so one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `{self.prog} --help` shows how it is used")


def _help() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            "usage: rheos <command> [...]",
            "",
            "Distributed reinforcement learning as short dataflow programs over actors.",
            "",
            "commands:",
            *(f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items()),
            "",
            "options:",
            "  -h, --help     show this, or with a command: its help",
            "  -V, --version  show the version",
        ]
    )


def _version() -> str:
    from importlib.metadata import version

    return f"rheos {version('rheos-core')}"
