"""The plugin of rheos-executor-ray."""

from __future__ import annotations

from rheos.plugins.hooks import hookimpl
from rheos.plugins.specs import ExecutorSpec

__all__ = ["rheos_executors"]


@hookimpl
def rheos_executors() -> list[ExecutorSpec]:
    """Offer Ray."""
    return [
        ExecutorSpec(
            name="ray",
            summary="every worker in a process of its own, on this machine or on a Ray cluster",
            factory="rheos_ray.executor:make_executor",
            config="rheos_ray.config:RayConfig",
            has_processes=True,
            jobs="rheos_ray.jobs:RayJobRunner",
        )
    ]
