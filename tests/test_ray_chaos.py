"""Minutes of training in which a worker's process is killed now and then: nothing hangs, and all is counted."""

from __future__ import annotations

import csv
import logging
import os
import random
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread, Timer
from time import perf_counter

import psutil
import pytest
import ray
from ray_actors import Learning, Roller

from rheos import Actor, ActorGroup, FailurePolicy, Placement, Published, Route, from_actors, run
from rheos.errors import RheosWarning
from rheos.plugins import Kind, load_registry, make_executor
from rheos.plugins.resolving import settings_class

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("ray" not in load_registry().names(Kind.EXECUTOR), reason="needs rheos-executor-ray"),
]

SECONDS = 300.0
EVERY_S = 10.0
MEGABYTE = 2**20


class Killer:
    """Kills one of the workers of a program every few seconds."""

    def __init__(self, pid: int) -> None:
        self.killed = 0
        self._program = psutil.Process(pid)
        self._is_over = Event()
        self._thread = Thread(target=self._kill)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _kill(self) -> None:
        choose = random.Random(0)
        while not self._is_over.wait(EVERY_S):
            workers = [child for child in self._program.children(recursive=True) if _is_worker(child)]
            if workers:
                os.kill(choose.choice(workers).pid, signal.SIGKILL)
                self.killed += 1


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "ray::RemoteHost" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


@contextmanager
def _ended(run: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """End a program with the test, and where it hangs."""
    timer = Timer(SECONDS + 90.0, run.kill)
    timer.start()
    try:
        yield run
    finally:
        timer.cancel()
        run.kill()
        run.communicate()


@pytest.fixture
def executor(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    ray.init(address="local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    registry = load_registry()
    config = settings_class(registry.executor("ray"))(name="ray", workers=4)
    executor = make_executor(config, registry)
    yield executor
    executor.close()
    ray.shutdown()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_learning_goes_on_while_workers_are_killed(executor, kind):
    rollers, learner = ActorGroup("rollout", 4, Roller), Actor("learner", Learning, Placement.THREAD)
    newest = Published(learner, Learning.weights)
    rollouts = from_actors(rollers, Roller.rollout, first=(Roller.load, lambda _: newest))
    batches = (
        rollouts.gather_async(in_flight=2)
        if kind == "async"
        else rollouts.gather_sync().flat_map(lambda round_: round_)
    )
    stream = batches.ask(learner, Learning.update).tell(rollers, Roller.load, message=lambda _: newest, route=Route.ALL)

    with run(stream, executor, failures=FailurePolicy(1000, 0.1)) as flow, warnings.catch_warnings():
        warnings.simplefilter("ignore", RheosWarning)
        sources: dict[str, int] = {}
        began_at = perf_counter()
        for _ in range(50):
            flow.next(timeout_s=60.0)
        used = psutil.Process().memory_full_info().uss
        with Killer(os.getpid()) as killer:
            while perf_counter() - began_at < SECONDS:
                report = flow.next(timeout_s=60.0)  # no hang
                sources = {**sources, report.info.sources[0]: report.version}
            last = report.version
        for _ in range(40):  # whoever was killed last comes back
            report = flow.next(timeout_s=60.0)
            sources = {**sources, report.info.sources[0]: report.version}
        grown = psutil.Process().memory_full_info().uss - used
        statistics = flow.statistics()

    assert killer.killed >= SECONDS / EVERY_S - 3
    assert killer.killed == statistics.restarts
    assert {f"rollout-{index}" for index in range(4)} == set(sources)
    assert min(sources.values()) > last - 200  # no shard was lost: each gave something at the end
    assert last > 500
    assert grown < 30 * MEGABYTE


def test_ppo_goes_on_learning_while_its_workers_are_killed(tmp_path):
    places = ("executor=ray", "executor.address=local", "executor.workers=4")
    policy = ("executor.on_failure=restart", "executor.max_restarts=1000", "executor.backoff_s=0.1")
    stop = ("stop.env_steps=null", f"stop.seconds={SECONDS:g}", "checkpoint.every_steps=null")
    words = (f"run_dir={tmp_path / 'run'}", "--plain", "algo=ppo", "env=cartpole", *places, *policy, *stop)
    used: list[int] = []
    with (
        (tmp_path / "errors").open("w") as errors,
        _ended(
            subprocess.Popen(
                [sys.executable, "-m", "rheos_cli", "train", *words], stdout=subprocess.PIPE, stderr=errors, text=True
            )
        ) as run,
    ):
        lines = iter(run.stdout)
        assert "env steps" in [next(lines), next(lines)][1]  # it trains: who is killed while it starts ends the run
        with Killer(run.pid) as killer:
            while run.poll() is None:
                next(lines, None)  # every five seconds
                with suppress(psutil.Error):  # it has just ended
                    used.append(psutil.Process(run.pid).memory_full_info().uss)

    with (tmp_path / "run" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    warned = (tmp_path / "errors").read_text().splitlines()
    assert 0 == run.returncode
    assert killer.killed >= SECONDS / EVERY_S - 6
    assert killer.killed - 2 <= len(warned) <= killer.killed  # who is killed at the end may not be noticed
    assert all("is gone: its process was killed" in line for line in warned)
    assert max(float(row["episode_return_mean"]) for row in rows[-10:] if row["episode_return_mean"]) >= 475.0
    half = len(used) // 2
    assert max(used[half:]) - max(used[:half]) < 30 * MEGABYTE  # what others map, too, comes and goes
