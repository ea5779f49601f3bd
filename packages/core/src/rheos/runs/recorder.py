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
    from rheos.reports import Report, Weights
    from rheos.runs.evaluation_result import EvaluationResult
    from rheos.runs.loggers import Logger
    from rheos.runs.run import LifeCycle, Run
    from rheos.scheduler.flow import Flow

__all__ = ["Recorder"]

_STATUS_EVERY_S = 1.0

_Identity = tuple[int, int, int]
"""Which weights: env steps and updates of the run, and the version."""


class Recorder:
    """Takes in the reports of a run and writes what it leaves behind; a row goes to every logger alike.

    When a row is due depends on env steps only, so that the same seed gives the same rows, but for their times; one is
    written at once after an evaluation. The status of a running run is written by the clock, at most once a second.
    The best checkpoint is kept: of a run with evaluations the one that was evaluated best, else the one with the best
    `episode_return_mean`.

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
        self._best: tuple[float, int] | None = None  # its score, and its env steps
        self._saved: _Identity | None = None
        self._evaluated: _Identity | None = None
        self._flow: Flow[Report] | None = None
        self._row_wall_s = self._row_waited_s = 0.0
        self._next_checkpoint = run.config.checkpoint.every_steps
        self._status_written_at = time.perf_counter()
        run.folder.write_status(run.status)
        self._metrics = MetricsLog(run.folder.metrics_path)  # last: it stays open

    def follow(self, flow: Flow[Report]) -> None:
        """Tell from now on how busy the driver of this flow is."""
        self._flow = flow
        self._row_wall_s, self._row_waited_s = self._run.wall_s, flow.waited_s

    def add(self, report: Report) -> None:
        """Take in a report."""
        self._run.totals.add(report)
        if time.perf_counter() - self._status_written_at >= _STATUS_EVERY_S:
            self._write_status(RunState.RUNNING, "")

    def add_evaluation(self, weights: Weights, result: EvaluationResult, seconds: float) -> None:
        """Take in how these weights played, write a row, and save them where none were better."""
        self._run.evaluation = result
        self._run.totals.add_evaluation(result, seconds)
        self._evaluated = self._identity(weights)
        self.write_row()
        if self._is_best(result.episode_return_mean):
            self.save(weights)

    @property
    def is_row_due(self) -> bool:
        """Whether `logger.every_steps` env steps passed since a row was written."""
        return self._run.totals.env_steps_since_row >= self._run.config.logger.every_steps

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
        identity = self._identity(weights)
        if identity == self._saved:
            return
        counters = {
            "env_steps": totals.env_steps,
            "updates": totals.updates,
            "episodes": totals.episodes,
            "episode_return_mean": totals.episode_return_mean,
        }
        score = totals.episode_return_mean
        if run.config.eval.every_steps is not None:
            evaluation = run.evaluation if identity == self._evaluated else None
            score = counters["eval_return_mean"] = None if evaluation is None else evaluation.episode_return_mean
        checkpoints = run.folder.checkpoints_path
        checkpoint = save_checkpoint(checkpoints, weights.arrays, {**self._manifest, **counters})
        self._saved = identity
        if self._best is not None and self._best[1] == totals.env_steps:
            self._best = None  # its folder has just been taken by weights of more updates
        if score is not None and self._is_best(score):
            self._best = score, totals.env_steps
        best = None if self._best is None else self._best[1]
        prune_checkpoints(checkpoints, best=None if best is None else checkpoints / str(best))
        every_steps = run.config.checkpoint.every_steps
        if every_steps is not None:
            self._next_checkpoint = (totals.env_steps // every_steps + 1) * every_steps
        run.status = replace(run.status, weights_sha256=checkpoint.manifest["weights_sha256"], best_env_steps=best)
        self._life_cycle.checkpoint_saved(checkpoint.path)

    def close(self) -> None:
        """Write the last row and close the loggers, all of them whatever one of them raises; once."""
        with afterwards(partial(do_all, *(logger.close for logger in self._loggers), self._metrics.close)):
            self.write_last_row()

    def end(self, state: RunState, reason: str) -> None:
        """Write how the run ended."""
        self._write_status(state, reason)

    def write_last_row(self) -> None:
        """Write a row of what came since the last one, if anything did."""
        if self._run.totals.has_news:
            self.write_row()

    def write_row(self) -> None:
        """Write a row of measurements, to metrics.csv and every logger, and tell of it."""
        self._measure_driver()
        row = self._run.totals.take_row(self._run.wall_s)
        self._metrics.write(row)
        measured = {name: value for name, value in row.items() if value is not None}
        env_steps = self._run.totals.env_steps
        logs = [partial(logger.log, env_steps, measured) for logger in self._loggers]
        do_all(*logs, partial(self._life_cycle.report, measured))

    def _measure_driver(self) -> None:
        """Take down in which share of the time since the last row the driver did not wait."""
        if self._flow is None:
            return
        wall_s, waited_s = self._run.wall_s, self._flow.waited_s
        if wall_s > self._row_wall_s:
            self._run.driver_busy = 1.0 - min((waited_s - self._row_waited_s) / (wall_s - self._row_wall_s), 1.0)
        self._row_wall_s, self._row_waited_s = wall_s, waited_s

    def _identity(self, weights: Weights) -> _Identity:
        return self._run.totals.env_steps, self._run.totals.updates, weights.version

    def _is_best(self, score: float) -> bool:
        return self._best is None or score >= self._best[0]

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
