"""Ray keeps the contract of executors."""

from __future__ import annotations

import psutil
import pytest

from rheos.testing.executor_suite import ExecutorSuite
from rheos_ray.config import RayConfig, ResourcesConfig
from rheos_ray.executor import RayExecutor

FREE = ResourcesConfig(num_cpus=0.0)


@pytest.mark.usefixtures("cluster")
class TestRayExecutor(ExecutorSuite):
    many = 8

    def make_executor(self) -> RayExecutor:
        return RayExecutor(RayConfig(worker=FREE, learner=FREE))

    def left_behind(self) -> set[str]:
        """Return the processes of actors; the cluster itself stays, and takes a moment to end one."""
        psutil.wait_procs(_actors(), timeout=5.0)
        return {f"process {process.pid}" for process in _actors()}


def _actors() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if "ray::RemoteHost" in _title(child)]


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
