"""Rooms: what is kept for a process by the engine's names, and whether the nodes of a cluster hold some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import ray

from rheos_ray.config import RayConfig, ResourcesConfig

__all__ = [
    "Room",
    "amounts",
    "fits",
    "is_learner",
    "nodes_of_cluster",
    "options_of",
    "resources_of",
    "room_of",
    "total",
]

Room: TypeAlias = dict[str, float]
"""What is kept for a process, on one node: amounts by the engine's names, memory in bytes; what a node has."""

_BYTES_PER_GB = 10**9
_TOLERANCE = 1e-4
"""What the engine itself does not tell apart."""


def is_learner(actor: str) -> bool:
    """Tell whether an actor is a learner, by its name."""
    return actor.startswith("learner")


def resources_of(actor: str, config: RayConfig) -> ResourcesConfig:
    """Return what an actor asks for: those that are no learner ask as a worker does."""
    return config.learner if is_learner(actor) else config.worker


def options_of(resources: ResourcesConfig) -> dict[str, Any]:
    """Return what Ray takes to make a process that has these."""
    options: dict[str, Any] = {"num_cpus": resources.num_cpus, "num_gpus": resources.num_gpus}
    if resources.memory_gb is not None:
        options["memory"] = int(resources.memory_gb * _BYTES_PER_GB)
    if resources.resources:
        options["resources"] = dict(resources.resources)
    return options


def room_of(options: Mapping[str, Any]) -> Room:
    """Return what a process with these options takes of its node.

    Example:
        >>> room_of({"num_cpus": 2.0, "num_gpus": 0.0, "resources": {"simulator": 1.0}})
        {'CPU': 2.0, 'simulator': 1.0}
    """
    room = {"CPU": options["num_cpus"], "GPU": options["num_gpus"], "memory": options.get("memory", 0)}
    return {name: amount for name, amount in {**room, **options.get("resources", {})}.items() if amount}


def nodes_of_cluster() -> list[Room]:
    """Return what each node has, whether it is free or not."""
    engine: Any = ray  # without annotations
    return [dict(node["Resources"]) for node in engine.nodes() if node["Alive"]]


def fits(rooms: Sequence[Room], nodes: Sequence[Room], strategy: str = "PACK") -> bool:
    """Tell whether empty nodes hold all rooms, placed as Ray does: the scarcest first, on the poorest node.

    Args:
        rooms: what is asked for.
        nodes: what there is.
        strategy: of the placement group: STRICT_PACK asks for one node, STRICT_SPREAD for as many as rooms.

    Example:
        >>> two = [{"CPU": 1.0}] * 2
        >>> fits(two, [{"CPU": 2.0}]), fits(two, [{"CPU": 2.0}], "STRICT_SPREAD")
        (True, False)
        >>> fits(two, [{"CPU": 1.0}] * 2), fits(two, [{"CPU": 1.0}] * 2, "STRICT_PACK")
        (True, False)
    """
    free = [dict(node) for node in nodes]
    for room in sorted([total(rooms)] if strategy == "STRICT_PACK" else rooms, key=_scarcity, reverse=True):
        able = [node for node in free if all(node.get(name, 0) + _TOLERANCE >= room[name] for name in room)]
        if not able:
            return False
        node = min(able, key=_scarcity)
        if strategy == "STRICT_SPREAD":
            free.remove(node)
        for name, amount in room.items():
            node[name] -= amount
    return True


def _scarcity(room: Room) -> tuple[float, int, float]:
    return room.get("GPU", 0.0), len(room), room.get("CPU", 0.0)


def total(rooms: Sequence[Room]) -> Room:
    """Return the sum of rooms, by name."""
    names = dict.fromkeys(name for room in rooms for name in room)
    return {name: sum(room.get(name, 0.0) for room in rooms) for name in names}


def amounts(room: Room) -> str:
    """Return `2 CPU and 1.5 GB of memory`."""
    return " and ".join(
        f"{amount / _BYTES_PER_GB:.3g} GB of memory" if name == "memory" else f"{amount:g} {name}"
        for name, amount in room.items()
    )
