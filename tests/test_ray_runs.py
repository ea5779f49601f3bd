"""Runs on Ray: the same program and the same weights as in one process, and what is left of a run that is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from ray.cluster_utils import Cluster

ENVIRONMENTS = """
import os, time
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Hanging(CartPoleEnv):
    steps = 0

    def step(self, action):
        Hanging.steps += 1
        if Hanging.steps % 400 == 0:
            print("so many steps:", Hanging.steps, flush=True)
        if Hanging.steps == 1500:
            time.sleep(1000.0)
        return super().step(action)

class Failing(CartPoleEnv):
    steps = 0

    def step(self, action):
        Failing.steps += 1
        if Failing.steps == 1500:
            raise ValueError("the cable is loose")
        return super().step(action)

class Unresettable(CartPoleEnv):
    def reset(self, **settings):
        raise OSError("no display")

gym.register("Unresettable-v0", entry_point="ray_environments:Unresettable", max_episode_steps=500)
gym.register("Hanging-v0", entry_point="ray_environments:Hanging", max_episode_steps=500)
gym.register("Failing-v0", entry_point="ray_environments:Failing", max_episode_steps=500)
"""
ON_RAY = ("executor=ray", "executor.address=local", "executor.workers=2")


@pytest.fixture(scope="module")
def there():
    """Start a cluster that runs of this file share, which saves each some seconds; return how they find it."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    yield ("executor=ray", f"executor.address={cluster.address}", "executor.workers=2")
    cluster.shutdown()


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Run `rheos train algo=ppo ...` in a folder of its own, and return what came of it."""
    (tmp_path / "ray_environments.py").write_text(ENVIRONMENTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    def start(*words, name="run"):
        words = ("train", "algo=ppo", f"run_dir={tmp_path / name}", "--plain", *words)
        return subprocess.Popen(
            [sys.executable, "-m", "rheos_cli", *words],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def ended(process):
    out, errors = process.communicate(timeout=300.0)
    return process.returncode, out, errors


def status(folder: Path) -> dict[str, object]:
    return json.loads((folder / "status.json").read_text())


def test_a_synchronous_run_ends_with_the_same_weights_inline_on_threads_and_on_ray(command, there, tmp_path):
    words = ("env=cartpole", "executor.workers=2", "stop.env_steps=6000", "seed=3")
    places = {"inline": ("executor=inline",), "threads": ("executor=threads",), "ray": there}
    for executor, place in places.items():
        code, _, errors = ended(command(*words, *place, name=executor))
        assert (0, "") == (code, errors)

    hashes = {status(tmp_path / executor)["weights_sha256"] for executor in ("inline", "threads", "ray")}
    assert 1 == len(hashes)
    assert None not in hashes


def test_an_environment_that_hangs_is_ended_and_its_worker_made_anew(command, there, tmp_path):
    code, out, errors = ended(
        command(
            *there,
            *("env=gym", "env.id=ray_environments:Hanging-v0", "env.step_timeout_s=2"),
            *("executor.on_failure=restart", "executor.backoff_s=0.1", "stop.env_steps=3500"),
        )
    )

    assert 0 == code, errors
    assert "Done" in out
    warned = errors.splitlines()
    assert {"rollout-0", "rollout-1"} == {line.split()[2] for line in warned}
    assert "took more than 2 s (env.step_timeout_s)" in warned[0]
    log = (tmp_path / "run" / "actors.log").read_text()
    assert "rollout-0 (" in log
    assert "| so many steps: 400" in log
    assert "ray_environments.py" in log  # where it hung
    assert "so many steps" not in out + errors


def test_an_environment_that_fails_is_named_with_the_traceback_that_it_had(command, there, tmp_path):
    code, _, errors = ended(command(*there, "env=gym", "env.id=ray_environments:Failing-v0", "stop.env_steps=9000"))

    assert 1 == code
    assert "ValueError: the cable is loose" in errors
    assert 'raise ValueError("the cable is loose")' in errors
    reason = status(tmp_path / "run")["reason"]
    assert "EnvironmentFailed: rollout-" in str(reason)
    assert "(in stage 3: gather_sync" in str(reason)


def test_a_reset_that_always_raises_ends_the_run_with_its_cause_after_so_many_restarts(command, there, tmp_path):
    code, _, errors = ended(
        command(
            *there,
            *("env=gym", "env.id=ray_environments:Unresettable-v0", "stop.env_steps=9000"),
            *("executor.on_failure=restart", "executor.max_restarts=1", "executor.backoff_s=0.1"),
        )
    )

    assert 1 == code
    assert "OSError: no display" in errors
    assert "had been made anew once, max_restarts=1" in errors
    assert ("failed", None) == tuple(map(status(tmp_path / "run").get, ("state", "weights_sha256")))


@pytest.mark.slow
def test_every_job_of_a_multirun_starts_and_ends_a_cluster_of_its_own(command, tmp_path):
    code, _, errors = ended(command("-m", *ON_RAY, "env=cartpole", "stop.env_steps=3000", "seed=0,1", name="sweep"))

    assert (0, "") == (code, errors)
    assert ["done", "done"] == [status(tmp_path / "sweep" / job)["state"] for job in "01"]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_run_that_is_stopped_leaves_no_process_of_ray(command, tmp_path, number):
    process = command(*ON_RAY, "env=cartpole", "stop.env_steps=null", "logger.every_steps=100")
    assert process.stdout.readline().startswith("ppo on CartPole-v1")
    process.stdout.readline()  # it trains
    children = psutil.Process(process.pid).children(recursive=True)
    assert any("ray::" in " ".join(child.cmdline()) for child in children)

    os.kill(process.pid, number)
    code, _, errors = ended(process)

    _, alive = psutil.wait_procs(children, timeout=15.0)
    assert [] == alive
    assert (130, "") == (code, errors)
    assert "interrupted" == status(tmp_path / "run")["state"]


def test_where_no_cluster_answers_is_told_in_one_line_and_nothing_is_left(command, tmp_path):
    code, out, errors = ended(command("executor=ray", "executor.address=127.0.0.1:9", "env=cartpole"))

    assert (2, "") == (code, out)
    assert errors.startswith("rheos: executor.address: no cluster answers at '127.0.0.1:9'")
    assert 1 == len(errors.splitlines())
    assert not (tmp_path / "run").exists()


def test_a_step_timeout_needs_workers_that_can_be_ended(command):
    code, _, errors = ended(command("env=cartpole", "env.step_timeout_s=5"))

    assert 2 == code
    assert "env.step_timeout_s: got 5, expected null with executor=inline" in errors


@pytest.mark.slow
def test_ppo_solves_cartpole_on_ray(command, tmp_path):
    code, out, errors = ended(command(*ON_RAY, "env=cartpole", "stop.episode_return=475", "stop.env_steps=300_000"))

    assert 0 == code, errors
    assert "Solved" in out
