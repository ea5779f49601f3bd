"""Runs that are stopped, or whose environments fail or hang: what is said, what is saved, and what is left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

HILLCLIMB = Path(__file__).parent / "strangers" / "hillclimb" / "src" / "hillclimb"
GRACE_S = 1.0

MISHAPS = '''
"""Environments that wait, hang or fail, and say so with a file."""

import os
import time
from pathlib import Path

import gymnasium as gym

from rheos.testing.environments import SoundEnv

MARKS = Path(os.environ["MARKS"])


def first(name):
    try:
        (MARKS / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Busy(SoundEnv):
    steps = 0

    def step(self, action):
        self.steps += 1
        time.sleep(0.0005)
        if self.steps > 200:
            first("busy")
        return super().step(action)


class Hanging(Busy):
    def step(self, action):
        if self.steps > 200 and first("hanging"):
            while True:
                time.sleep(60)
        return super().step(action)


class Failing(Busy):
    def step(self, action):
        if self.steps == 149 and any(first(f"failed-{number}") for number in range(int(os.environ["FAILURES"]))):
            raise ZeroDivisionError("division by zero")
        return super().step(action)


class Unborn(SoundEnv):
    def reset(self, **_):
        raise OSError("no simulator")


class Late(Busy):
    """Its first reset succeeds, all later ones raise."""

    def reset(self, **settings):
        if self.steps:
            raise OSError("no simulator any more")
        return super().reset(**settings)


for kind in (Busy, Hanging, Failing, Unborn, Late):
    gym.register(f"{kind.__name__}-v0", entry_point=kind)
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH: environments, a stranger's algorithm, and the toy backend, so no run needs torch."""
    site = tmp_path_factory.mktemp("site")
    (site / "mishaps.py").write_text(MISHAPS)
    shutil.copytree(HILLCLIMB, site / "hillclimb")
    (site / "hillclimb" / "conf" / "backend").mkdir()
    (site / "hillclimb" / "conf" / "backend" / "toy.yaml").write_text("name: toy\n")
    info = site / "stranger_hillclimb-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger-hillclimb\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text(
        "[rheos]\nhillclimb = hillclimb.plugin\ntoy = rheos.testing.toy\n[rheos.configs]\nhillclimb = hillclimb.conf\n"
    )
    return site


class TrainingProcess:
    """`rheos train` in a process of its own, and all that it started."""

    def __init__(self, folder: Path, site: Path, words: tuple[str, ...], environment: dict[str, str]) -> None:
        self.run_dir = folder / "run"
        self._marks = folder / "marks"
        self._marks.mkdir()
        self._files = [(folder / name).open("w+") for name in ("stdout", "stderr")]
        common = ["algo=hillclimb", "backend=toy", "env=gym", "env.num_envs=2", "logger.names=[]"]
        limits = ["stop.env_steps=100000000", "stop.seconds=60", f"executor.grace_s={GRACE_S}"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rheos_cli", "train", *common, *limits, f"run_dir={self.run_dir}", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(site), "MARKS": str(self._marks), **environment},
            stdout=self._files[0],
            stderr=self._files[1],
            start_new_session=True,  # a terminal sends Ctrl-C to everybody in it
        )
        self._children: list[psutil.Process] = []

    def until(self, mark: str) -> TrainingProcess:
        """Wait until an environment says that it has come so far."""
        give_up_at = time.monotonic() + 60
        while not (self._marks / mark).exists():
            assert time.monotonic() < give_up_at, self.said()
            assert self.runs_for(0.01), self.said()
        self._children = psutil.Process(self._process.pid).children(recursive=True)
        return self

    def runs_for(self, seconds: float) -> bool:
        """Wait, and return whether it still runs then."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def send(self, number: int) -> TrainingProcess:
        os.killpg(self._process.pid, number)
        return self

    def count_children(self) -> int:
        return len([child for child in self._children if "resource_tracker" not in "".join(child.cmdline())])

    def ended(self) -> int:
        """Wait for the end and return the exit code; nobody is left."""
        code = self._process.wait(60)
        assert [] == psutil.wait_procs(self._children, timeout=2)[1]
        return code

    def said(self) -> str:
        """What went to stderr."""
        self._files[1].seek(0)
        return self._files[1].read()

    def printed(self) -> str:
        """What went to stdout."""
        self._files[0].seek(0)
        return self._files[0].read()

    def status(self) -> Any:
        return json.loads((self.run_dir / "status.json").read_text())

    def checkpoints(self) -> list[str]:
        folder = self.run_dir / "checkpoints"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def dismiss(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for file in self._files:
            file.close()


Train = Callable[..., TrainingProcess]


@pytest.fixture
def train(tmp_path: Path, site: Path) -> Iterator[Train]:
    started: list[TrainingProcess] = []

    def start(env: str, *words: str, **environment: str) -> TrainingProcess:
        started.append(TrainingProcess(tmp_path, site, (f"env.id=mishaps:{env}-v0", *words), environment))
        return started[-1]

    yield start
    for process in started:
        process.dismiss()


def tracebacks(text: str) -> int:
    return text.count("Traceback (most recent call last)")


# Ctrl-C


@pytest.mark.parametrize(
    ("executor", "number", "name"),
    [
        ("inline", signal.SIGINT, "SIGINT"),
        ("threads", signal.SIGINT, "SIGINT"),
        ("threads", signal.SIGTERM, "SIGTERM"),
    ],
    ids=["inline", "threads", "terminated"],
)
def test_a_signal_ends_a_run_with_its_weights_saved(train: Train, executor: str, number: int, name: str):
    run = train("Busy", f"executor={executor}", "executor.workers=2").until("busy")

    began_at = time.monotonic()
    code = run.send(number).ended()

    status = run.status()
    assert 130 == code
    assert time.monotonic() - began_at < GRACE_S + 10.0  # the rest of it is drawing the plot
    assert ("interrupted", f"interrupted by {name}") == (status["state"], status["reason"])
    assert [str(status["env_steps"])] == run.checkpoints()[-1:]
    assert "" == run.said()
    assert 1 == len([line for line in run.printed().splitlines() if line.startswith("Interrupted at")])


def test_ctrl_c_reaches_environments_in_processes_of_their_own_too_and_leaves_none_behind(train: Train):
    """Case 34."""
    run = train("Busy", "executor=threads", "executor.workers=2", "env.vectorization=async").until("busy")
    assert 4 == run.count_children()

    code = run.send(signal.SIGINT).ended()

    assert 130 == code
    assert [str(run.status()["env_steps"])] == run.checkpoints()[-1:]
    assert "" == run.said()


# an environment that hangs


def test_a_run_on_threads_whose_environment_hangs_says_so_once_and_ends_with_ctrl_c(train: Train):
    run = train("Hanging", "executor=threads", "executor.workers=2", "executor.warn_after_s=0.3").until("hanging")
    assert run.runs_for(1.2)

    began_at = time.monotonic()
    code = run.send(signal.SIGINT).ended()

    assert 130 == code
    assert time.monotonic() - began_at < 2 * GRACE_S + 10.0  # to come to rest, and to be closed
    waits, rests, left = run.said().splitlines()
    assert re.fullmatch(r"rheos: warning: Nothing has moved for 0.3 s. stage 2: .* waits for climber-\d.attempt", waits)
    assert re.fullmatch(
        r"rheos: warning: only the weights are saved.*: Not finished in 1 s: climber-\d.attempt.", rests
    )
    assert re.match(r"rheos: warning: climber-\d still works on climber-\d.attempt when the time to end is over", left)
    assert "interrupted" == run.status()["state"]
    assert [str(run.status()["env_steps"])] == run.checkpoints()[-1:], "the weights are saved all the same"


def test_a_second_ctrl_c_ends_a_run_at_once_where_the_environment_hangs_on_the_driver(train: Train):
    run = train("Hanging", "executor=inline").until("hanging")

    run.send(signal.SIGINT)
    assert run.runs_for(0.3)
    code = run.send(signal.SIGINT).ended()

    assert 130 == code
    assert 0 == tracebacks(run.said())
    assert ["rheos: interrupted"] == run.said().splitlines()
    assert "interrupted" == run.status()["state"]


# an environment that fails


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_a_failing_environment_ends_the_run_with_environment_step_worker_and_cause(train: Train, executor: str):
    run = train("Failing", f"executor={executor}", "executor.workers=2", FAILURES="1")

    code = run.ended()

    assert 1 == code
    assert 1 == tracebacks(run.said())
    (line,) = [line for line in run.said().splitlines() if line.startswith("rheos: ")]
    assert line.startswith("rheos: rollout-")
    assert "environment " in line
    assert "step 150: ZeroDivisionError: division by zero" in line
    assert "failed" == run.status()["state"]


def test_with_restarts_the_run_goes_on_and_says_a_line_for_each(train: Train):
    words = ("executor=threads", "executor.workers=2", "executor.on_failure=restart", "executor.backoff_s=0.0")
    run = train("Failing", *words, "stop.env_steps=2000", FAILURES="2")

    code = run.ended()

    assert 0 == code, run.said()
    lines = run.said().splitlines()
    assert 2 == len(lines)
    for line in lines:
        assert line.startswith("rheos: warning: climber-")
        assert "is made anew in 0 s (restart " in line
        assert "step 150: ZeroDivisionError: division by zero" in line
    assert ("done", True) == (run.status()["state"], run.status()["env_steps"] >= 2000)


@pytest.mark.parametrize(("executor", "env"), [("inline", "Unborn"), ("threads", "Late")])
def test_an_environment_whose_reset_always_raises_ends_the_run_with_the_cause(train: Train, executor: str, env: str):
    """Case 32: never a "successful" run without a step."""
    words = (f"executor={executor}", "executor.on_failure=restart", "executor.max_restarts=2", "executor.backoff_s=0")
    run = train(env, *words)

    code = run.ended()

    assert 1 == code
    assert "no simulator" in run.said()
    assert tracebacks(run.said()) <= 1
    assert "failed" == run.status()["state"]
