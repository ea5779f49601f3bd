"""Recorder: what a run leaves behind while it goes on: rows of measurements, checkpoints, its status."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rheos.runs.checkpoints import prune_checkpoints, save_checkpoint
from rheos.runs.endings import afterwards, do_all
from rheos.runs.metrics_log import MetricsLog
from rheos.runs.status import RunState

if TYPE_CHECKING:
    from pathlib import Path

    from rheos.reports import Report, Weights
    from rheos.runs.loggers import Logger
    from rheos.runs.run import LifeCycle, Run

__all__ = ["Recorder"]

_STATUS_EVERY_S = 1.0


class Recorder:
    """Takes in the reports of a run and writes what it leaves behind; a row goes to every logger alike.

    When a row is due depends on env steps only, so that the same seed gives the same rows, but for their times. The
    status of a running run is written by the clock, at most once a second.

    Args:
        run: the run, whose totals and status are kept here.
        manifest: what is needed to act with its weights again; saved with every checkpoint.
        loggers: beside metrics.csv; closed at the end.
        life_cycle: told of every row and checkpoint.
    """

    def __init__(self, run: Run, manifest: Mapping[str, Any], loggers: Sequence[Logger], life_cycle: LifeCycle) -> None:
        self._run = run
        self._manifest = manifest
        self._loggers = loggers
        self._life_cycle = life_cycle
        self._best: tuple[float, Path] | None = None
        self._saved: tuple[int, int, int] | None = None
        self._next_checkpoint = run.config.checkpoint.every_steps
        self._status_written_at = time.perf_counter()
        run.folder.write_status(run.status)
        self._metrics = MetricsLog(run.folder.metrics_path)  # last: it stays open

    def report(self, report: Report) -> None:
        """Take in a report, and write a row if one is due."""
        totals = self._run.totals
        totals.add(report)
        if totals.env_steps_since_row >= self._run.config.logger.every_steps:
            self._write_row()
        if time.perf_counter() - self._status_written_at >= _STATUS_EVERY_S:
            self._write_status(RunState.RUNNING, "")

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether `checkpoint.every_steps` env steps passed since weights were saved."""
        return self._next_checkpoint is not None and self._run.totals.env_steps >= self._next_checkpoint

    def save(self, weights: Weights) -> None:
        """Save weights as the checkpoint of the env steps so far, unless these very weights were saved last.

        Raises:
            RheosError: if they are not finite.
        """
        run, totals = self._run, self._run.totals
        identity = (totals.env_steps, totals.updates, weights.version)
        if identity == self._saved:
            return
        counters = {
            "env_steps": totals.env_steps,
            "updates": totals.updates,
            "episodes": totals.episodes,
            "episode_return_mean": totals.episode_return_mean,
        }
        checkpoints = run.folder.checkpoints_path
        checkpoint = save_checkpoint(checkpoints, weights.arrays, {**self._manifest, **counters})
        self._saved = identity
        mean = totals.episode_return_mean
        if mean is not None and (self._best is None or mean >= self._best[0]):
            self._best = (mean, checkpoint.path)
        prune_checkpoints(checkpoints, best=self._best[1] if self._best else None)
        every_steps = run.config.checkpoint.every_steps
        if every_steps is not None:
            self._next_checkpoint = (totals.env_steps // every_steps + 1) * every_steps
        run.status = replace(run.status, weights_sha256=checkpoint.manifest["weights_sha256"])
        self._life_cycle.checkpoint_saved(checkpoint.path)

    def close(self) -> None:
        """Write the last row and close the loggers, all of them whatever one of them raises; once."""
        with afterwards(partial(do_all, *(logger.close for logger in self._loggers), self._metrics.close)):
            if self._run.totals.has_news:
                self._write_row()

    def end(self, state: RunState, reason: str) -> None:
        """Write how the run ended."""
        self._write_status(state, reason)

    def _write_row(self) -> None:
        row = self._run.totals.take_row(self._run.wall_s)
        self._metrics.write(row)
        measured = {name: value for name, value in row.items() if value is not None}
        env_steps = self._run.totals.env_steps
        logs = [partial(logger.log, env_steps, measured) for logger in self._loggers]
        do_all(*logs, partial(self._life_cycle.report, measured))

    def _write_status(self, state: RunState, reason: str) -> None:
        totals = self._run.totals
        self._run.status = replace(
            self._run.status,
            state=state,
            reason=reason,
            env_steps=totals.env_steps,
            wall_s=round(self._run.wall_s, 3),
            episode_return_mean=totals.episode_return_mean,
            updates=totals.updates,
            episodes=totals.episodes,
        )
        self._run.folder.write_status(self._run.status)
        self._status_written_at = time.perf_counter()
