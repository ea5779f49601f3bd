"""Recorder: what a run leaves behind while it goes on: rows of measurements, checkpoints, its status."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rheos.runs.checkpoint_states import EncodedState, has_state
from rheos.runs.checkpoints import prune_checkpoints, refuse_non_finite, save_checkpoint, sha256_of
from rheos.runs.endings import afterwards, do_all, in_one_line, on_failure
from rheos.runs.flow_state import NoState
from rheos.runs.loggers import ResumableLogger
from rheos.runs.metrics_log import LogPosition, MetricsLog
from rheos.runs.status import RunState

if TYPE_CHECKING:
    from rheos.reports import Report, Weights
    from rheos.runs.evaluation_result import EvaluationResult
    from rheos.runs.loggers import Logger
    from rheos.runs.run import LifeCycle, Run
    from rheos.scheduler.flow import Flow
    from rheos.scheduler.statistics import FlowStatistics

__all__ = ["Encode", "Recorder"]

_STATUS_EVERY_S = 1.0

Encode = Callable[[dict[str, Any]], EncodedState]
"""From what the run remembers to what a checkpoint holds beside the weights; raises `NoState` if there is nothing."""

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
        resumed: what the recorder of the run remembered that this one goes on from.

    Raises:
        RunFolderError: if the metrics.csv of that run does not reach so far.
    """

    def __init__(
        self,
        run: Run,
        manifest: Mapping[str, Any],
        loggers: Sequence[Logger],
        life_cycle: LifeCycle,
        resumed: Mapping[str, Any] | None = None,
    ) -> None:
        self._run = run
        self._manifest = manifest
        self._loggers = loggers
        self._life_cycle = life_cycle
        self._best: tuple[float, int] | None = None  # its score, and its env steps
        self._saved: _Identity | None = None
        self._has_saved_state = False
        self._best_of_state: int | None = None
        self._evaluated: _Identity | None = None
        self._flow: Flow[Report] | None = None
        self._measured: FlowStatistics | None = None  # at the last row
        self._next_checkpoint = run.config.checkpoint.every_steps
        self._status_written_at = time.perf_counter()
        position = None if resumed is None else self._resume(resumed)
        self._metrics = MetricsLog(run.folder.metrics_path, position)
        with on_failure(self._metrics.close):
            if resumed is not None:
                for logger in self._loggers:
                    if isinstance(logger, ResumableLogger):
                        logger.resume(run.totals.env_steps)
            run.folder.write_status(run.status)

    def _resume(self, state: Mapping[str, Any]) -> LogPosition:
        """Take the state of the recorder of a run that was cut; return where metrics.csv goes on."""
        run = self._run
        run.totals.load_state_dict(state["totals"])
        run.evaluation = state["evaluation"]
        run.started_at = time.perf_counter() - state["wall_s"]
        run.resumed_at = run.totals.env_steps
        self._best, self._saved, self._evaluated = state["best"], state["saved"], state["evaluated"]
        self._has_saved_state = True
        if self._best is not None and not (run.folder.checkpoints_path / str(self._best[1])).exists():
            self._best = None  # it goes on from one before the newest, which was torn
        self._best_of_state = None if self._best is None else self._best[1]
        every_steps = run.config.checkpoint.every_steps
        is_as_before = every_steps == state["every_steps"]
        self._next_checkpoint = state["next_checkpoint"] if is_as_before else self._after(every_steps)
        run.status = replace(
            run.status,
            **self._counters(),
            weights_sha256=state["weights_sha256"],
            best_env_steps=self._best_of_state,
        )
        return LogPosition(state["columns"], state["rows"])

    def _state_dict(self, weights_sha256: str) -> dict[str, Any]:
        """Return what the recorder of a resumed run goes on from."""
        run, position = self._run, self._metrics.position
        return {
            "totals": run.totals.state_dict(),
            "evaluation": run.evaluation,
            "wall_s": run.wall_s,
            "best": self._best,
            "saved": self._saved,
            "evaluated": self._evaluated,
            "every_steps": run.config.checkpoint.every_steps,
            "next_checkpoint": self._next_checkpoint,
            "weights_sha256": weights_sha256,
            "columns": position.columns,
            "rows": position.rows,
        }

    def follow(self, flow: Flow[Report]) -> None:
        """Tell from now on how busy the driver and the actors of this flow are."""
        self._flow, self._measured = flow, flow.statistics()

    def add(self, report: Report) -> None:
        """Take in a report."""
        self._run.totals.add(report)
        if time.perf_counter() - self._status_written_at >= _STATUS_EVERY_S:
            self._write_status(RunState.RUNNING, "")

    def add_evaluation(self, weights: Weights, result: EvaluationResult, seconds: float) -> bool:
        """Take in how these weights played, and write a row; return whether none were better."""
        self._run.evaluation = result
        self._run.totals.add_evaluation(result, seconds)
        self._evaluated = self._identity(weights)
        self.write_row()
        return self._is_best(result.episode_return_mean)

    @property
    def is_row_due(self) -> bool:
        """Whether `logger.every_steps` env steps passed since a row was written."""
        return self._run.totals.env_steps_since_row >= self._run.config.logger.every_steps

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether `checkpoint.every_steps` env steps passed since weights were saved."""
        return self._next_checkpoint is not None and self._run.totals.env_steps >= self._next_checkpoint

    def save(
        self,
        weights: Weights,
        encode: Encode | None = None,
        *,
        no_state: str = "it was saved because its weights were evaluated best",
    ) -> None:
        """Save a checkpoint of the env steps so far, unless the same was saved last.

        Weights without a state never take the place of a checkpoint of the same env steps that holds one.

        Args:
            weights: of the learner.
            encode: joins what the run remembers with the state of its flow; None saves the weights only.
            no_state: why there is no state in it, where there is none.

        Raises:
            RheosError: if the weights are not finite.
            Exception: what `encode` raised, but for `NoState`; the weights are saved by then.
        """
        run, totals = self._run, self._run.totals
        identity = self._identity(weights)
        if identity == self._saved and (self._has_saved_state or encode is None):
            return
        checkpoints = run.folder.checkpoints_path
        holds_state = has_state(checkpoints / str(totals.env_steps))
        if encode is None and holds_state:
            return
        refuse_non_finite(weights.arrays, totals.env_steps)
        manifest = {**self._manifest, **self._counters()}
        score = totals.episode_return_mean
        if run.config.eval.every_steps is not None:
            evaluation = run.evaluation if identity == self._evaluated else None
            score = manifest["eval_return_mean"] = None if evaluation is None else evaluation.episode_return_mean
        before = self._best, self._next_checkpoint, self._saved, self._has_saved_state
        if self._best is not None and self._best[1] == totals.env_steps:
            self._best = None  # its folder is taken by weights of more updates
        if score is not None and self._is_best(score):
            self._best = score, totals.env_steps
        best = None if self._best is None else self._best[1]
        self._next_checkpoint = self._after(run.config.checkpoint.every_steps)
        self._saved, self._has_saved_state = identity, encode is not None
        weights_sha256 = sha256_of(weights.arrays)
        state: EncodedState | None = None
        failure: Exception | None = None
        if encode is not None:
            try:
                state = encode(self._state_dict(weights_sha256))
            except NoState as error:
                no_state = str(error)
            except Exception as error:
                no_state, failure = in_one_line(error), error
        if state is None and holds_state:
            self._best, self._next_checkpoint, self._saved, self._has_saved_state = before
        else:
            if state is None:
                manifest["no_state"] = no_state
            else:
                self._best_of_state = best  # kept with it: a run that goes on from there knows no later one
            self._flush()  # the rows that a checkpoint counts are on the disk before it is
            path = save_checkpoint(checkpoints, weights.arrays, manifest, state).path
            also = {checkpoints / str(kept) for kept in (best, self._best_of_state) if kept is not None}
            prune_checkpoints(checkpoints, {path, *also})
            run.status = replace(run.status, weights_sha256=weights_sha256, best_env_steps=best)
            self._life_cycle.checkpoint_saved(path)
        if failure is not None:
            raise failure

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
        flow = self._measure_flow()
        row = self._run.totals.take_row(self._run.wall_s)
        self._metrics.write(row)
        measured = {name: value for name, value in row.items() if value is not None}
        env_steps = self._run.totals.env_steps
        logs = [partial(logger.log, env_steps, {**measured, **flow}) for logger in self._loggers]
        do_all(*logs, partial(self._life_cycle.report, measured))

    def _flush(self) -> None:
        self._metrics.sync()
        for logger in self._loggers:
            if isinstance(logger, ResumableLogger):
                logger.flush()

    def _measure_flow(self) -> dict[str, float]:
        """Take down who was busy since the last row; return it as loggers get it."""
        if self._flow is None:
            return {}
        now = self._flow.statistics()
        self._run.busy, self._run.restarts = now.busy_since(self._measured), now.restarts
        self._measured = now
        busy = {f"busy/{role}": share for role, share in self._run.busy.items()}
        return busy | {"restarts": float(now.restarts), "lost": float(now.lost)}

    def _identity(self, weights: Weights) -> _Identity:
        return self._run.totals.env_steps, self._run.totals.updates, weights.version

    def _is_best(self, score: float) -> bool:
        return self._best is None or score >= self._best[0]

    def _after(self, every_steps: int | None) -> int | None:
        """Return the env steps of the next checkpoint."""
        return None if every_steps is None else (self._run.totals.env_steps // every_steps + 1) * every_steps

    def _counters(self) -> dict[str, Any]:
        totals = self._run.totals
        return {
            "env_steps": totals.env_steps,
            "updates": totals.updates,
            "episodes": totals.episodes,
            "episode_return_mean": totals.episode_return_mean,
        }

    def _write_status(self, state: RunState, reason: str) -> None:
        self._run.status = replace(
            self._run.status, state=state, reason=reason, wall_s=round(self._run.wall_s, 3), **self._counters()
        )
        self._run.folder.write_status(self._run.status)
        self._status_written_at = time.perf_counter()
