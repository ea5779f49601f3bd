"""train: the Python face of a run, with the keys of the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rheos.configuration.run_config import RunConfig
from rheos.errors import ConfigError
from rheos.plugins import Kind, Registry, load_registry
from rheos.runs.experiment import run_experiment
from rheos.runs.status import RunResult, RunState

__all__ = ["train"]

Part = str | Mapping[str, Any]
"""A plugin by its name, or its settings with the name as `name`."""


def train(
    algo: Part,
    *,
    env: Part,
    backend: Part = "torch",
    executor: Part = "inline",
    stop: Mapping[str, Any] | None = None,
    checkpoint: Mapping[str, Any] | None = None,
    eval: Mapping[str, Any] | None = None,
    logger: Mapping[str, Any] | None = None,
    seed: int = 0,
    run_dir: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    trace: bool = False,
    observers: Sequence[object] = (),
    registry: Registry | None = None,
) -> RunResult:
    """Train an algorithm in an environment, and leave a run folder behind.

    The settings are those of `rheos train`, by the same names, with the same checks.

    Args:
        algo: `"ppo"`, or with settings `{"name": "ppo", "learning_rate": 1e-3}`.
        env: the id of a Gymnasium environment, or settings: `{"id": "CartPole-v1", "num_envs": 16}`; another source
            of environments than Gymnasium by its `name` there.
        backend: what computes gradients.
        executor: where the actors run; `{"name": "inline", "workers": 4}` for more of them.
        stop: `env_steps`, `seconds`, `episode_return`: the run ends at the first that is met.
        checkpoint: `every_steps` and `reset_environments`.
        eval: `every_steps`, by default never, and `episodes`: how the newest weights play is measured in environments
            of its own, which does not change what is learned.
        logger: `names`, by default all installed ones, and `every_steps`.
        seed: the same seed gives the same run, bit for bit, with the inline executor.
        run_dir: where the run goes; by default `runs/<algo>-<env>/<time>-seed<seed>`.
        device: of the learner.
        trace: whether to write `trace.json`, for Perfetto: what every worker did and when.
        observers: objects with life-cycle hooks as methods, such as `@rheos.hookimpl def rheos_report(self, row)`.
        registry: where names are found; by default all installed plugins. Actors find their backend in what is
            installed where they run.

    Returns:
        Where the run lies, and how it ended.

    Raises:
        UsageError: something asked for cannot be; one line says what to do, and nothing is left behind.
        KeyboardInterrupt: Ctrl-C ended the run; its folder is complete and its weights are saved.

    Example:
        ```python
        result = rheos.train("ppo", env="CartPole-v1", seed=1, stop={"env_steps": 100_000})
        print(result.episode_return_mean, result.run_dir)
        policy = rheos.load_policy(result.run_dir)
        ```
    """
    registry = registry if registry is not None else load_registry()
    mapping = {
        "algo": _part("algo", algo, "name"),
        "env": _part("env", env, "id"),
        "backend": _part("backend", backend, "name"),
        "executor": _part("executor", executor, "name"),
        "stop": stop,
        "checkpoint": checkpoint,
        "eval": eval,
        "logger": {"names": registry.names(Kind.LOGGER), **_settings("logger", {} if logger is None else logger)},
        "seed": seed,
        "run_dir": os.fspath(run_dir) if isinstance(run_dir, os.PathLike) else run_dir,
        "device": device,
        "trace": trace,
    }
    result = run_experiment(RunConfig.from_mapping(mapping, registry), registry, observers)
    if result.state is RunState.INTERRUPTED:
        raise KeyboardInterrupt(f"interrupted; the run is complete as far as it went: {result.run_dir}")
    return result


def _part(name: str, part: Part, key: str) -> Mapping[str, Any]:
    return {key: part} if isinstance(part, str) else _settings(name, part, f"{_A_WORD[key]}, or ")


def _settings(name: str, settings: object, otherwise: str = "") -> Mapping[str, Any]:
    if not isinstance(settings, Mapping):
        kind = type(settings).__name__
        raise ConfigError(f"{name}: got {settings!r} ({kind}), expected {otherwise}settings by name")
    return settings


_A_WORD = {"name": "a name", "id": "an id"}
