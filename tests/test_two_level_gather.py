"""Actors that run a flow over a part of the workers: the same result as one gather, on every executor."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from rheos import Actor, FailurePolicy, run
from rheos.errors import RheosWarning
from rheos.plugins import Kind, load_registry
from rheos.seeds import generator_for

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "03_two_level_gather.py"
PAGE = ROOT / "docs" / "how-to" / "run-on-a-cluster.md"
EXECUTORS = [name for name in load_registry().names(Kind.EXECUTOR) if name in ("inline", "threads", "ray")]

MORTAL = '''
"""Regions and workers that tell in which process they are."""

import os

import two_level_gather
from rheos import ActorGroup


class Explorer(two_level_gather.Explorer):
    def pid(self, _=None):
        return os.getpid()


class Region(two_level_gather.Region):
    def pids(self, _=None):
        return os.getpid(), *(self.rounds.ask(worker, Explorer.pid) for worker in self.workers)


two_level_gather.EXPLORERS = ActorGroup("explorer", 4, Explorer)
'''


def point_after(rounds: int, workers: int) -> list[float]:
    """Return where the search of the example is after so many rounds, as a loop without any flow."""
    generators = [generator_for(0, "explorer", index) for index in range(workers)]
    bottom, point = np.array([3.0, -2.0, 1.0, 0.5]), np.zeros(4)
    for _ in range(rounds):
        steps = [generator.standard_normal(4) for generator in generators]
        slopes = [
            float(np.sum(np.square(point + step - bottom))) - float(np.sum(np.square(point - step - bottom)))
            for step in steps
        ]
        point = point - 0.05 * sum((slope * step for slope, step in zip(slopes, steps, strict=True)), np.zeros(4)) / 4
    found: list[float] = point.tolist()
    return found


@pytest.fixture(autouse=True)
def _a_cluster_of_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")  # whatever else runs on this machine


@pytest.mark.parametrize("executor", EXECUTORS)
def test_two_regions_of_two_workers_find_what_four_workers_do(tmp_path: Path, executor: str):
    process = subprocess.run(
        [sys.executable, str(EXAMPLE), executor], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )

    expected = point_after(rounds=100, workers=4)
    lines = [f"one level:  {expected}", f"two levels: {expected}", "the same, bit for bit"]
    assert (lines, 0) == (process.stdout.splitlines(), process.returncode), process.stderr
    assert np.allclose(expected, [3.0, -2.0, 1.0, 0.5], atol=1e-6)


@pytest.fixture
def two_level_gather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return the example as a module that the processes of actors can import, too, with the actors of `MORTAL`."""
    (tmp_path / "two_level_gather.py").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "mortal.py").write_text(MORTAL, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)  # for processes that start from here on
    yield importlib.import_module("mortal")
    for name in ("mortal", "two_level_gather"):
        del sys.modules[name]


@pytest.mark.slow
@pytest.mark.skipif("ray" not in EXECUTORS, reason="needs rheos-executor-ray")
def test_a_region_that_is_killed_takes_its_workers_with_it_and_comes_back_with_new_ones(two_level_gather: Any):
    example = sys.modules["two_level_gather"]
    executor = example.executor_named("ray")
    regions = example.rheos.ActorGroup("region", 2, partial(two_level_gather.Region, "ray"))
    stream = example.two_levels(regions, Actor("searcher", example.Searcher))

    with run(stream, executor, failures=FailurePolicy(max_restarts=1, backoff_s=0.1)) as points:
        next(points)
        (region, *workers), others = (points.ask(each, two_level_gather.Region.pids) for each in regions)
        left = [psutil.Process(pid) for pid in (region, *workers)]
        os.kill(region, signal.SIGKILL)
        with pytest.warns(RheosWarning, match="^region-0 failed and is made anew"):
            *_, last = islice(points, 3)
        new, same = (points.ask(each, two_level_gather.Region.pids) for each in regions)
        _, alive = psutil.wait_procs(left, timeout=30)
    executor.close()

    assert [] == alive
    assert set() == {*new} & {region, *workers}
    assert others == same
    assert np.all(np.isfinite(last))


def test_the_page_shows_the_example(read_page: Callable[[Path], Any]):
    shown = read_page(PAGE).in_language("python")

    program = EXAMPLE.read_text(encoding="utf-8")
    assert len(shown) == 2
    assert [] == [block for block in shown if block not in program]
