"""The executor `ray`: actors in processes, on this machine or on the nodes of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import ray

from rheos.executors.inline import DriverActor
from rheos.executors.protocol import Completions, RunningActor, Shared
from rheos.executors.threads import ThreadActor
from rheos.streams.actors import Actor, Placement
from rheos_ray.actors import RayActor
from rheos_ray.cluster import Cluster
from rheos_ray.config import RayConfig
from rheos_ray.logs import ActorLog
from rheos_ray.messages import Stored

if TYPE_CHECKING:
    from rheos.configuration.run_config import ExecutorConfig

__all__ = ["RayExecutor", "make_executor"]

T = TypeVar("T")


class RayExecutor:
    """Runs actors as Ray's; those on the driver and on threads live there, and read what others put where it lies.

    Args:
        config: where the cluster is, and what each actor needs.

    Raises:
        ConfigError: if there is no cluster where one was to be, or it can never have what the actors need.
    """

    name = "ray"

    def __init__(self, config: RayConfig | None = None) -> None:
        self._config = RayConfig() if config is None else config
        self._cluster = Cluster(self._config)
        self._log: ActorLog | None = None

    def spawn(self, actor: Actor[Any], completions: Completions) -> RunningActor:
        """Begin to start an actor where it is placed."""
        if actor.placement is Placement.DRIVER:
            return DriverActor(actor, self.put, completions)
        if actor.placement is Placement.THREAD:
            return ThreadActor(actor, self.put, completions)
        return RayActor(actor, self._cluster.options_for(actor.name), completions, self._config.start_timeout_s)

    def put(self, value: T) -> Shared[T]:
        """Store a value once; every node that reads it gets it once."""
        return cast("Shared[T]", Stored(ray.put(value)))

    def log_to(self, folder: Path) -> None:
        """Write what actors print into `actors.log` in this folder, in place of the screen."""
        self._log = ActorLog(folder / "actors.log")

    def close(self) -> None:
        """Leave the cluster, and end it if it was made here."""
        self._cluster.close()
        if self._log is not None:
            self._log.close()


def make_executor(config: ExecutorConfig) -> RayExecutor:
    """Make the executor that the configuration names `ray`."""
    assert isinstance(config, RayConfig)
    return RayExecutor(config)
