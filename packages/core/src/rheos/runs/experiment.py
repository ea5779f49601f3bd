"""run_experiment: from settings to a finished run folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from rheos.configuration.settings import to_mapping
from rheos.errors import FlowTimeout, UsageError
from rheos.plugins import make_executor, resolve
from rheos.plugins.specs import CONTRACT_VERSION
from rheos.runs.endings import afterwards, do_all, in_one_line, on_failure
from rheos.runs.folder import RunFolder
from rheos.runs.interrupts import Interruptions
from rheos.runs.periodic_evaluation import PeriodicEvaluation
from rheos.runs.program import Program, prepare
from rheos.runs.recorder import Recorder
from rheos.runs.run import LifeCycle, Run
from rheos.runs.status import RunResult, RunState
from rheos.runs.stopping import remaining_s, stop_reason
from rheos.scheduler.flow import Flow, run
from rheos.scheduler.recovery import FailurePolicy

if TYPE_CHECKING:
    from rheos.configuration.run_config import ExecutorConfig, RunConfig
    from rheos.executors.protocol import Executor
    from rheos.plugins.registry import Registry
    from rheos.reports import Report, Weights
    from rheos.runs.loggers import Logger

__all__ = ["run_experiment"]


def run_experiment(config: RunConfig, registry: Registry, observers: Sequence[object] = ()) -> RunResult:
    """Run an algorithm until it is to stop, and leave a run folder behind.

    Ctrl-C and SIGTERM end it between two items, with its weights saved. What cannot be is refused before anything
    is left behind. A run that fails says so in status.json, and its error is raised; what fails after it, such as a
    logger that cannot write what is left, is a note of that error.

    Args:
        config: the settings; `RunConfig.from_mapping` checks them.
        registry: where algorithm, environment, executor and loggers are found by name; an actor, which may live in
            another process, finds its backend in what is installed there.
        observers: objects with life-cycle hooks as methods, told of this run after the plugins.

    Returns:
        How it ended: done or interrupted.

    Raises:
        UsageError: the settings, the environment and the algorithm do not go together, or `run_dir` is taken.
        RheosError: the learner's weights are not finite.
    """
    program = prepare(config, registry)
    executor = make_executor(config.executor, registry)
    with afterwards(executor.close):
        return _Experiment(config, registry, program, observers).run(executor)


class _Learner(Protocol):
    """What the learner of every algorithm has."""

    def weights(self) -> Weights: ...


def _make_folder(config: RunConfig) -> RunFolder:
    if config.run_dir is not None:
        return RunFolder.create(Path(config.run_dir))
    return RunFolder.create_default(config.algo_name, getattr(config.env, "id", config.env.name), config.seed)


def _manifest(config: RunConfig, program: Program) -> dict[str, Any]:
    """Return what is needed to act with the weights again, so that core never reads YAML."""
    return {
        "contract": CONTRACT_VERSION,
        "algo": {"name": config.algo_name, **to_mapping(config.algo)},
        "env": to_mapping(config.env),
        "backend": to_mapping(config.backend),
        "spaces": program.spaces.to_json(),
        "seed": config.seed,
    }


class _Experiment:
    """A run that has its folder: what it records, and how it ends."""

    def __init__(self, config: RunConfig, registry: Registry, program: Program, observers: Sequence[object]) -> None:
        self._program = program
        self._folder = _make_folder(config)
        self._run = Run(config, self._folder)
        self._outcome, self._has_begun = (RunState.FAILED, ""), True
        with on_failure(self._folder.discard):
            self._folder.write_config(config.to_mapping())
            self._folder.flow_path.write_text(program.stream.to_mermaid())
            self._life_cycle = LifeCycle(self._run, registry, observers)
            self._recorder = self._make_recorder(registry)
        self._evaluation = PeriodicEvaluation(config, program, registry, self._folder.path)

    def run(self, executor: Executor) -> RunResult:
        """Train, and leave nothing open; when plugins and observers hear of the end, everything is on the disk."""
        with (
            afterwards(self._life_cycle.ended),
            afterwards(self._discard_what_never_began),
            afterwards(lambda: self._recorder.end(*self._outcome)),
            self._judging(),
            afterwards(self._recorder.close),
        ):
            self._life_cycle.started()
            self._outcome = self._train(executor)
        return RunResult.of(self._run.status, self._folder.path)

    def _make_recorder(self, registry: Registry) -> Recorder:
        config = self._run.config
        loggers: list[Logger] = []
        with on_failure(lambda: do_all(*(logger.close for logger in loggers))):
            for factory in [resolve(registry.logger(name).factory) for name in config.logger.names]:
                logger: Logger = factory(self._folder.path)
                loggers.append(logger)
            return Recorder(self._run, _manifest(config, self._program), loggers, self._life_cycle)

    @contextmanager
    def _judging(self) -> Iterator[None]:
        """Take down how the run ended where an error ended it."""
        try:
            yield
        except KeyboardInterrupt:
            reason = "interrupted at once: the weights since the last checkpoint are not saved"
            self._outcome = RunState.INTERRUPTED, reason
            raise
        except BaseException as error:
            self._outcome = RunState.FAILED, _reason(error)
            self._has_begun = self._run.totals.has_reports or not isinstance(error, UsageError)
            raise

    def _discard_what_never_began(self) -> None:
        if not self._has_begun:
            self._folder.discard()

    def _train(self, executor: Executor) -> tuple[RunState, str]:
        with Interruptions() as interruptions, _start(self._program, executor, self._run.config.executor) as flow:
            interruptions.on_request(flow.stop)
            self._recorder.follow(flow)
            outcome = self._follow(flow, interruptions)
            weights = self._weights(flow)
            if outcome[0] is RunState.DONE and self._evaluation.is_due_at_the_end(weights, self._run.totals.env_steps):
                self._evaluate(weights, interruptions)
                outcome = _interrupted(interruptions) or outcome
            self._recorder.write_last_row()
            self._recorder.save(weights)
        return outcome

    def _follow(self, flow: Flow[Report], interruptions: Interruptions) -> tuple[RunState, str]:
        """Take in reports until the run is to stop; return how it ended and why."""
        stop = self._run.config.stop
        while True:
            reason = stop_reason(stop, self._run.totals, self._run.wall_s)
            if reason:
                return RunState.DONE, reason
            self._do_what_is_due(flow, interruptions)
            try:
                report = flow.next(timeout_s=remaining_s(stop, self._run.wall_s))
            except FlowTimeout:
                continue
            except StopIteration:
                return _interrupted(interruptions) or (RunState.DONE, "the flow came to its end")
            self._recorder.add(report)

    def _do_what_is_due(self, flow: Flow[Report], interruptions: Interruptions) -> None:
        """Between two items, evaluate, write a row and save weights, each where it is due."""
        recorder = self._recorder
        if self._evaluation.is_due(self._run.totals.env_steps):
            self._evaluate(self._weights(flow), interruptions)
        if recorder.is_row_due:
            recorder.write_row()
        if recorder.is_checkpoint_due:
            recorder.save(self._weights(flow))

    def _evaluate(self, weights: Weights, interruptions: Interruptions) -> None:
        began_at = perf_counter()
        result = self._evaluation.evaluate(
            weights, self._run.totals.env_steps, lambda: interruptions.requested is not None
        )
        if result is not None:
            self._recorder.add_evaluation(weights, result, perf_counter() - began_at)

    def _weights(self, flow: Flow[Report]) -> Weights:
        weights: Weights = flow.ask(self._program.roles.learner, _Learner.weights)
        return weights


def _start(program: Program, executor: Executor, config: ExecutorConfig) -> Flow[Report]:
    failures = FailurePolicy()
    if config.on_failure == "restart":
        failures = FailurePolicy(config.max_restarts, config.backoff_s, config.min_healthy)
    return run(program.stream, executor, failures=failures, warn_after_s=config.warn_after_s, grace_s=config.grace_s)


def _interrupted(interruptions: Interruptions) -> tuple[RunState, str] | None:
    name = interruptions.requested
    return None if name is None else (RunState.INTERRUPTED, f"interrupted by {name}")


def _reason(error: BaseException) -> str:
    """Return type, message and place of an error, as one line."""
    notes = [note.splitlines()[0] for note in getattr(error, "__notes__", ()) if note]
    return f"{in_one_line(error)} ({notes[0]})" if notes else in_one_line(error)
