"""Clusters: found or made, and left as they were; nodes that go away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from textwrap import dedent

import psutil
import pytest

PROGRAM = """
import logging, os, pathlib, sys, warnings
import psutil, ray
from ray.cluster_utils import Cluster
from ray_actors import Learning, Roller, Troubled
from rheos import Actor, ActorGroup, Placement, Published, Route, from_actors, from_items, run
from rheos.errors import RheosWarning
from rheos.scheduler.recovery import FailurePolicy
from rheos_ray.config import RayConfig, ResourcesConfig
from rheos_ray.executor import RayExecutor

def needs(**resources):
    return ResourcesConfig(num_cpus=0.0, resources=resources)

def processes(group):
    return from_actors(group, Troubled.give).gather_sync()

if __name__ == "__main__":
"""


@pytest.fixture
def start(tmp_path):
    """Start a program of its own, with Ray of its own."""
    started = []

    def start(text):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM + "".join(f"    {line}\n" for line in dedent(text).strip().splitlines()))
        here = os.path.join(os.path.dirname(__file__), "..", "..", "..", "tests")
        environment = {**os.environ, "PYTHONPATH": here}
        environment.pop("RAY_ADDRESS", None)
        process = subprocess.Popen(
            [sys.executable, path, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def output_of(process, timeout_s=120.0):
    out, errors = process.communicate(timeout=timeout_s)
    assert 0 == process.returncode, errors
    return out.splitlines()


def test_a_cluster_that_was_made_for_a_run_ends_with_it_and_says_nothing_on_the_screen(start):
    program = start("""
        with_actors = ActorGroup("troubled", 2, Troubled)
        executor = RayExecutor(RayConfig(address="local"))
        with run(processes(with_actors), executor) as flow:
            print(len(set(flow.next(timeout_s=60.0))))
        children = psutil.Process().children(recursive=True)
        executor.close()
        executor.close()
        print(ray.is_initialized())
        psutil.wait_procs(children, timeout=10.0)
        print([child.name() for child in psutil.Process().children(recursive=True)])
    """)

    out, errors = program.communicate(timeout=120.0)

    assert ["2", "False", "[]"] == out.splitlines()
    assert "" == errors


def test_a_driver_that_is_killed_leaves_no_actor_behind(start):
    program = start("""
        group = ActorGroup("troubled", 2, Troubled)
        with run(processes(group), RayExecutor(RayConfig(address="local"))) as flow:
            print(*flow.next(timeout_s=60.0), flush=True)
            flow.ask(group[0], Troubled.hang)
    """)
    actors = [psutil.Process(int(number)) for number in program.stdout.readline().split()]

    os.kill(program.pid, signal.SIGKILL)

    _, alive = psutil.wait_procs(actors, timeout=30.0)
    assert [] == alive


@pytest.mark.slow
def test_a_cluster_that_was_there_stays_and_what_was_connected_stays_so(start):
    program = start("""
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        group = ActorGroup("troubled", 2, Troubled)
        for address in (cluster.address, "auto"):
            os.environ["RAY_ADDRESS"] = "" if address != "auto" else cluster.address
            executor = RayExecutor(RayConfig(address=address))
            with run(processes(group), executor) as flow:
                print(len(flow.next(timeout_s=60.0)))
            executor.close()
            print(ray.is_initialized())
        ray.init(address=cluster.address, logging_level=logging.ERROR, log_to_driver=False)
        print(ray.cluster_resources()["CPU"])
        executor = RayExecutor()
        executor.close()
        print(ray.is_initialized())
        ray.shutdown()
        cluster.shutdown()
    """)

    assert ["2", "False", "2", "False", "2.0", "True"] == output_of(program)


@pytest.mark.slow
def test_a_node_that_goes_away_costs_its_actors_only(start):
    program = start("""
        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "resources": {"near": 8}, "include_dashboard": False}
        )
        node = cluster.add_node(num_cpus=1, resources={"far": 2})
        ray.init(address=cluster.address, logging_level=logging.ERROR, log_to_driver=False)
        config = RayConfig(learner=needs(near=1), worker=needs(near=1))
        executor = RayExecutor(config)
        executor.log_to(pathlib.Path(sys.argv[1]))  # what Ray says of a lost node is not for the screen
        options = executor._cluster.options_for
        elsewhere = {"num_cpus": 0.0, "num_gpus": 0.0, "resources": {"far": 1}}
        executor._cluster.options_for = lambda name: elsewhere if name == "rollout-1" else options(name)

        rollers, learner = ActorGroup("rollout", 3, Roller), Actor("learner", Learning, Placement.REMOTE)
        newest = Published(learner, Learning.weights)
        stream = (
            from_actors(rollers, Roller.rollout, first=(Roller.load, lambda _: newest))
            .gather_async(in_flight=2)
            .ask(learner, Learning.update, in_flight=2)
            .tell(rollers, Roller.load, message=lambda _: newest, route=Route.SOURCE)
            .map(lambda report: report.info.sources[0])
        )
        warnings.simplefilter("ignore", RheosWarning)
        with run(stream, executor, failures=FailurePolicy(3, 0.1)) as flow:
            before = [flow.next(timeout_s=60.0) for _ in range(60)]
            cluster.remove_node(node, allow_graceful=False)
            cluster.add_node(num_cpus=1, resources={"far": 2})
            after = []
            while "rollout-1" not in after[60:]:
                after.append(flow.next(timeout_s=60.0))
            statistics = flow.statistics()
        print(sorted(set(before)), sorted(set(after)))
        print({name: actor.restarts for name, actor in statistics.actors.items() if actor.restarts})
        executor.close()
        ray.shutdown()
        cluster.shutdown()
    """)

    everybody = "['rollout-0', 'rollout-1', 'rollout-2']"
    assert [f"{everybody} {everybody}", "{'rollout-1': 1}"] == output_of(program)
