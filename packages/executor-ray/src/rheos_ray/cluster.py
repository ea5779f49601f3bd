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
from ray.runtime_env import RuntimeEnv
from ray.util.placement_group import get_current_placement_group, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rheos.errors import ConfigError, FlowError
from rheos_ray.config import RayConfig
from rheos_ray.errors import first_line
from rheos_ray.rooms import amounts, options_of, resources_of, room_of

__all__ = ["Cluster", "check_runtime_env", "keep_places", "wanted"]

_BYTES_PER_GB = 10**9
_KNOCK_S = 5.0

_PLENTY = 10_000
"""Cores of a cluster for one run: it has no process, and takes no time, for each."""

_WORKERS = "rollout"
"""What the names of the workers begin with, of which there are `executor.workers`."""

_places: dict[str, int] = {}
"""In the process of a job: which bundle of its placement group is kept for an actor, by name."""


class Cluster:
    """A connection to Ray: to a cluster that runs, or to one that is made here and ends with it.

    A program that is connected already goes on so, and stays it.

    Args:
        config: where it is, and what is needed of it.
        num_cpus: how many cores it has at least, if it is made here. By default they are not scarce: nobody else is
            there to take them, and more actors than cores are the user's choice, as they are with threads.

    Raises:
        ConfigError: if there is none where one was to be, or a setting is wrong.
    """

    def __init__(self, config: RayConfig, num_cpus: float = _PLENTY) -> None:
        _check(config)
        self._config = config
        self._is_connected_here = not ray.is_initialized()
        self._group: Any = None
        self.is_own = self._is_connected_here and _connect(config, num_cpus)
        """Whether it was made here: nobody else is there, and no node joins."""

    def options_for(self, name: str) -> dict[str, Any]:
        """Return what Ray takes to make the process of an actor: its resources by its role, and its place."""
        options = options_of(resources_of(name, self._config))
        if name in _places:
            return options | _placed(get_current_placement_group(), _places[name])
        if name.startswith(_WORKERS):
            return options | self._in_group()
        return options

    def _in_group(self) -> dict[str, Any]:
        """Return what places a worker in the group that has room for all of them, which is made for the first one."""
        config = self._config
        if config.placement_group == "none" or get_current_placement_group() is not None:  # a job has room of its own
            return {}
        if self._group is None:
            options = options_of(config.worker)
            self._group = placement_group([room_of(options)] * config.workers, strategy=config.placement_group)
            if not self._group.wait(config.start_timeout_s):
                raise FlowError(
                    f"{config.workers} workers found no place together (executor.placement_group="
                    f"{config.placement_group}): each {wanted(options)}, in"
                    f" {config.start_timeout_s:g} s (executor.start_timeout_s)."
                )
        return _placed(self._group, -1)

    def close(self) -> None:
        """Disconnect, if it was connected here. Idempotent."""
        if self._group is not None:
            remove_placement_group(self._group)
            self._group = None
        if self._is_connected_here:
            self._is_connected_here = False
            ray.shutdown()


def keep_places(places: Mapping[str, int]) -> None:
    """Have this process, which is a job's, put actors into the bundles of its placement group that are kept for them.

    Args:
        places: the index of the bundle, by the name of the actor.
    """
    _places.update(places)


def check_runtime_env(settings: Mapping[str, Any], path: str, *, is_of_task: bool = False) -> None:
    """See whether Ray takes these as a runtime environment; for a task, it sends no folders of this machine.

    Raises:
        ConfigError: if it does not; the message begins with the path.
    """
    known = RuntimeEnv.known_fields | {name.removeprefix("_") for name in RuntimeEnv.known_fields}
    unknown = sorted(settings.keys() - known)
    if unknown and not os.environ.get("RAY_RUNTIME_ENV_PLUGINS"):  # Ray itself leaves out what it does not know
        public = sorted(name for name in RuntimeEnv.known_fields if not name.startswith("_"))
        raise ConfigError(f"{path}: got {', '.join(unknown)}, expected some of {', '.join(public)}.")
    try:
        RuntimeEnv(**settings)
        if is_of_task and settings:
            ray.remote(wanted).options(runtime_env=dict(settings))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {_cause(error)}") from error


def _placed(group: Any, index: int) -> dict[str, Any]:
    """Return what places an actor in a bundle of a group, or in any (-1)."""
    return {"scheduling_strategy": PlacementGroupSchedulingStrategy(group, index)}


def _check(config: RayConfig) -> None:
    if config.placement_group != "none" and not room_of(options_of(config.worker)):
        raise ConfigError(
            f"executor.placement_group: got {config.placement_group!r} where workers ask for nothing"
            " (executor.worker.num_cpus=0), expected 'none': let them ask for a part of a core, or leave it out."
        )


def _connect(config: RayConfig, num_cpus: float) -> bool:
    """Join a cluster or make one; tell whether it was made.

    Raises:
        ConfigError: if neither can be.
    """
    arguments: dict[str, Any] = {"logging_level": logging.ERROR}  # Ray tells on the screen how it starts, else
    if config.runtime_env:
        check_runtime_env(config.runtime_env, "executor.runtime_env")
        arguments["runtime_env"] = dict(config.runtime_env)
    address = _running_cluster() if config.address == "auto" else config.address
    if address is None or address == "local":
        address = None
    else:
        _knock(address)
    try:
        if address is None:
            _make(config, num_cpus, arguments)
        else:
            ray.init(address=address, **arguments)
    except exceptions.RuntimeEnvSetupError as error:  # its folder could not be sent
        raise ConfigError(f"executor.runtime_env: {first_line(error.error_message)}") from error
    except Exception as error:  # Ray raises whatever it likes
        raise ConfigError(_refusal(address, error)) from error
    return address is None


def _make(config: RayConfig, num_cpus: float, arguments: Mapping[str, Any]) -> None:
    """Make a cluster with at least so many cores, whatever the machine has."""
    own: dict[str, Any] = {"include_dashboard": False, "num_cpus": max(os.cpu_count() or 1, ceil(num_cpus))}
    if config.object_store_gb is not None:
        own["object_store_memory"] = int(config.object_store_gb * _BYTES_PER_GB)
    ray.init(address="local", **arguments, **own)


def _refusal(address: str | None, error: Exception) -> str:
    """Say why there is no connection, and what to do."""
    if address is None:
        return f"executor.address: Ray cannot make a cluster on this machine ({_cause(error)})."
    return (
        f"executor.address: cannot join the cluster at {address!r} ({_cause(error)}): it takes machines that"
        " are part of it, with its versions of Python and Ray; one that asks for a token needs RAY_AUTH_MODE=token."
        " End what is left of one with `ray stop`."
    )


def _cause(error: Exception) -> str:
    return first_line(error.__cause__ or error).rstrip(".")  # Ray's own may say no more than that it failed


def _knock(address: str) -> None:
    """See whether anybody listens at `host:port`: Ray itself tries for a minute.

    Raises:
        ConfigError: if nobody does.
    """
    host, _, port = address.rpartition(":")
    if "://" in address or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_KNOCK_S).close()
    except OSError as error:
        raise ConfigError(
            f"executor.address: no cluster answers at {address!r} ({_cause(error)}): start one with `ray start --head`,"
            " end what is left of one with `ray stop`, or take executor.address=local."
        ) from error


def _running_cluster() -> str | None:
    """Return where the cluster is that the user means: what RAY_ADDRESS says, or `ray start` left on this machine.

    Ray's own `auto` takes any that runs here, also one that another program has made for itself and will end.
    """
    named = os.environ.get("RAY_ADDRESS")
    found: str | None = utils.read_ray_address() if named in (None, "", "auto") else named
    return found


def wanted(options: Mapping[str, Any]) -> str:
    """Say what a process was to have, and how much of that the cluster has: `asked for 1 GPU, the cluster has 0`."""
    engine: Any = ray  # these two have no annotations
    there, free = engine.cluster_resources(), engine.available_resources()
    parts = [
        f"{amounts({name: amount})}, the cluster has {amounts({name: there.get(name, 0)})}, of which"
        f" {amounts({name: free.get(name, 0)})} free"
        for name, amount in room_of(options).items()
    ]
    return "asked for " + ("; ".join(parts) or "nothing")
