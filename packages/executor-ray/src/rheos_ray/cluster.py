"""Cluster: the connection to Ray, made or found, and given back as it was."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from math import ceil
from typing import Any

import ray
from ray import exceptions
from ray._private import utils
from ray.util.placement_group import get_current_placement_group, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rheos.errors import ConfigError, FlowError
from rheos_ray.config import RayConfig, ResourcesConfig

__all__ = ["Cluster", "wanted"]

_BYTES_PER_GB = 10**9
_KNOCK_S = 5.0


class Cluster:
    """A connection to Ray: to a cluster that runs, or to one that is made here and ends with it.

    A program that is connected already goes on so, and stays it.

    Args:
        config: where it is, and what is needed of it.

    Raises:
        ConfigError: if there is none where one was to be.
    """

    def __init__(self, config: RayConfig) -> None:
        self._config = config
        self._is_connected_here = not ray.is_initialized()
        self._group: Any = None
        if self._is_connected_here:
            _connect(config)

    def options_for(self, name: str) -> dict[str, Any]:
        """Return what Ray takes to make the process of an actor: its resources by its role."""
        if name.startswith("learner"):
            return _options(self._config.learner)
        return _options(self._config.worker) | self._in_group()

    def _in_group(self) -> dict[str, Any]:
        """Return what places a worker in the group that has room for all of them, which is made for the first one."""
        config = self._config
        if config.placement_group == "none" or get_current_placement_group() is not None:  # a job has room of its own
            return {}
        if self._group is None:
            bundles = [_bundle(config.worker)] * config.workers
            self._group = placement_group(bundles, strategy=config.placement_group)
            if not self._group.wait(config.start_timeout_s):
                raise FlowError(
                    f"{config.workers} workers found no place together (executor.placement_group="
                    f"{config.placement_group}): each {wanted(_options(config.worker))}, in"
                    f" {config.start_timeout_s:g} s (executor.start_timeout_s)."
                )
        return {"scheduling_strategy": PlacementGroupSchedulingStrategy(self._group)}

    def close(self) -> None:
        """Disconnect, if it was connected here. Idempotent."""
        if self._group is not None:
            remove_placement_group(self._group)
            self._group = None
        if self._is_connected_here:
            self._is_connected_here = False
            ray.shutdown()


def _connect(config: RayConfig) -> None:
    arguments: dict[str, Any] = {"logging_level": logging.ERROR}  # Ray tells on the screen how it starts, else
    if config.runtime_env:
        arguments["runtime_env"] = dict(config.runtime_env)
    own: dict[str, Any] = {"include_dashboard": False}
    if config.object_store_gb is not None:
        own["object_store_memory"] = int(config.object_store_gb * _BYTES_PER_GB)
    address = _running_cluster() if config.address == "auto" else config.address
    if address in (None, "local"):
        ray.init(address="local", **arguments, **own, num_cpus=_cores(config))
        return
    try:
        _knock(address)
        ray.init(address=address, **arguments)
    except (OSError, ValueError, RuntimeError, exceptions.RayError) as error:
        cause = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"executor.address: no cluster answers at {address!r} ({cause}): start one with `ray start --head`,"
            " end what is left of one with `ray stop`, or take executor.address=local. One that asks for a token needs"
            " RAY_AUTH_MODE=token."
        ) from error


def _knock(address: str) -> None:
    """See whether anybody listens at `host:port`: Ray itself tries for a minute.

    Raises:
        OSError: if nobody does.
    """
    host, _, port = address.rpartition(":")
    if "://" not in address and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_KNOCK_S).close()


def _running_cluster() -> str | None:
    """Return where the cluster is that the user means: what RAY_ADDRESS says, or `ray start` left on this machine.

    Ray's own `auto` takes any that runs here, also one that another program has made for itself and will end.
    """
    address: str | None = os.environ.get("RAY_ADDRESS") or utils.read_ray_address()
    return None if address == "auto" else address


def _cores(config: RayConfig) -> int:
    """Return how many cores a cluster for one run has: at least as many as its actors are to have.

    Nobody else is there to take them, and more workers than cores are the user's choice, as they are with threads.
    """
    asked = config.workers * config.worker.num_cpus + config.learner.num_cpus
    return max(os.cpu_count() or 1, ceil(asked))


def _options(resources: ResourcesConfig) -> dict[str, Any]:
    options: dict[str, Any] = {"num_cpus": resources.num_cpus, "num_gpus": resources.num_gpus}
    if resources.memory_gb is not None:
        options["memory"] = int(resources.memory_gb * _BYTES_PER_GB)
    if resources.resources:
        options["resources"] = dict(resources.resources)
    return options


def _bundle(resources: ResourcesConfig) -> dict[str, float]:
    options = _options(resources)
    named = {"CPU": options["num_cpus"], "GPU": options["num_gpus"], "memory": options.get("memory", 0)}
    return {name: amount for name, amount in {**named, **options.get("resources", {})}.items() if amount}


def wanted(options: Mapping[str, Any]) -> str:
    """Say what a process was to have, and how much of that the cluster has: `asked for 1 GPU, the cluster has 0`."""
    asked = {"CPU": options["num_cpus"], "GPU": options["num_gpus"], "memory": options.get("memory", 0)}
    asked |= options.get("resources", {})
    engine: Any = ray  # these two have no annotations
    there, free = engine.cluster_resources(), engine.available_resources()
    parts = [
        f"{_amount(name, amount)}, the cluster has {_amount(name, there.get(name, 0))}, of which"
        f" {_amount(name, free.get(name, 0))} free"
        for name, amount in asked.items()
        if amount
    ]
    return "asked for " + ("; ".join(parts) or "nothing")


def _amount(name: str, amount: float) -> str:
    return f"{amount / _BYTES_PER_GB:.3g} GB of memory" if name == "memory" else f"{amount:g} {name}"
