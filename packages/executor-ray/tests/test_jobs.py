"""Jobs on a cluster: each has a process and room for its actors, and none harms another."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from rheos.configuration.run_config import ExecutorConfig
from rheos.errors import ConfigError
from rheos.executors.jobs import Job
from rheos_ray.cluster import Cluster
from rheos_ray.config import RayConfig, ResourcesConfig
from rheos_ray.jobs import RayJobRunner

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


def fall(arguments):
    if wait(arguments) == 130:
        threading.Event().wait(0.5)  # Ray has its answer by now
        os.kill(os.getpid(), signal.SIGKILL)


class Probe:
    def room(self):
        """Return the group, and whether the core is that of the bundle with this index."""
        names = ray._private.worker.global_worker.core_worker.resource_ids()
        group = ray.get_runtime_context().get_placement_group_id()
        return group, [index for index in range(3) if f"CPU_group_{index}_{group}" in names]


def train(arguments):
    """Start two actors as a flow does, and note when they are all there and when they go."""
    diary, name = arguments
    executor = RayExecutor(RayConfig(workers=2))
    completions = Completions()
    actors = [executor.spawn(Actor(f"worker-{i}", Probe, Placement.REMOTE), completions) for i in range(2)]
    for actor in actors:
        actor.wait_until_started()
    own = ray.get_runtime_context().get_placement_group_id()
    calls = [actor.call("room") for actor in actors]
    for call in calls:
        call.wait()
    with open(diary, "a") as file:
        print(f"{name} has {len(actors)} actors, each where it has room: "
              f"{[call.value for call in calls] == [(own, [1]), (own, [2])]}", file=file)
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
    return RayJobRunner({"address": "local", "start_timeout_s": 0.0, "runtime_env": paths})


@pytest.fixture
def add(runner, tmp_path):
    def add(
        name: str,
        function: str,
        *arguments: object,
        workers: int = 0,
        config: ExecutorConfig | None = None,
        **more: Any,
    ) -> None:
        job = Job(
            name=name,
            function=f"jobs_of_this_test:{function}",
            arguments=tuple(str(argument) for argument in arguments),
            log=tmp_path / name / "output.log",
            executor=config or ExecutorConfig(),
            actors=tuple(f"worker-{index}" for index in range(workers)),
        )
        runner.add(replace(job, **more))

    return add


def ends_of(runner: RayJobRunner) -> dict[str, tuple[int, str]]:
    return {job: (code, cause) for job, code, cause in runner.run() if code is not None}


def test_each_job_has_a_process_and_a_log_and_one_that_fails_or_is_killed_is_named(
    runner: RayJobRunner, add: Add, tmp_path: Path
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


def test_a_job_that_can_never_fit_says_what_it_asked_and_what_there_is_and_the_others_run(
    runner: RayJobRunner, add: Add
):
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


def test_what_no_machine_holds_alone_can_never_start_where_one_must_or_each_must(runner: RayJobRunner, add: Add):
    add("near", "end", 0, "", workers=4, config=RayConfig(placement_group="STRICT_PACK"))
    add("far", "end", 0, "", workers=1, config=RayConfig(placement_group="STRICT_SPREAD"))

    ends = ends_of(runner)

    assert {
        "near": (
            1,
            "it can never start: it asked for 5 CPU (its process 1 CPU; 4 actors, each 1 CPU) on one node"
            " (executor.placement_group=STRICT_PACK), the cluster has 4 CPU on 1 node.",
        ),
        "far": (
            1,
            "it can never start: it asked for 2 CPU (its process 1 CPU; an actor 1 CPU) on as many nodes as processes"
            " (executor.placement_group=STRICT_SPREAD), the cluster has 4 CPU on 1 node.",
        ),
    } == ends


@pytest.mark.parametrize("actors", [("learner",), ()], ids=["elsewhere", "with it"])
def test_a_job_on_a_gpu_asks_for_one_where_its_learner_lives(runner: RayJobRunner, add: Add, actors: tuple[str, ...]):
    config = RayConfig(learner=ResourcesConfig(num_gpus=1.0))
    add("learning", "end", 0, "", config=config, actors=actors, device="cuda")

    (_, cause) = ends_of(runner)["learning"]

    assert f"it asked for {1 + len(actors)} CPU and 1 GPU (" in cause


def test_a_job_has_the_variables_of_the_launcher_beside_its_own(runner: RayJobRunner, add: Add):
    """Those of the launcher are where it finds its module."""
    add("with its own", "end", 0, "", config=RayConfig(runtime_env={"env_vars": {"LEVEL": "3"}}))

    assert {"with its own": (0, "")} == ends_of(runner)


def test_jobs_with_actors_never_wait_for_those_of_another(runner: RayJobRunner, add: Add, tmp_path: Path):
    """Each needs three of the four cores: taken one by one, two jobs would hold two each, for ever."""
    diary = tmp_path / "diary"
    for name in ("a", "b"):
        add(name, "train", diary, name, workers=2, config=RayConfig(workers=2))

    ends = ends_of(runner)

    first, second = ends
    assert {first: (0, ""), second: (0, "")} == ends
    assert [
        f"{first} has 2 actors, each where it has room: True",
        f"{first} ends",
        f"{second} has 2 actors, each where it has room: True",
        f"{second} ends",
    ] == diary.read_text().splitlines()


def test_ctrl_c_asks_the_running_jobs_to_stop_and_starts_no_other(runner: RayJobRunner, add: Add, tmp_path: Path):
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


def test_sigterm_asks_the_running_jobs_to_stop_although_ray_takes_it_for_itself_when_it_connects(
    runner: RayJobRunner, add: Add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def connect(*arguments: Any) -> Cluster:
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(15))
        return Cluster(*arguments)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("rheos_ray.jobs.Cluster", connect)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    add("running", "wait", pipe)

    news = []
    for each in runner.run():
        news.append(each)
        if each[1] is None:
            pipe.read_text()
            os.kill(os.getpid(), signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)

    assert [("running", None, ""), ("running", 130, "saved what there was")] == news


def test_a_job_whose_process_dies_while_it_is_to_stop_has_failed(runner: RayJobRunner, add: Add, tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    add("running", "fall", pipe)

    ends = {}
    for job, code, cause in runner.run():
        if code is None:
            pipe.read_text()
            os.kill(os.getpid(), signal.SIGINT)
        else:
            ends[job] = code, cause.partition(":")[0]

    assert {"running": (1, "its process is gone")} == ends


def test_a_wrong_setting_is_named_as_the_user_wrote_it():
    with pytest.raises(ConfigError, match=r"^hydra\.launcher\.num_cpus: got 0"):
        RayJobRunner({"num_cpus": 0})
    with pytest.raises(ConfigError, match=r"^hydra\.launcher\.runtime_env: /not/there is not a valid path$"):
        RayJobRunner({"runtime_env": {"working_dir": "/not/there"}})


def test_a_wrong_environment_of_a_job_is_found_before_any_job_starts(add: Add):
    with pytest.raises(ConfigError, match=r"^executor\.runtime_env: runtime_env\['env_vars'\] must be"):
        add("bad", "end", config=RayConfig(runtime_env={"env_vars": {"LEVEL": 3}}))
    with pytest.raises(ConfigError, match=r"^executor\.runtime_env: \. is not a valid URI\. Passing directories"):
        add("bad", "end", config=RayConfig(runtime_env={"working_dir": "."}))


def _still_lives(pid: int) -> bool:
    try:
        psutil.Process(pid).wait(timeout=5.0)
    except psutil.NoSuchProcess:
        return False
    except psutil.TimeoutExpired:
        return True
    return False
