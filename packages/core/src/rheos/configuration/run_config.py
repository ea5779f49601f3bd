"""RunConfig: the settings of a run, the same keys on the command line, in YAML and in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from rheos.configuration.settings import from_mapping, reject_unknown, setting, to_mapping
from rheos.errors import ConfigError
from rheos.plugins.resolving import make_environment, settings_class
from rheos.plugins.specs import AlgorithmSpec, BackendSpec, EnvironmentSpec, ExecutorSpec

if TYPE_CHECKING:
    from rheos.plugins.registry import Registry
    from rheos.runs.context import RunContext

__all__ = [
    "BackendConfig",
    "CheckpointConfig",
    "CommonConfig",
    "EnvironmentConfig",
    "EvalConfig",
    "ExecutorConfig",
    "LoggerConfig",
    "RunConfig",
    "StopConfig",
]

S = TypeVar("S", AlgorithmSpec, BackendSpec, EnvironmentSpec, ExecutorSpec)


@dataclass(frozen=True)
class EnvironmentConfig:
    """Which environment, and how many of it a worker steps together."""

    name: str = setting("gym", help="the plugin that makes the environments")
    id: str = setting("CartPole-v1", allow_empty=False, help="the environment's id, as registered with Gymnasium")
    num_envs: int = setting(8, minimum=1, help="environments per worker")
    vectorization: str = setting(
        "auto",
        choices=("auto", "vector_entry_point", "sync", "async"),
        help="how the environments of a worker are stepped; auto takes a native vector environment where there is one",
    )
    check_bounds: bool = setting(True, help="whether an observation outside the bounds of its space ends the run")
    step_timeout_s: float | None = setting(
        None,
        exclusive_minimum=0.0,
        unit="s",
        help="end a worker whose environments take longer for a step, where workers have processes; null: never",
    )
    action_masks: str = setting(
        "none",
        choices=("none", "info", "method"),
        help="where the mask of allowed actions comes from: info['action_mask'] or env.action_masks()",
    )
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BackendConfig:
    """Which framework computes gradients, and how."""

    name: str = setting("torch", help="the plugin that computes gradients")
    mode: str = setting("auto", choices=("auto", "eager", "graph"), help="define-by-run, compiled, or what pays")
    threads: int = setting(1, minimum=1, help="threads that it computes with in each process")
    processes: int = setting(
        1, minimum=1, help="processes that learn together, each from an equal part of every minibatch"
    )


@dataclass(frozen=True)
class ExecutorConfig:
    """Where the actors of the flow run, and what becomes of the run when one fails."""

    name: str = setting("inline", help="the plugin that runs the actors")
    workers: int = setting(1, minimum=1, help="rollout workers, each with env.num_envs environments")
    learner_placement: str = setting(
        "auto",
        choices=("auto", "driver", "thread", "remote"),
        help="where the learner lives: in the flow's thread, in one of its own, or where workers do; auto: on the "
        "driver in a flow that does one thing after the other, else in a thread",
    )
    on_failure: str = setting(
        "raise", choices=("raise", "restart"), help="what a failed worker does: end the run, or be made anew"
    )
    max_restarts: int = setting(3, minimum=0, help="how often a worker is made anew, with on_failure=restart")
    backoff_s: float = setting(
        1.0, minimum=0.0, unit="s", help="pause before the first restart of a worker; doubles each time, up to 64 times"
    )
    min_healthy: int | None = setting(
        None, minimum=1, help="go on without a worker that fails too often while so many are left; null: never"
    )
    warn_after_s: float = setting(
        60.0, exclusive_minimum=0.0, unit="s", help="say what is waited for when nothing moves so long"
    )
    grace_s: float = setting(5.0, minimum=0.0, unit="s", help="how long workers may take to finish when a run ends")


@dataclass(frozen=True)
class LoggerConfig:
    """Which loggers write the run's measurements, beside metrics.csv, which is always written."""

    names: tuple[str, ...] = setting((), help="the plugins that write them")
    every_steps: int = setting(
        500, minimum=1, unit="env steps", help="a row of measurements each time so many steps passed"
    )


@dataclass(frozen=True)
class StopConfig:
    """When a run ends: at the first condition that is met."""

    env_steps: int | None = setting(500_000, minimum=1, unit="env steps", help="after so many environment steps")
    seconds: float | None = setting(None, minimum=0.0, unit="s", help="after so many seconds of training")
    episode_return: float | None = setting(None, help="once the mean return of the last 100 episodes reaches this")


@dataclass(frozen=True)
class CheckpointConfig:
    """How often weights are saved, and all that the run goes on from when it is resumed; the last ones always are."""

    every_steps: int | None = setting(100_000, minimum=1, unit="env steps", help="save each time so many steps passed")
    reset_environments: bool = setting(
        True,
        help="new episodes at each checkpoint, as a resumed run has to: then it repeats the uncut one bit for bit",
    )


@dataclass(frozen=True)
class EvalConfig:
    """How often the newest weights are evaluated while they are trained, and in how many episodes."""

    every_steps: int | None = setting(
        None, minimum=1, unit="env steps", help="evaluate each time so many steps passed, and at the end; null: never"
    )
    episodes: int = setting(10, minimum=1, help="episodes of an evaluation")


@dataclass(frozen=True, kw_only=True)
class CommonConfig:
    """The settings of a run that belong to no part."""

    run_dir: str | None = setting(
        None, allow_empty=False, help="where the run's files go; by default a new folder below runs/"
    )
    seed: int = setting(0, minimum=0, help="all randomness of the run derives from it")
    device: str = setting("cpu", allow_empty=False, help="where the learner computes: cpu, cuda, cuda:1")
    trace: bool = setting(False, help="write trace.json, for Perfetto: what every worker did and when")


@dataclass(frozen=True, kw_only=True)
class RunConfig(CommonConfig):
    """Everything that makes a run what it is."""

    algo: Any
    """The algorithm's own dataclass of settings."""
    algo_name: str
    env: EnvironmentConfig
    backend: BackendConfig
    executor: ExecutorConfig
    logger: LoggerConfig
    stop: StopConfig
    checkpoint: CheckpointConfig
    eval: EvalConfig

    @staticmethod
    def from_mapping(mapping: Mapping[str, Any], registry: Registry) -> RunConfig:
        """Make the configuration of a run from plain data, every part checked by the dataclass that its plugin names.

        Args:
            mapping: `{"algo": {"name": "ppo", ...}, "env": {"name": "gym", "id": ...}, ...}`; what is left out
                takes its default, only `algo.name` is required.
            registry: Where the names of algorithm, environment, backend, executor and loggers are looked up.

        Raises:
            ConfigError: for a setting with a wrong name, type or range; the message gives its path as users type it.
            UnknownName: for a name that no plugin offers.
            PluginError: for a name whose plugin cannot be used.
        """
        reject_unknown(mapping, _KEYS, path="")
        algo, algo_spec = _named_part(mapping, "algo", None, registry.algorithm)
        env, _ = _named_part(mapping, "env", "gym", registry.environment)
        backend, _ = _named_part(mapping, "backend", "torch", registry.backend)
        executor, executor_spec = _named_part(mapping, "executor", "inline", registry.executor)
        if env.step_timeout_s is not None and not executor_spec.has_processes:
            raise ConfigError(
                f"env.step_timeout_s: got {env.step_timeout_s:g}, expected null with executor={executor.name}: only an"
                " executor whose workers have processes of their own, such as ray, can end one that hangs"
            )
        workers, healthy = executor.workers, executor.min_healthy
        if healthy is not None and healthy > workers:
            raise ConfigError(f"executor.min_healthy: got {healthy}, expected at most executor.workers={workers}")
        logger = from_mapping(LoggerConfig, _part(mapping, "logger"), "logger")
        for name in logger.names:
            registry.logger(name)
        common = from_mapping(CommonConfig, {key: mapping[key] for key in _COMMON_KEYS if key in mapping})
        return RunConfig(
            algo=algo,
            algo_name=algo_spec.name,
            env=env,
            backend=backend,
            executor=executor,
            logger=logger,
            stop=from_mapping(StopConfig, _part(mapping, "stop"), "stop"),
            checkpoint=from_mapping(CheckpointConfig, _part(mapping, "checkpoint"), "checkpoint"),
            eval=from_mapping(EvalConfig, _part(mapping, "eval"), "eval"),
            run_dir=common.run_dir,
            seed=common.seed,
            device=common.device,
            trace=common.trace,
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return the plain data that `from_mapping` makes this configuration of again."""
        return {
            "algo": {"name": self.algo_name, **to_mapping(self.algo)},
            **{name: to_mapping(getattr(self, name)) for name in _PARTS if name != "algo"},
            **{key: getattr(self, key) for key in _COMMON_KEYS},
        }

    def context(self, registry: Registry) -> RunContext[Any]:
        """Return what the algorithm needs in order to describe its actors; an unknown environment is refused here.

        Args:
            registry: Where the source of environments is looked up.
        """
        from rheos.runs.context import RunContext

        return RunContext(
            config=self.algo,
            environment=make_environment(self.env, registry),
            backend=self.backend,
            num_workers=self.executor.workers,
            seed=self.seed,
            device=self.device,
            total_env_steps=self.stop.env_steps,
        )


_PARTS = ("algo", "env", "backend", "executor", "logger", "stop", "checkpoint", "eval")
_COMMON_KEYS = tuple(item.name for item in fields(CommonConfig))
_KEYS = (*_PARTS, *_COMMON_KEYS)


def _part(mapping: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = mapping.get(key)
    if part is None:
        return {}
    if not isinstance(part, Mapping):
        raise ConfigError(f"{key}: got {part!r} ({type(part).__name__}), expected settings by name")
    return part


def _named_part(mapping: Mapping[str, Any], key: str, default: str | None, find: Callable[[str], S]) -> tuple[Any, S]:
    """Return the settings of a part as the dataclass that the spec of its name asks for, and the spec."""
    part = dict(_part(mapping, key))
    name = part.get("name", default)
    if not name:
        raise ConfigError(f"{key}: not given, expected the name of {_A_KIND[key]}; `rheos list {key}` shows them")
    if not isinstance(name, str):
        raise ConfigError(f"{key}.name: got {name!r} ({type(name).__name__}), expected the name of {_A_KIND[key]}")
    spec = find(name)
    cls = settings_class(spec)
    if any(item.name == "name" for item in fields(cls)):
        part["name"] = name
    else:
        part.pop("name", None)
    return from_mapping(cls, part, key), spec


_A_KIND = {"algo": "an algorithm", "env": "an environment", "backend": "a backend", "executor": "an executor"}
