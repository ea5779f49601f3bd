"""`rheos resume`: go on with a run that was interrupted, failed, was killed, or shall do more."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheos.errors import UnknownName, UsageError, did_you_mean
from rheos.plugins import load_registry
from rheos.plugins.hooks import hookimpl
from rheos_cli.failures import EXIT_INTERRUPTED
from rheos_cli.groups import GROUPS
from rheos_cli.installed import choices
from rheos_cli.startup import QuickStart

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

    from rheos.runs.run import Run

__all__ = ["TAKES_OVERRIDES", "add_arguments", "run"]

TAKES_OVERRIDES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run and how much is shown, and explain overrides."""
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    parser.add_argument("--plain", action="store_true", help="print a line now and then, also on a terminal")
    parser.usage = "rheos resume RUN [key=value ...] [-q] [--plain]"
    parser.epilog = "\n".join(
        [
            "It goes on in its own folder from its newest whole checkpoint; what came after that is cut off.",
            "",
            "what may be another from here on:",
            "  stop.env_steps=1_000_000  stop.seconds=600  checkpoint.every_steps=50_000  eval.every_steps=10_000",
            "  logger.every_steps=1000  executor.grace_s=10  device=cuda, and the other settings beside these",
            "",
            "Another algorithm, environment, network, backend, seed or number of workers is another run.",
        ]
    )


def run(arguments: argparse.Namespace) -> int:
    """Resume, and say how the run ended, as `rheos train` does."""
    with QuickStart() as start:
        from rheos.runs.folder import RunFolder
        from rheos.runs.resuming import resume_run
        from rheos.runs.status import RunState
        from rheos_cli.progress import make_progress

        run_dir: Path = arguments.run
        RunFolder(run_dir).read_status()  # before the words are looked at: the first mistake is told first
        changes = _changes_of(arguments.overrides)
        progress = [] if arguments.quiet else [make_progress(is_plain=arguments.plain), _Changes()]
        result = resume_run(run_dir, changes, load_registry(), observers=[start, *progress])
    return EXIT_INTERRUPTED if result.state is RunState.INTERRUPTED else 0


class _Changes:
    """Tells which of the settings that are others by now have a part in what is learned."""

    @hookimpl
    def rheos_run_started(self, run: Run) -> None:
        """Say so in one line, below that of the run."""
        if run.changes:
            with suppress(BrokenPipeError):
                print(f"what is learned from here depends on {'; '.join(run.changes)}", flush=True)


def _changes_of(words: list[str]) -> dict[str, Any]:
    """Return overrides, in Hydra's spelling, as settings by name."""
    changes: dict[str, Any] = {}
    for word in words:
        override = _parsed(word)
        key, value = override.key_or_group, override.value()
        if key in GROUPS:
            _join(changes, {key: _chosen(key, word, value)})
        else:
            first, *others = key.split(".")
            _join(changes, {first: _nested(others, value)})
    return changes


def _nested(names: list[str], value: Any) -> Any:
    return {names[0]: _nested(names[1:], value)} if names else value


def _parsed(word: str) -> Override:
    if word.startswith("-"):
        raise UsageError(f"{word}: no such flag; `rheos resume --help` shows them")
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise UsageError(f"{word}: cannot be read: expected key=value, such as stop.env_steps=1_000_000") from error
    if override.is_delete() or override.is_sweep_override() or override.is_hydra_override():
        raise UsageError(f"{word}: expected one value for a setting, such as stop.env_steps=1_000_000")
    return override


def _chosen(group: str, word: str, value: Any) -> Mapping[str, Any]:
    """Return the settings that a choice such as `env=pendulum` stands for, to be held against those of the run."""
    if group == "exp":
        raise UsageError(f"{word}: a preset is for a new run")
    if group not in ("env", "logger"):
        return {"name": value}
    from rheos_cli.composition import compose

    known = choices(group)
    if value not in known:
        raise UnknownName(f"{word}: {did_you_mean(str(value), known)}Installed: {', '.join(known)}.")
    settings: Mapping[str, Any] = compose([], f"{group}/{value}")[group]
    return settings


def _join(changes: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(changes.get(key), dict):
            _join(changes[key], value)
        else:
            changes[key] = dict(value) if isinstance(value, Mapping) else value
