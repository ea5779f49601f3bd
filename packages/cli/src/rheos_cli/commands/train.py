"""`rheos train`: compose the settings of a run, or of the jobs of a multirun, and run them."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheos.errors import UsageError
from rheos.plugins import Registry, load_registry
from rheos_cli.failures import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    print_error,
)
from rheos_cli.groups import GROUPS
from rheos_cli.hydra_flags import add_flags, flags_of, refuse_other_flags
from rheos_cli.installed import choices
from rheos_cli.startup import QuickStart

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rheos.configuration.run_config import RunConfig

__all__ = ["TAKES_OVERRIDES", "add_arguments", "run"]

TAKES_OVERRIDES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how much is shown and Hydra's flags, and explain overrides; Hydra reads them."""
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    parser.add_argument("--plain", action="store_true", help="print a line now and then, also on a terminal")
    add_flags(parser)
    parser.usage = "rheos train algo=<name> [env=<name>] [key=value ...] [-m] [-q] [--plain] [flags of Hydra]"
    parser.epilog = "\n".join(
        [
            "choose in each group:",
            *(f"  {group + '=':<10}{', '.join(choices(group)) or '(none installed)'}" for group in GROUPS),
            "",
            "the same keys everywhere:",
            "  env.num_envs=8  executor.workers=1  seed=0  device=cpu  run_dir=<folder>",
            "  stop.env_steps=500000  stop.seconds=60  stop.episode_return=475  checkpoint.every_steps=100000",
            "",
            "  algo.<setting>=<value>: `rheos info <algorithm>` shows them",
            "",
            "several runs: -m seed=0,1,2 runs one job for each; their folders are below runs/multirun/<time>/,",
            "  or below run_dir where that is given. All jobs are checked before the first one starts.",
        ]
    )


def run(arguments: argparse.Namespace) -> int:
    """Run one job, or those of a multirun; return the exit code of the worst."""
    with QuickStart() as start:
        return _run(arguments, start)


def _run(arguments: argparse.Namespace, start: QuickStart) -> int:
    from rheos_cli.composition import run_hydra

    words: list[str] = arguments.overrides
    refuse_other_flags(words)
    flags = flags_of(arguments)
    if "--hydra-help" in flags:  # it composes nothing, so it would know no group that a word chooses from
        words = []
    registry = load_registry()
    jobs = _Jobs(registry, start, flags, is_quiet=arguments.quiet, is_plain=arguments.plain)
    if _is_multirun(flags, words):
        from rheos_cli.launcher import open_settings, register_launcher

        register_launcher()
        _check_all(flags, words, registry)
        words = open_settings(words)
    run_hydra(flags, words, jobs)
    return jobs.exit_code()


class _Jobs:
    """What Hydra calls for each job: trains, says how it ended, and remembers the exit code.

    It raises nothing, since Hydra would print that in its own words. A launcher that runs jobs in other processes
    tells it of them instead.
    """

    def __init__(
        self, registry: Registry, start: QuickStart, flags: Sequence[str], *, is_quiet: bool, is_plain: bool
    ) -> None:
        self.registry = registry
        self.flags = [flag for flag in flags if flag != "--multirun"]
        self._start = start
        self._is_quiet, self._is_plain = is_quiet, is_plain
        self._codes: dict[str, int] = {}
        self._not_started: list[str] = []
        self._folder: Path | None = None  # of a multirun

    def __call__(self, composed: DictConfig) -> None:
        from rheos_cli.composition import plain_settings

        job, run_dir = _job_of_multirun()
        if EXIT_INTERRUPTED in self._codes.values():  # Ctrl-C ends the whole multirun
            self._not_started.append(job)
            return
        if job:
            self._folder = Path(run_dir or "").parent
            self._print(f"job {job}")
        try:
            config = _configuration(plain_settings(composed), run_dir, self.registry)
            self._codes[job] = self._train(config)
        except (Exception, SystemExit) as error:  # user code that exits has failed, like any other
            self._codes[job] = print_error(error, f"job {job}: " if job else "")

    def add(self, job: str, run_dir: Path) -> None:
        """Hear of a job that is to run in another process."""
        self._not_started.append(job)
        self._folder = run_dir.parent

    def begins(self, job: str) -> None:
        """Hear that one begins."""
        self._not_started.remove(job)
        self._print(f"job {job} begins")

    def ends(self, job: str, code: int, cause: str) -> None:
        """Hear that one has ended, and why where it did not end well."""
        if job in self._not_started:  # it found no place
            self._not_started.remove(job)
        self._codes[job] = code
        if code == 0:
            self._print(f"job {job} is done")
        elif code == EXIT_INTERRUPTED:
            self._print(f"job {job} was interrupted")
        else:
            print(f"rheos: job {job}: {cause}", file=sys.stderr, flush=True)

    def exit_code(self) -> int:
        """Return the exit code of the worst job; of several, say which did not end well, or did not start."""
        failed = [job for job, code in self._codes.items() if code not in (0, EXIT_INTERRUPTED)]
        count = len(self._codes) + len(self._not_started)
        if self._folder is not None:
            self._print(f"Multirun: {self._folder}  next: rheos plot {shlex.quote(str(self._folder))}")
        if failed and count > 1:
            print(f"rheos: {len(failed)} of {count} jobs failed: {'; '.join(failed)}", file=sys.stderr)
        if self._not_started:
            names = "; ".join(self._not_started)
            print(f"rheos: interrupted: {len(self._not_started)} of {count} jobs not started: {names}", file=sys.stderr)
        return next((code for code in (EXIT_INTERRUPTED, EXIT_FAILED, EXIT_USAGE) if code in self._codes.values()), 0)

    def _train(self, config: RunConfig) -> int:
        """Run; the progress says how it ended, where things are, and what to type next."""
        from rheos.runs.experiment import run_experiment
        from rheos.runs.status import RunState
        from rheos_cli.progress import make_progress

        progress = [] if self._is_quiet else [make_progress(is_plain=self._is_plain)]
        result = run_experiment(config, self.registry, observers=[self._start, *progress])
        return EXIT_INTERRUPTED if result.state is RunState.INTERRUPTED else 0

    def _print(self, text: str) -> None:
        if not self._is_quiet:
            print(text, flush=True)


def _check_all(flags: Sequence[str], words: Sequence[str], registry: Registry) -> None:
    """Compose and check every job of a multirun, and its folder, so that none starts where one of them is wrong.

    Another sweeper than Hydra's own may not know its jobs beforehand, and another launcher than Hydra's and Rheos's
    own may run them elsewhere; then each job is checked when it starts.
    """
    from rheos.runs.folder import RunFolder
    from rheos.runs.program import describe, prepare
    from rheos_cli.composition import plain_settings, run_hydra, sweep_dir
    from rheos_cli.launcher import OUR_LAUNCHERS

    chosen = [word for word in words if word.lstrip("+~").startswith(("hydra/launcher", "hydra/sweeper"))]
    if not all(word.startswith(OUR_LAUNCHERS) for word in chosen):
        return
    refused: list[str] = []

    def check(composed: DictConfig) -> None:
        job, checked_dir = _job_of_multirun()
        try:
            settings = plain_settings(composed)
            parent = settings.pop(_SWEEP_DIR, None)
            config = _configuration(settings, checked_dir, registry)
            (describe if chosen else prepare)(config, registry)  # what runs elsewhere needs no device here
            number = Path(checked_dir or "").name
            RunFolder.create(Path(parent or sweep_dir(settings["run_dir"]), number)).discard()
        except UsageError as error:
            refused.append(f"job {job}: {error}")
        except (Exception, SystemExit):  # not the user's input: the job itself will tell
            return

    with tempfile.TemporaryDirectory() as folder:  # Hydra writes its multirun.yaml, which is not wanted yet
        kept = [re.sub(r"^\+*hydra\.sweep\.dir=", f"{_SWEEP_DIR}=", word) for word in words]
        kept = [word for word in kept if not re.match(r"\+*hydra[/.]launcher\b", word)]
        run_hydra(flags, [*kept, "hydra/launcher=basic", f"hydra.sweep.dir={folder}"], check)
    if refused:
        raise UsageError(refused[0])


_SWEEP_DIR = "rheos_sweep_dir"
"""The setting that holds the user's own hydra.sweep.dir while jobs are checked."""


def _is_multirun(flags: Sequence[str], words: Sequence[str]) -> bool:
    if "--cfg" in flags or "--info" in flags:
        return False  # nothing runs
    return "--multirun" in flags or any(word.lstrip("+") == "hydra.mode=MULTIRUN" for word in words)


def _job_of_multirun() -> tuple[str, str | None]:
    """Return what a job is called and where its run goes; "" and None outside of a multirun."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from rheos_cli.launcher import name_of_job

    settings = HydraConfig.get()
    if settings.mode != RunMode.MULTIRUN:
        return "", None
    words = [word for word in settings.overrides.task if not word.startswith((f"{_SWEEP_DIR}=", f"++{_SWEEP_DIR}="))]
    return name_of_job(settings.job.num, words), str(Path(settings.sweep.dir, str(settings.job.num)))


def _configuration(settings: Mapping[str, Any], run_dir: str | None, registry: Registry) -> RunConfig:
    from rheos.configuration.run_config import RunConfig

    config = RunConfig.from_mapping(settings, registry)
    return config if run_dir is None else replace(config, run_dir=run_dir)
