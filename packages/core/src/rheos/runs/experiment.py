"""run_experiment and resume_experiment: from settings, or a run that was cut, to a finished run folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheos.configuration.settings import to_mapping
from rheos.errors import UsageError
from rheos.plugins import make_executor, resolve
from rheos.plugins.specs import CONTRACT_VERSION
from rheos.runs.changes import learned_otherwise
from rheos.runs.endings import afterwards, do_all, in_one_line, on_failure
from rheos.runs.folder import RunFolder
from rheos.runs.interrupts import Interruptions
from rheos.runs.locks import RunLock
from rheos.runs.periodic_evaluation import PeriodicEvaluation
from rheos.runs.program import Program, prepare
from rheos.runs.recorder import Recorder
from rheos.runs.run import LifeCycle, Run
from rheos.runs.status import RunResult, RunState
from rheos.runs.training_loop import TrainingLoop
from rheos.scheduler.flow import Flow, run
from rheos.scheduler.recovery import FailurePolicy

if TYPE_CHECKING:
    from rheos.configuration.run_config import RunConfig
    from rheos.executors.protocol import Executor
    from rheos.plugins.registry import Registry
    from rheos.reports import Report
    from rheos.runs.cut_runs import CutRun
    from rheos.runs.loggers import Logger

__all__ = ["resume_experiment", "run_experiment"]


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
        folder = _make_folder(config)
        with RunLock(folder.lock_path):
            executor.log_to(folder.path)
            return _Experiment(config, registry, program, observers, folder).run(executor)


def resume_experiment(
    config: RunConfig, registry: Registry, cut: CutRun, observers: Sequence[object] = ()
) -> RunResult:
    """Go on with a run that was cut, in its own folder, which the caller has locked; else as `run_experiment`.

    Args:
        config: the settings of the run, with what may change.
        registry: as for `run_experiment`.
        cut: where it goes on.
        observers: as for `run_experiment`.

    Raises:
        UsageError: what is installed here is not what the run was made with. Nothing has changed then, unless it is
            an actor that refuses, as it starts: by then the run is cut back to the checkpoint, and has failed.
        RheosError: the learner's weights are not finite.
    """
    program = prepare(config, registry)
    cut.refuse_other_program(program)
    cut.refuse_shortened_metrics()
    executor = make_executor(config.executor, registry)
    with afterwards(executor.close):
        executor.log_to(cut.folder.path)
        saved = cut.state.decode(executor.put)
        return _Experiment(config, registry, program, observers, cut.folder, cut, saved).run(executor)


def _make_folder(config: RunConfig) -> RunFolder:
    if config.run_dir is not None:
        return RunFolder.create(Path(config.run_dir))
    return RunFolder.create_default(config.algo_name, getattr(config.env, "id", config.env.name), config.seed)


def _manifest(config: RunConfig, program: Program) -> dict[str, Any]:
    """Return what is needed to act with the weights again, and to resume, so that core never reads YAML."""
    return {
        "contract": CONTRACT_VERSION,
        "algo": {"name": config.algo_name, **to_mapping(config.algo)},
        "env": to_mapping(config.env),
        "backend": to_mapping(config.backend),
        "spaces": program.spaces.to_json(),
        "seed": config.seed,
        "settings": {key: value for key, value in config.to_mapping().items() if key != "run_dir"},
    }


class _Experiment:
    """A run that has its folder: what it records, and how it ends."""

    def __init__(
        self,
        config: RunConfig,
        registry: Registry,
        program: Program,
        observers: Sequence[object],
        folder: RunFolder,
        cut: CutRun | None = None,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        self._program = program
        self._folder = folder
        self._cut, self._saved = cut, saved
        self._run = Run(config, folder)
        if cut is not None:
            self._run.changes = learned_otherwise(cut.settings, config.to_mapping())
        self._outcome, self._has_begun = (RunState.FAILED, ""), True
        self._evaluation = PeriodicEvaluation(config, program, registry, folder.path)
        with on_failure(self._discard):
            self._life_cycle = LifeCycle(self._run, registry, observers)
            self._recorder = self._make_recorder(registry)
            with on_failure(self._recorder.close):
                folder.write_config(config.to_mapping())
                folder.flow_path.write_text(program.stream.to_mermaid())
                if cut is not None:
                    cut.cut_back()

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
            saved = None if self._saved is None else self._saved["run"]["recorder"]
            return Recorder(self._run, _manifest(config, self._program), loggers, self._life_cycle, saved)

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
            self._discard()

    def _discard(self) -> None:
        if self._cut is None:  # else it is the folder of a run that began long ago
            self._folder.discard()

    def _train(self, executor: Executor) -> tuple[RunState, str]:
        with Interruptions() as interruptions, self._start(executor) as flow:
            interruptions.on_request(flow.stop)
            self._recorder.follow(flow)
            loop = TrainingLoop(self._run, flow, self._program, self._recorder, self._evaluation, interruptions)
            return loop.run(self._saved)

    def _start(self, executor: Executor) -> Flow[Report]:
        config, resumed_at = self._run.config.executor, self._run.resumed_at
        folder = self._folder
        trace = folder.trace_path if resumed_at is None else folder.resumed_trace_path(resumed_at)
        failures = FailurePolicy()
        if config.on_failure == "restart":
            failures = FailurePolicy(config.max_restarts, config.backoff_s, config.min_healthy)
        return run(
            self._program.stream,
            executor,
            failures=failures,
            warn_after_s=config.warn_after_s,
            grace_s=config.grace_s,
            trace=trace if self._run.config.trace else None,
        )


def _reason(error: BaseException) -> str:
    """Return type, message and place of an error, as one line."""
    notes = [
        note for note in getattr(error, "__notes__", ()) if note and "\n" not in note
    ]  # a longer one is a traceback
    return f"{in_one_line(error)} ({notes[0]})" if notes else in_one_line(error)
