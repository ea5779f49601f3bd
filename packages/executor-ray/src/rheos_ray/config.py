"""The settings of `executor=ray`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rheos.configuration.run_config import ExecutorConfig
from rheos.configuration.settings import setting

__all__ = ["RayConfig", "ResourcesConfig"]


@dataclass(frozen=True)
class ResourcesConfig:
    """What the engine keeps free for an actor; it does not hinder it from using more."""

    num_cpus: float = setting(1.0, minimum=0.0, unit="cores", help="cores that are kept for it")
    num_gpus: float = setting(0.0, minimum=0.0, unit="GPUs", help="GPUs that are kept for it, also a part of one")
    memory_gb: float | None = setting(None, exclusive_minimum=0.0, unit="GB", help="memory that is kept for it")
    resources: Mapping[str, float] = field(default_factory=dict)
    """Of your own names, as the nodes of the cluster declare them."""


@dataclass(frozen=True)
class RayConfig(ExecutorConfig):
    """Where the cluster is, and what each actor needs of it."""

    address: str = setting(
        "auto",
        allow_empty=False,
        help="auto: a cluster that runs on this machine or that RAY_ADDRESS names, else one for this run; "
        "local: one for this run; or where a cluster is: 10.0.0.1:6379, ray://10.0.0.1:10001",
    )
    worker: ResourcesConfig = field(default_factory=ResourcesConfig)
    learner: ResourcesConfig = field(default_factory=ResourcesConfig)
    placement_group: str = setting(
        "none",
        choices=("none", "PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"),
        help="keep room for all rollout workers at once, near to or far from one another",
    )
    start_timeout_s: float = setting(
        60.0, exclusive_minimum=0.0, unit="s", help="how long to wait for what the cluster has not free, or not at all"
    )
    object_store_gb: float | None = setting(
        None, minimum=0.08, unit="GB", help="memory for items, of a cluster for this run; null: what Ray takes"
    )
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    """What Ray brings to the nodes: packages, files, variables (`ray.runtime_env`)."""
