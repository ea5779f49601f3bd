"""Clusters: found or made, and left as they were; nodes that go away."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from textwrap import dedent

import psutil
import pytest

from rheos.errors import ConfigError
from rheos_ray.cluster import Cluster
from rheos_ray.config import RayConfig, ResourcesConfig
from rheos_ray.rooms import fits

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


class FakeRay:
    """Notes how it is started, and by default finds no cluster."""

    def __init__(self, monkeypatch):
        self.started = {}
        self.error = None
        self.left = None
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        monkeypatch.setattr("ray.is_initialized", lambda: False)
        monkeypatch.setattr("ray.init", self.init)
        self.knock = socket.create_connection
        monkeypatch.setattr("socket.create_connection", self.connect)
        monkeypatch.setattr("ray.shutdown", lambda: None)
        monkeypatch.setattr("rheos_ray.cluster.utils.read_ray_address", lambda: self.left)

    def connect(self, address, **settings):
        if address[0] != "10.0.0.1":
            return self.knock(address, **settings)
        return socket.socket()

    def init(self, **arguments):
        self.started = arguments
        if self.error is not None:
            raise self.error


@pytest.fixture
def fake_ray(monkeypatch):
    """Put a fake in the place of Ray's beginning and end."""
    return FakeRay(monkeypatch)


def test_a_cluster_for_a_run_has_cores_for_workers_and_replay_shards_whatever_the_machine_has(fake_ray):
    cluster = Cluster(RayConfig(address="local", workers=200))

    names = [f"rollout-{index}" for index in range(200)] + [f"replay-{index}" for index in range(200)]
    assert sum(cluster.options_for(name)["num_cpus"] for name in names) < fake_ray.started["num_cpus"]


def test_a_cluster_for_several_runs_has_the_cores_that_are_asked_for(fake_ray):
    Cluster(RayConfig(address="local"), 200.5)

    assert 201 == fake_ray.started["num_cpus"]


def test_on_a_cluster_of_others_every_actor_asks_for_its_core_and_the_group_is_for_workers(fake_ray):
    cluster = Cluster(RayConfig(address="10.0.0.1:6379", workers=2, placement_group="PACK"))

    assert {"num_cpus": 1.0, "num_gpus": 0.0} == cluster.options_for("replay-0")
    assert not cluster.is_own


@pytest.mark.parametrize("named", [None, "auto"])
def test_auto_joins_the_cluster_that_ray_start_left_and_makes_one_where_there_is_none(fake_ray, monkeypatch, named):
    if named is not None:
        monkeypatch.setenv("RAY_ADDRESS", named)
    alone = Cluster(RayConfig())
    fake_ray.left = "10.0.0.1:6379"

    joined = Cluster(RayConfig())

    assert [True, False] == [alone.is_own, joined.is_own]
    assert "10.0.0.1:6379" == fake_ray.started["address"]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {},
            RuntimeError("Version mismatch: 3.11\nmore"),
            "cannot join the cluster at '10.0.0.1:1' (Version mismatch: 3.11)",
        ),
        ({"address": "127.0.0.1:1"}, None, "executor.address: no cluster answers at '127.0.0.1:1' ("),
        ({"address": "local"}, ValueError("no"), "executor.address: Ray cannot make a cluster on this machine (no)."),
        ({"runtime_env": {"working_dir": "/not/there"}}, None, "executor.runtime_env: /not/there is not a valid path"),
        (
            {"runtime_env": {"pips": ["x"]}, "address": "local"},
            None,
            "executor.runtime_env: got pips, expected some of",
        ),
        (
            {"runtime_env": {"env_vars": {"LEVEL": 3}}, "address": "local"},
            None,
            "executor.runtime_env: runtime_env['env_vars'] must be",
        ),
        (
            {"placement_group": "PACK", "worker": ResourcesConfig(num_cpus=0.0)},
            None,
            "executor.placement_group: got 'PACK' where workers ask for nothing",
        ),
    ],
    ids=["version", "nobody", "local", "runtime_env", "misspelt", "runtime_env local", "empty"],
)
def test_what_ray_refuses_is_one_line_that_names_the_setting(fake_ray, settings, error, message):
    fake_ray.error = error

    with pytest.raises(ConfigError) as caught:
        Cluster(RayConfig(**{"address": "10.0.0.1:1", **settings}))

    assert message in str(caught.value)
    assert 1 == len(str(caught.value).splitlines())


@pytest.mark.parametrize(
    ("fit", "rooms", "nodes", "strategy"),
    [
        (True, [{"CPU": 1.0}] * 4, [{"CPU": 2.0}] * 2, "PACK"),
        (False, [{"CPU": 1.0}] * 4, [{"CPU": 2.0}] * 2, "STRICT_PACK"),
        (True, [{"CPU": 1.0}] * 2, [{"CPU": 2.0}] * 2, "STRICT_SPREAD"),
        (False, [{"CPU": 1.0}] * 3, [{"CPU": 2.0}] * 2, "STRICT_SPREAD"),
        (True, [{"CPU": 0.1}] * 10, [{"CPU": 1.0}], "STRICT_PACK"),
        (True, [{"CPU": 1.0}, {"CPU": 1.0, "GPU": 1.0}], [{"CPU": 1.0, "GPU": 1.0}, {"CPU": 1.0}], "PACK"),
        (True, [{"CPU": 1.0}, {"CPU": 2.0}], [{"CPU": 2.0}, {"CPU": 1.0}], "STRICT_SPREAD"),
        (False, [{"simulator": 1.0}], [{"CPU": 8.0}], "SPREAD"),
    ],
)
def test_rooms_fit_where_empty_nodes_hold_them_as_the_strategy_asks(fit, rooms, nodes, strategy):
    assert fit == fits(rooms, nodes, strategy)
