"""TrainingLoop: takes in the reports of a flow, and does between two of them what is due."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from rheos.errors import FlowTimeout, ItemLost, RheosWarning, TreeError
from rheos.runs.endings import afterwards
from rheos.runs.flow_state import ONLY_WEIGHTS, FlowState, NoState
from rheos.runs.segments import SegmentWriter
from rheos.runs.status import RunState
from rheos.runs.stopping import remaining_s, stop_reason

if TYPE_CHECKING:
    from rheos.reports import Report, Weights
    from rheos.runs.checkpoint_states import EncodedState
    from rheos.runs.interrupts import Interruptions
    from rheos.runs.periodic_evaluation import PeriodicEvaluation
    from rheos.runs.program import Program
    from rheos.runs.recorder import Recorder
    from rheos.runs.run import Run
    from rheos.scheduler.flow import Flow

__all__ = ["TrainingLoop"]


class _Learner(Protocol):
    """What the learner of every algorithm has."""

    def weights(self) -> Weights: ...


class TrainingLoop:
    """Drives the flow of a run until the run is to stop.

    Args:
        run: with its settings and totals.
        flow: running, and not yet asked for an item.
        program: what the flow runs.
        recorder: takes in reports, writes rows and checkpoints.
        evaluation: plays with the newest weights now and then.
        interruptions: whether the user wants it to stop.
    """

    def __init__(
        self,
        run: Run,
        flow: Flow[Report],
        program: Program,
        recorder: Recorder,
        evaluation: PeriodicEvaluation,
        interruptions: Interruptions,
    ) -> None:
        self._run = run
        self._flow = flow
        self._learner = program.roles.learner
        self._restarts_sources = run.config.executor.on_failure == "restart"
        self._segments = SegmentWriter(run.folder.checkpoints_path)
        self._state = FlowState(
            flow,
            program.stream,
            self._learner,
            restarts_sources=self._restarts_sources,
            segments=self._segments,
        )
        self._recorder = recorder
        self._evaluation = evaluation
        self._interruptions = interruptions
        self._episodes_at_reset: int | None = run.totals.episodes
        """How many had ended when environments were reset last; None once it was warned that none ends any more."""

    def run(self, saved: Mapping[str, Any] | None) -> tuple[RunState, str]:
        """Train, save the last weights and state, and return how it ended and why.

        Args:
            saved: the state to go on from; None begins.
        """
        recorder, evaluation, totals = self._recorder, self._evaluation, self._run.totals
        if saved is not None:
            self._state.load(saved)
            evaluation.load_state_dict(saved["run"]["evaluation"], totals.env_steps)
        elif self._run.config.checkpoint.every_steps is not None:
            self._state.refuse_what_cannot_be_saved()
        outcome = self._follow()
        grace_s = None if outcome[0] is RunState.DONE else self._run.config.executor.grace_s
        try:
            weights = self._weights(grace_s)
        except FlowTimeout as error:
            return self._end_without_an_answer(outcome[1], str(error))
        if outcome[0] is RunState.DONE and evaluation.is_due_at_the_end(weights, totals.env_steps):
            self._evaluate(weights)
            outcome = self._interrupted() or outcome
        if recorder.is_row_due:
            recorder.write_row()
        self._save(weights, grace_s, is_last=True)
        recorder.write_last_row()  # not in what was saved: a run that goes on from here writes it when it is due
        return outcome

    def _end_without_an_answer(self, reason: str, cause: str) -> tuple[RunState, str]:
        """End an interrupted run whose learner does not answer in time: the weights are those it published last."""
        weights: Weights | None = self._flow.published(self._learner)
        if weights is None:
            reason = f"{reason}; the weights since the last checkpoint are not saved: {cause}"
        else:
            _warn(f"{ONLY_WEIGHTS}, those that were published last: {cause}")
            self._recorder.save(weights, no_state=cause)
        self._recorder.write_last_row()
        return RunState.INTERRUPTED, reason

    def _follow(self) -> tuple[RunState, str]:
        stop, run = self._run.config.stop, self._run
        while True:
            reason = stop_reason(stop, run.totals, run.wall_s)
            if reason:
                return RunState.DONE, reason
            self._do_what_is_due()
            try:
                report = self._flow.next(timeout_s=remaining_s(stop, run.wall_s))
            except FlowTimeout:
                continue
            except StopIteration:
                return self._interrupted() or (RunState.DONE, "the flow came to its end")
            self._recorder.add(report)

    def _do_what_is_due(self) -> None:
        """Evaluate, write a row and save a checkpoint, each where it is due."""
        recorder = self._recorder
        if self._evaluation.is_due(self._run.totals.env_steps):
            weights = self._weights()
            if self._evaluate(weights) and not recorder.is_checkpoint_due:
                recorder.save(weights)  # no state: nothing begins anew, so a run learns the same as without evaluations
        if recorder.is_row_due:
            recorder.write_row()
        if recorder.is_checkpoint_due:
            saved = self._save(self._weights())
            if saved is not None and self._run.config.checkpoint.reset_environments:
                has_cut = self._state.begin_anew(saved)  # as a run does that is resumed from here
                if has_cut:
                    self._warn_if_no_episode_ends()

    def _warn_if_no_episode_ends(self) -> None:
        """Warn, once, where environments were reset again before a single episode had ended."""
        before, now = self._episodes_at_reset, self._run.totals.episodes
        if before is not None:
            self._episodes_at_reset = None if now == before else now
        if now == before:
            _warn(
                "no episode ended between two checkpoints, at each of which the environments begin new ones, so there "
                f"may never be a return: raise checkpoint.every_steps={self._run.config.checkpoint.every_steps}, or "
                "set checkpoint.reset_environments=false."
            )

    def _evaluate(self, weights: Weights) -> bool:
        """Evaluate weights; return whether none were better so far."""
        began_at = perf_counter()
        result = self._evaluation.evaluate(
            weights, self._run.totals.env_steps, lambda: self._interruptions.requested is not None
        )
        if result is None:
            return False
        return self._recorder.add_evaluation(weights, result, perf_counter() - began_at)

    def _save(
        self, weights: Weights, timeout_s: float | None = None, *, is_last: bool = False
    ) -> Mapping[str, Any] | None:
        """Save a checkpoint; return the state in it, or None where it was there already or holds none.

        A state that cannot be written is an error while there is training to lose; at the end it is warned of. So is
        one with an item in it that is gone, whenever the run goes on without what is gone.
        """
        taken: dict[str, Any] | None = None

        def encode(recorder: dict[str, Any]) -> EncodedState:
            nonlocal taken
            try:
                taken = self._state.take(timeout_s)
                return self._state.encode(taken, {"recorder": recorder, "evaluation": self._evaluation.state_dict()})
            except (TreeError, ItemLost) as error:
                if not is_last and not (isinstance(error, ItemLost) and self._restarts_sources):
                    raise
                taken = None
                _warn(f"{ONLY_WEIGHTS}: {error}")
                raise NoState(str(error)) from error

        with afterwards(self._segments.discard):
            self._recorder.save(weights, encode)
        return taken

    def _weights(self, timeout_s: float | None = None) -> Weights:
        weights: Weights = self._flow.ask(self._learner, _Learner.weights, timeout_s=timeout_s)
        return weights

    def _interrupted(self) -> tuple[RunState, str] | None:
        name = self._interruptions.requested
        return None if name is None else (RunState.INTERRUPTED, f"interrupted by {name}")


def _warn(text: str) -> None:
    warnings.warn(text, RheosWarning, stacklevel=3)
