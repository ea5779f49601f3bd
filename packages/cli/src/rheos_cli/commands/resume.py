"""`rheos resume`: go on with a run that was interrupted, failed, was killed, or shall do more."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rheos.plugins import load_registry
from rheos.plugins.hooks import hookimpl
from rheos_cli.failures import EXIT_INTERRUPTED
from rheos_cli.overrides import settings_of
from rheos_cli.startup import QuickStart

if TYPE_CHECKING:
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
        changes = settings_of(arguments.overrides, "resume", "stop.env_steps=1_000_000")
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
