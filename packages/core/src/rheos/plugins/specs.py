"""Specs: what a plugin says it offers, as names and `"module:object"` strings, so that listing imports nothing."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CONTRACT_VERSION",
    "AlgorithmSpec",
    "BackendSpec",
    "EnvironmentSpec",
    "ExecutorSpec",
    "LoggerSpec",
    "Spec",
]

CONTRACT_VERSION = 1
"""The major version of the plugin contract; a plugin made for another one is refused."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What every offer has: the name that users type, and one sentence about it.

    `contract` is the version of the contract that the plugin was written for. Its default stays 1 when
    `CONTRACT_VERSION` grows, so that an old plugin that says nothing is told apart from a new one.
    """

    name: str
    summary: str
    contract: int = 1


@dataclass(frozen=True, kw_only=True)
class AlgorithmSpec(Spec):
    """An algorithm.

    Args:
        config: `"module:Class"` of its frozen dataclass of settings.
        roles: `"module:function"`, `(RunContext) -> roles`: describes the actors, starts none. The roles
            have an attribute `learner`, an `Actor` with `weights() -> Weights`, whose weights are saved.
        flow: `"module:function"`, `(roles, config) -> Stream[Report]`.
        policy: `"module:function"`, `(Spaces, config) -> PolicySpec`: how to act with saved weights.
    """

    config: str
    roles: str
    flow: str
    policy: str


@dataclass(frozen=True, kw_only=True)
class BackendSpec(Spec):
    """A backend.

    Args:
        factory: `"module:function"`, `(*, device, mode, threads) -> Backend`.
        config: `"module:Class"` of its frozen dataclass of settings, which derives from `BackendConfig`.
        export_formats: What its `export` writes.
    """

    factory: str
    config: str = "rheos.configuration.run_config:BackendConfig"
    export_formats: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExecutorSpec(Spec):
    """An executor.

    Args:
        factory: `"module:function"`, `(config) -> Executor`.
        config: `"module:Class"` of its frozen dataclass of settings, which derives from `ExecutorConfig`: the number
            of workers is there.
        has_processes: Whether each worker has a process of its own, which can be ended.
        jobs: `"module:function"`, `(settings) -> JobRunner`, where it also runs the jobs of a multirun as processes.
    """

    factory: str
    config: str = "rheos.configuration.run_config:ExecutorConfig"
    has_processes: bool = False
    jobs: str | None = None


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec(Spec):
    """A source of environments.

    Args:
        factory: `"module:function"`, `(config) -> Environment`.
        config: `"module:Class"` of its frozen dataclass of settings, which derives from `EnvironmentConfig`: workers
            and evaluations set `num_envs`.
    """

    factory: str
    config: str = "rheos.configuration.run_config:EnvironmentConfig"


@dataclass(frozen=True, kw_only=True)
class LoggerSpec(Spec):
    """A logger: `factory` is `"module:function"`, `(run_dir: Path) -> Logger`."""

    factory: str
