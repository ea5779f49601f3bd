"""Whole runs whose learner is several processes: on every executor, resumed, interrupted and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import rheos
from rheos.runs.checkpoints import newest_checkpoint

SETTINGS: dict[str, Any] = {
    "env": {"id": "CartPole-v1", "num_envs": 4},
    "backend": {"name": "torch", "processes": 2},
    "stop": {"env_steps": 1_000},
    "checkpoint": {"every_steps": 500},
    "seed": 3,
}
ALGO = {
    "name": "ppo",
    "rollout_steps": 32,
    "minibatch_size": 64,
    "hidden_sizes": [16],
    "num_epochs": 3,
    "target_kl": 0.02,
    "normalize_observations": True,
    "normalize_advantages": "batch",
}


def trained(run_dir: Path, **changes: Any) -> Any:
    return rheos.train(ALGO, run_dir=run_dir, **{**SETTINGS, **changes})


def weights_of(run_dir: Path) -> dict[str, np.ndarray]:
    return dict(newest_checkpoint(run_dir / "checkpoints").weights)


@pytest.fixture(scope="module")
def uncut(tmp_path_factory) -> Path:
    """A run of two processes."""
    run_dir: Path = tmp_path_factory.mktemp("uncut") / "run"
    trained(run_dir)
    return run_dir


def test_two_processes_train_as_one_does_when_advantages_are_standardized_over_the_batch(uncut, tmp_path):
    trained(tmp_path / "one", backend={"name": "torch"})

    one, two = weights_of(tmp_path / "one"), weights_of(uncut)
    for name, array in one.items():
        # Rounding of sums in another order, over 8 updates; no action was another one, or it would be far more.
        np.testing.assert_allclose(two[name], array, atol=1e-4, err_msg=name)


def test_a_run_that_is_resumed_on_threads_ends_with_the_weights_of_the_uncut_one(uncut, tmp_path):
    trained(tmp_path / "run", stop={"env_steps": 500})

    rheos.resume(tmp_path / "run", stop={"env_steps": 1_000}, executor={"name": "threads"})

    resumed = weights_of(tmp_path / "run")
    for name, array in weights_of(uncut).items():
        np.testing.assert_array_equal(array, resumed[name], err_msg=name)


@pytest.fixture
def start(tmp_path):
    """Start a long run in a session of its own, and wait until it has learned."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "rheos_cli", "train", "algo=ppo", "backend.processes=2", *words]
        process = subprocess.Popen(
            [*command, f"run_dir={tmp_path / 'run'}", "logger.every_steps=1000", "stop.env_steps=10_000_000"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        subprocess.run([sys.executable, "-c", WAITING, tmp_path / "run" / "metrics.csv"], check=True, timeout=60)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):  # all have ended
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


WAITING = """
import pathlib, sys, time
path = pathlib.Path(sys.argv[1])
while not path.exists() or path.read_text().count("\\n") < 3:
    time.sleep(0.05)
"""


@pytest.mark.parametrize("executor", ["inline", pytest.param("threads", marks=pytest.mark.slow)])
def test_ctrl_c_ends_all_processes_without_a_trace(start, executor):
    process = start(f"executor={executor}")

    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=20)  # to the end of all processes, which share what they print to

    assert "Traceback" not in out + errors
    assert "next: rheos resume" in out


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_run_in_one_line(start):
    process = start()
    (learner,) = (
        child for child in psutil.Process(process.pid).children() if "spawn_main" in " ".join(child.cmdline())
    )

    learner.kill()
    _, errors = process.communicate(timeout=10)

    assert "learner: process 2 of 2 was killed by SIGKILL" in errors
    assert "Traceback" not in errors


@pytest.mark.slow
def test_no_process_outlives_a_run_that_is_killed(start):
    process = start()

    process.kill()

    process.communicate(timeout=5)
