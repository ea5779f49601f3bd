"""`rheos check-env`: whether an environment is what training takes it for."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from rheos.errors import ConfigError, UnknownName, UsageError

if TYPE_CHECKING:
    import gymnasium as gym

    from rheos.environments.checking import Finding

    MakeOne = Callable[[], gym.Env[Any, Any]]
    MakeMany = Callable[[int], gym.vector.VectorEnv[Any, Any, Any]]

__all__ = ["add_arguments", "run"]

EXIT_PROBLEM = 1
_COLORS = {"ok": "green", "warning": "yellow", "problem": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the environment, and how long it may be stepped."""
    parser.add_argument(
        "env",
        metavar="ENV",
        help="an id of Gymnasium (CartPole-v1, module:MyEnv-v0), or a class or function that makes one (module:MyEnv)",
    )
    parser.add_argument(
        "kwargs",
        nargs="*",
        metavar="KEY=VALUE",
        help="of its constructor, as in `rheos train`; env.kwargs.KEY=VALUE is the same",
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to step it, about (default: 5)")
    parser.add_argument("--json", action="store_true", help="print JSON: the findings, and whether all is well")


def run(arguments: argparse.Namespace) -> int:
    """Check, show every finding as it comes, and return 1 if there is a problem."""
    if not 0.0 < arguments.seconds < float("inf"):
        raise ConfigError(f"--seconds: got {arguments.seconds:g}, expected a number > 0")
    make, make_vector = _makers(arguments.env, _kwargs(arguments.kwargs))
    from rheos.environments.checking import Verdict, check_environment

    findings: list[Finding] = []
    show = (lambda finding: None) if arguments.json else _shown_on_a_console(arguments.env)
    for finding in _quietly(check_environment(make, make_vector, seconds=arguments.seconds)):
        findings.append(finding)
        show(finding)
    has_problem = any(finding.verdict is Verdict.PROBLEM for finding in findings)
    if arguments.json:
        shown = [finding._asdict() for finding in findings]
        print(json.dumps({"env": arguments.env, "is_well": not has_problem, "findings": shown}, indent=2))
    else:
        print(_conclusion(findings))
    return EXIT_PROBLEM if has_problem else 0


def _makers(name: str, kwargs: dict[str, Any]) -> tuple[MakeOne | None, MakeMany | None]:
    """Return how to make the environment, and how to make many at once where it brings that.

    Raises:
        UnknownName: if nothing is called so.
        UsageError: if a module cannot be imported, or the name in it cannot be called.
    """
    import gymnasium as gym
    from gymnasium.envs.registration import load_env_creator

    from rheos.environments.gym import find_spec

    module_name, _, attribute = name.rpartition(":")
    if module_name and not attribute:
        raise UsageError(f"{name}: expected module:Class, or module:id")
    if module_name:
        sys.path.insert(0, os.getcwd())  # as `python -m` does: the user's own file lies here
        try:
            found: Any = getattr(_imported(module_name, name), attribute, None)
        finally:
            sys.path.pop(0)
        if found is not None and not callable(found):
            raise UsageError(f"{name}: {attribute} is a {type(found).__name__}, expected a class or a function")
        if found is not None:
            _refuse_misfits(name, found, kwargs)
            make_own: MakeOne = partial(cast("Callable[..., Any]", found), **kwargs)
            return make_own, None
    try:
        spec = find_spec(name)
    except UnknownName as error:
        if not module_name:
            raise
        raise UnknownName(
            f"{name}: the module {module_name!r} has no {attribute!r}, and registers no environment of that name."
        ) from error
    has_vector = spec.vector_entry_point is not None and not spec.additional_wrappers

    def make_vector(num_envs: int) -> gym.vector.VectorEnv[Any, Any, Any]:
        """Make many at once, as the environment itself brings it."""
        return gym.make_vec(spec, num_envs, vectorization_mode="vector_entry_point", **kwargs)

    make = None
    if spec.entry_point is not None:
        with contextlib.suppress(ImportError, AttributeError):  # gym.make tells what is missing
            entry_point = spec.entry_point
            creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
            _refuse_misfits(name, creator, {**spec.kwargs, **kwargs})
        make = partial(gym.make, spec, disable_env_checker=True, **kwargs)
    return make, make_vector if has_vector else None


def _imported(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise UnknownName(f"{name}: no module {error.name!r} to import, here or installed.") from error
        raise UsageError(f"{name}: importing {module!r} failed: {error}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"{name}: importing {module!r} failed: {type(error).__name__}: {error}") from error


def _kwargs(words: list[str]) -> dict[str, Any]:
    """Read arguments of the environment by Hydra's grammar, so that a value means here what it means to train."""
    if not words:
        return {}
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    kwargs: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.lstrip("+").removeprefix("env.kwargs.").partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"{word}: cannot be read, expected KEY=VALUE, an argument of the environment")
        try:
            override = parser.parse_override(f"{key}={value}")
        except HydraException as error:
            raise UsageError(f"{word}: cannot be read: {' '.join(str(error).split())}") from error
        if override.is_sweep_override():
            raise UsageError(f"{word}: got several values, expected one: a sweep is for `rheos train -m`")
        kwargs[key] = override.value()
    return kwargs


def _refuse_misfits(name: str, creator: Callable[..., Any], kwargs: dict[str, Any]) -> None:
    """Refuse arguments that a constructor does not take, or lacks; what has no signature tells when it is called."""
    try:
        signature = inspect.signature(creator)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**kwargs)
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "none"
        raise ConfigError(f"{name}: {error}; it takes {takes}") from error


def _quietly(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Keep what the environment prints, and warnings that its user cannot act upon, out of the findings."""
    while True:
        with warnings.catch_warnings(), _silence():
            warnings.simplefilter("ignore")
            finding = next(findings, None)
        if finding is None:
            return
        yield finding


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drop what is written to stdout and stderr, by code in C, too."""
    with contextlib.ExitStack() as stack:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        nowhere = stack.enter_context(open(os.devnull, "w"))
        for number in (1, 2):
            with contextlib.suppress(OSError):  # it is closed
                kept = os.dup(number)
                stack.callback(os.close, kept)
                stack.callback(os.dup2, kept, number)
                os.dup2(nowhere.fileno(), number)
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        yield


def _shown_on_a_console(name: str) -> Callable[[Finding], None]:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(name, style="bold"))

    def show(finding: Finding) -> None:
        """Print the verdict, the check and the message side by side."""
        line = Table.grid(padding=(0, 2))
        line.add_column(width=8)
        line.add_column(width=13)
        line.add_column()
        verdict = finding.verdict.value
        line.add_row(Text(verdict, style=_COLORS[verdict]), finding.check, Text(finding.message))
        console.print(line)

    return show


def _conclusion(findings: list[Finding]) -> str:
    counts = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in ("problem", "warning")}
    if not any(counts.values()):
        return "All is well: it can be trained in."
    told = [f"{count} {verdict}{'s' if count > 1 else ''}" for verdict, count in counts.items() if count]
    return f"{' and '.join(told)}: {'mend it before training' if counts['problem'] else 'it can be trained in'}."
