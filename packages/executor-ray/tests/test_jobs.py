"""Jobs on a cluster: each has a process and room for its actors, and none harms another."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rheos.errors import ConfigError
from rheos_ray.config import RayConfig, ResourcesConfig
from rheos_ray.jobs import JobRunner

pytestmark = pytest.mark.usefixtures("cluster")

JOBS = '''
import os
import signal
import sys
import threading
from pathlib import Path

import ray

from rheos.executors.protocol import Completions
from rheos.streams.actors import Actor, Placement
from rheos_ray.config import RayConfig
from rheos_ray.executor import RayExecutor


def end(arguments):
    """Print the process, and what is wanted on stderr, below Python, and end with the exit code."""
    code, text = arguments
    print(os.getpid())
    os.system(f"echo {text} >&2")
    return int(code)


def die(arguments):
    os.kill(os.getpid(), signal.SIGKILL)


def wait(arguments):
    try:
        with Path(arguments[0]).open("w") as pipe:
            pipe.write("waiting")
        threading.Event().wait()
    except KeyboardInterrupt:
        print("saved what there was")
        return 130


class Probe:
    def group(self):
        return ray.get_runtime_context().get_placement_group_id()


def train(arguments):
    """Start two actors as a flow does, and note when they are all there and when they go."""
    diary, name = arguments
    executor = RayExecutor(RayConfig(workers=2))
    completions = Completions()
    actors = [executor.spawn(Actor(f"worker-{i}", Probe, Placement.REMOTE), completions) for i in range(2)]
    for actor in actors:
        actor.wait_until_started()
    own = ray.get_runtime_context().get_placement_group_id()
    calls = [actor.call("group") for actor in actors]
    for call in calls:
        call.wait()
    groups = {call.value for call in calls}
    with open(diary, "a") as file:
        print(f"{name} has {len(actors)} actors, all in its room: {groups == {own}}", file=file)
    for actor in actors:
        actor.close(1.0)
    with open(diary, "a") as file:
        print(f"{name} ends", file=file)
    return 0
'''

Add = Callable[..., None]


@pytest.fixture
def runner(tmp_path):
    (tmp_path / "jobs_of_this_test.py").write_text(JOBS)
    paths = {"env_vars": {"PYTHONPATH": str(tmp_path)}}
    return JobRunner({"address": "local", "start_timeout_s": 0.0, "runtime_env": paths})


@pytest.fixture
def add(runner, tmp_path):
    def add(name: str, function: str, *arguments: object, workers: int = 0, config: object = None) -> None:
        runner.add(
            name,
            f"jobs_of_this_test:{function}",
            [str(argument) for argument in arguments],
            tmp_path / name / "output.log",
            executor=config,
            actors=[f"worker-{index}" for index in range(workers)],
            device="cpu",
        )

    return add


def ends_of(runner: JobRunner) -> dict[str, tuple[int, str]]:
    return {job: (code, cause) for job, code, cause in runner.run() if code is not None}


def test_each_job_has_a_process_and_a_log_and_one_that_fails_or_is_killed_is_named(
    runner: JobRunner, add: Add, tmp_path: Path
):
    add("good", "end", 0, "all is well")
    add("killed", "die")
    add("bad", "end", 1, "rheos: it fell over")

    news = list(runner.run())

    logs = {name: tmp_path / name / "output.log" for name in ("good", "bad")}
    ends = {job: (code, cause) for job, code, cause in news if code is not None}
    assert {"good", "killed", "bad"} == {job for job, code, _ in news if code is None}
    assert (0, "") == ends["good"]
    assert (1, f"it fell over (what it printed: {logs['bad']})") == ends["bad"]
    assert (1, True) == (ends["killed"][0], ends["killed"][1].startswith("its process is gone: "))
    printed = {name: log.read_text().splitlines() for name, log in logs.items()}
    assert {"good": ["all is well"], "bad": ["rheos: it fell over"]} == {
        name: line[1:] for name, line in printed.items()
    }
    processes = {int(lines[0]) for lines in printed.values()}
    assert (2, False) == (len(processes), any(map(_still_lives, processes)))


def test_a_job_that_can_never_fit_says_what_it_asked_and_what_there_is_and_the_others_run(runner: JobRunner, add: Add):
    add("large", "end", 0, "", workers=5, config=RayConfig())
    add("special", "end", 0, "", workers=1, config=RayConfig(worker=ResourcesConfig(num_gpus=1.0)))
    add("small", "end", 0, "")

    ends = ends_of(runner)

    assert (0, "") == ends["small"]
    assert ends["large"] == (
        1,
        "it can never start: it asked for 6 CPU (its process 1 CPU; 5 actors, each 1 CPU), "
        "the cluster has 4 CPU on 1 node.",
    )
    assert ends["special"] == (
        1,
        "it can never start: it asked for 2 CPU and 1 GPU (its process 1 CPU; an actor 1 CPU and 1 GPU), "
        "the cluster has 4 CPU and 0 GPU on 1 node.",
    )


def test_jobs_with_actors_never_wait_for_those_of_another(runner: JobRunner, add: Add, tmp_path: Path):
    """Each needs three of the four cores: taken one by one, two jobs would hold two each, for ever."""
    diary = tmp_path / "diary"
    for name in ("a", "b"):
        add(name, "train", diary, name, workers=2, config=RayConfig(workers=2))

    ends = ends_of(runner)

    first, second = ends
    assert {first: (0, ""), second: (0, "")} == ends
    assert [
        f"{first} has 2 actors, all in its room: True",
        f"{first} ends",
        f"{second} has 2 actors, all in its room: True",
        f"{second} ends",
    ] == diary.read_text().splitlines()


def test_ctrl_c_asks_the_running_jobs_to_stop_and_starts_no_other(runner: JobRunner, add: Add, tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    config = RayConfig()
    add("running", "wait", pipe, workers=3, config=config)
    add("waiting", "end", 0, "", workers=3, config=config)

    news = []
    for each in runner.run():
        news.append(each)
        if each[1] is None:
            pipe.read_text()  # until it waits
            os.kill(os.getpid(), signal.SIGINT)

    assert [("running", None, ""), ("running", 130, "saved what there was")] == news


def test_a_wrong_setting_is_named_as_the_user_wrote_it():
    with pytest.raises(ConfigError, match=r"^hydra\.launcher\.num_cpus: got 0"):
        JobRunner({"num_cpus": 0})


def _still_lives(pid: int) -> bool:
    try:
        psutil.Process(pid).wait(timeout=5.0)
    except psutil.NoSuchProcess:
        return False
    except psutil.TimeoutExpired:
        return True
    return False
