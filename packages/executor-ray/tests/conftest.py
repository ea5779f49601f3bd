"""One cluster for all tests of a session that do not start their own, and where its processes find these modules."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import ray

from rheos import Placement
from rheos.testing.executor_suite import ExecutorSuite
from rheos_ray.config import RayConfig, ResourcesConfig
from rheos_ray.executor import RayExecutor

TOPICS = ("protocol", "failures", "values")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave a part of the contract to the slow tests: a process takes a second to start, and most tests start several.

    What stays: one case of each test of these topics, with an actor on Ray.
    """
    seen = set()
    for item in items:
        if "TestRayExecutor" not in item.nodeid:
            continue
        places = {value for value in _parameters(item).values() if isinstance(value, Placement)}
        topic = getattr(ExecutorSuite, item.originalname).__module__.rpartition(".")[2]
        is_elsewhere = not places or Placement.REMOTE in places
        if topic not in TOPICS or item.originalname in seen or not is_elsewhere:
            item.add_marker(pytest.mark.slow)
        else:
            seen.add(item.originalname)


def _parameters(item):
    return item.callspec.params if hasattr(item, "callspec") else {}


@pytest.fixture(scope="session")
def cluster():
    """Start Ray on this machine; executors made in these tests go on with it."""
    _let_processes_import_what_is_here()
    ray.init(address="local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def executor(cluster):
    """Give an executor whose actors take no part of the cluster, and close it."""
    free = ResourcesConfig(num_cpus=0.0)
    executor = RayExecutor(RayConfig(worker=free, learner=free))
    yield executor
    executor.close()


def _let_processes_import_what_is_here() -> None:
    here = str(Path(__file__).parents[3] / "tests")
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
