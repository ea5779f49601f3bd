"""resume: go on with a run that was interrupted, failed, was killed, or shall do more."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rheos.configuration.run_config import RunConfig
from rheos.plugins import Registry, load_registry
from rheos.runs.changes import changed_settings
from rheos.runs.cut_runs import CutRun
from rheos.runs.experiment import resume_experiment
from rheos.runs.folder import RunFolder
from rheos.runs.locks import RunLock
from rheos.runs.status import RunResult, RunState

__all__ = ["resume", "resume_run"]


def resume(
    run_dir: str | os.PathLike[str],
    *,
    stop: Mapping[str, Any] | None = None,
    checkpoint: Mapping[str, Any] | None = None,
    eval: Mapping[str, Any] | None = None,
    logger: Mapping[str, Any] | None = None,
    executor: Mapping[str, Any] | None = None,
    device: str | None = None,
    trace: bool | None = None,
    observers: Sequence[object] = (),
    registry: Registry | None = None,
) -> RunResult:
    """Go on with a run in its own folder, from its newest whole checkpoint.

    What the run left after that checkpoint is cut off: rows of metrics.csv, weights. From a periodic checkpoint, as
    after kill -9, it then repeats, with the inline executor, the run that was never cut, bit for bit, as long as
    `checkpoint.reset_environments` is True and no setting that is given here changes what is learned (as
    `checkpoint.every_steps` does, and `stop.env_steps` where schedules go towards it). After Ctrl-C, which saves a
    checkpoint of its own, it goes on from where it was with new episodes, and is another run from there.

    Args:
        run_dir: the folder of the run.
        stop: what is to be another of the settings of `train` by the same name; as the following.
        checkpoint: as `stop`.
        eval: as `stop`.
        logger: as `stop`.
        executor: as `stop`, but for the number of workers.
        device: of the learner.
        trace: as `stop`.
        observers: as for `train`.
        registry: as for `train`.

    Returns:
        Where the run lies, and how it ended.

    Raises:
        UsageError: it cannot go on: no run, no checkpoint, being written by another process, done already, or made
            with what is not installed here. Nothing has changed then, unless it is an actor that refuses, as it starts:
            by then the run is cut back to the checkpoint, and has failed; it can be resumed again.
        KeyboardInterrupt: Ctrl-C ended the run; its folder is complete and its weights are saved.

    Example:
        ```python
        result = rheos.train("ppo", env="CartPole-v1", stop={"env_steps": 50_000})
        result = rheos.resume(result.run_dir, stop={"env_steps": 100_000})
        ```
    """
    given = {"stop": stop, "checkpoint": checkpoint, "eval": eval, "logger": logger, "executor": executor}
    changes = {key: value for key, value in {**given, "device": device, "trace": trace}.items() if value is not None}
    registry = registry if registry is not None else load_registry()
    result = resume_run(Path(run_dir), changes, registry, observers)
    if result.state is RunState.INTERRUPTED:
        raise KeyboardInterrupt(f"interrupted; the run is complete as far as it went: {result.run_dir}")
    return result


def resume_run(
    run_dir: Path, changes: Mapping[str, Any], registry: Registry, observers: Sequence[object] = ()
) -> RunResult:
    """Go on with a run; an interruption is told by the result.

    Args:
        run_dir: the folder of the run.
        changes: settings that are to be others, as plain data.
        registry: as for `train`.
        observers: as for `train`.

    Raises:
        UsageError: as `resume` does.
    """
    folder = RunFolder(run_dir)
    folder.read_status()  # refuses what is no run
    with RunLock(folder.lock_path):
        cut = CutRun.read(folder)
        config = RunConfig.from_mapping(
            {**changed_settings(cut.settings, changes), "run_dir": os.fspath(run_dir)}, registry
        )
        cut.refuse_reached_stop(config)
        return resume_experiment(config, registry, cut, observers)
