"""`rheos train`: compose the settings of a run, or of the jobs of a multirun, and run them."""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheos.errors import RheosError, UsageError
from rheos.plugins import Registry, load_registry
from rheos_cli.groups import GROUPS
from rheos_cli.installed import choices
from rheos_cli.main import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rheos.configuration.run_config import RunConfig

__all__ = ["TAKES_OVERRIDES", "add_arguments", "run"]

TAKES_OVERRIDES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Explain overrides; Hydra reads them."""
    parser.usage = "rheos train algo=<name> [env=<name>] [key=value ...] [-m] [flags of Hydra]"
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
            "flags of Hydra: --cfg job shows the settings and runs nothing; --hydra-help shows the others.",
        ]
    )


def run(arguments: argparse.Namespace) -> int:
    """Run one job, or those of a multirun; return the exit code of the worst."""
    from rheos_cli.composition import run_hydra

    words: list[str] = arguments.overrides
    if any(word.startswith("--experimental-rerun") for word in words):
        raise UsageError("--experimental-rerun reads a pickle, which Rheos never does; start the run anew")
    registry = load_registry(warn=False)
    for text in registry.warnings:
        print(f"rheos: warning: {text}", file=sys.stderr)
    if _is_multirun(words):
        _check_all(words, registry)
    jobs = _Jobs(registry)
    run_hydra(words, jobs)
    return jobs.exit_code()


class _Jobs:
    """What Hydra calls for each job: trains, says how it ended, and remembers the exit code.

    It raises nothing, since Hydra would print that in its own words.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._codes: dict[str, int] = {}

    def __call__(self, composed: DictConfig) -> None:
        job, run_dir = _job_of_multirun()
        if EXIT_INTERRUPTED in self._codes.values():
            return  # Ctrl-C ends the whole multirun
        if job:
            print(f"job {job}")
        try:
            code = _train(_configuration(composed, run_dir, self._registry), self._registry)
        except Exception as error:
            _print_error(error, f"job {job}: " if job else "")
            code = EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
        self._codes[job] = code

    def exit_code(self) -> int:
        """Return the exit code of the worst job; of several, say which did not end well."""
        failed = [job for job, code in self._codes.items() if code]
        if failed and len(self._codes) > 1:
            print(f"rheos: {len(failed)} of {len(self._codes)} jobs failed: {'; '.join(failed)}", file=sys.stderr)
        return next((code for code in (EXIT_INTERRUPTED, EXIT_FAILED, EXIT_USAGE) if code in self._codes.values()), 0)


def _check_all(words: Sequence[str], registry: Registry) -> None:
    """Compose and check every job of a multirun, so that none starts where one of them is wrong.

    Another launcher or sweeper than Hydra's own may run jobs elsewhere, or not know them beforehand; then each job
    is checked when it starts.
    """
    from rheos.runs.program import describe
    from rheos_cli.composition import run_hydra

    if any(word.lstrip("+~").startswith(("hydra/launcher", "hydra/sweeper")) for word in words):
        return
    refused: list[str] = []

    def check(composed: DictConfig) -> None:
        job, run_dir = _job_of_multirun()
        try:
            describe(_configuration(composed, run_dir, registry), registry)
        except UsageError as error:
            refused.append(f"job {job}: {error}")
        except Exception:  # not the user's input: the job itself will tell
            return

    with tempfile.TemporaryDirectory() as folder:  # Hydra writes its multirun.yaml, which is not wanted yet
        run_hydra([*words, f"hydra.sweep.dir={folder}"], check)
    if refused:
        raise UsageError(refused[0])


def _is_multirun(words: Sequence[str]) -> bool:
    return any(word in ("-m", "--multirun", "hydra.mode=MULTIRUN") for word in words)


def _job_of_multirun() -> tuple[str, str | None]:
    """Return what a job is called and where its run goes; "" and None outside of a multirun."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    settings = HydraConfig.get()
    if settings.mode != RunMode.MULTIRUN:
        return "", None
    words = " ".join(word.removeprefix("++") for word in settings.overrides.task)
    return f"{settings.job.num} ({words})", str(Path(settings.sweep.dir, str(settings.job.num)))


def _configuration(composed: DictConfig, run_dir: str | None, registry: Registry) -> RunConfig:
    from rheos.configuration.run_config import RunConfig
    from rheos_cli.composition import plain_settings

    settings: dict[str, Any] = plain_settings(composed)
    if run_dir is not None:
        settings["run_dir"] = run_dir
    return RunConfig.from_mapping(settings, registry)


def _train(config: RunConfig, registry: Registry) -> int:
    """Run; the progress says how it ended, where things are, and what to type next."""
    from rheos.runs.experiment import run_experiment
    from rheos.runs.status import RunState
    from rheos_cli.progress import Progress

    result = run_experiment(config, registry, observers=[Progress()])
    return EXIT_INTERRUPTED if result.state is RunState.INTERRUPTED else 0


def _print_error(error: Exception, prefix: str) -> None:
    """Print an error of Rheos as one line and its notes, and anything else with its traceback."""
    if not isinstance(error, RheosError):
        traceback.print_exception(error)
    print(f"rheos: {prefix}{error if isinstance(error, RheosError) else repr(error)}", file=sys.stderr)
    if isinstance(error, RheosError):
        for note in getattr(error, "__notes__", ()):
            print(f"  {note}", file=sys.stderr)
