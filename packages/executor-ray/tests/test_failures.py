"""What fails elsewhere is named here, with its cause, and what can go on goes on."""

from __future__ import annotations

import glob
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from functools import partial
from threading import Lock
from time import perf_counter

import psutil
import pytest
from ray_actors import Counted, DyingLearner, Roller, Troubled

from rheos import Actor, ActorGroup, Placement, Published, from_actors, from_items, run
from rheos.errors import ActorDied, FlowError, FlowTimeout, RheosError, RheosWarning
from rheos.scheduler.recovery import FailurePolicy
from rheos.testing.executor_suite.base import failure_of
from rheos_ray.config import RayConfig, ResourcesConfig
from rheos_ray.executor import RayExecutor


def troubled(method):
    """Return a flow in which one actor elsewhere is told 7."""
    return from_items([7]).ask(Actor("troubled", Troubled, Placement.REMOTE), method)


def test_an_actor_that_is_killed_is_named_in_less_than_five_seconds(executor):
    group = ActorGroup("troubled", 2, Troubled)

    with run(from_actors(group, Troubled.give).gather_sync(), executor) as flow:
        _, second = flow.next(timeout_s=60.0)
        killed_at = perf_counter()
        os.kill(second, signal.SIGKILL)
        error = failure_of(flow)  # one round may be on its way
        took_s = perf_counter() - killed_at

    assert took_s < 5.0
    assert isinstance(error, ActorDied)
    assert "troubled-1 is gone: its process was killed" in str(error)
    assert any("from troubled-1" in note for note in error.__notes__)


def test_an_actor_that_is_killed_in_a_call_that_never_returns_is_noticed(executor):
    group = ActorGroup("troubled", 1, Troubled)

    with run(from_actors(group, Troubled.hang).gather_async(), executor) as flow:
        with pytest.raises(FlowTimeout, match=r"troubled-0\.hang"):
            flow.next(timeout_s=1.0)
        killed_at = perf_counter()
        os.kill(_working(), signal.SIGKILL)
        with pytest.raises(ActorDied, match="troubled-0 is gone"):
            flow.next(timeout_s=60.0)
        took_s = perf_counter() - killed_at

    assert took_s < 5.0


def _working() -> int:
    """Return the process of the one actor that works on something."""
    children = psutil.Process().children(recursive=True)
    (found,) = (child.pid for child in children if "ray::RemoteHost.execute" in " ".join(child.cmdline()))
    return found


def test_an_error_comes_back_whole_with_the_traceback_that_it_had_there(executor):
    with run(troubled(Troubled.fail), executor) as flow, pytest.raises(ZeroDivisionError) as caught:
        flow.next(timeout_s=60.0)

    assert "cannot divide 7" == str(caught.value)
    there, stage = caught.value.__notes__
    assert there.startswith("where the actor lives:\nTraceback (most recent call last):")
    assert "in _raise" in there
    assert stage.startswith("in stage 2: ask(Troubled.fail)")


def test_an_error_that_cannot_travel_is_told_in_words(executor):
    with run(troubled(Troubled.fail_unpicklably), executor) as flow, pytest.raises(RheosError) as caught:
        flow.next(timeout_s=60.0)

    assert "Unpicklable: 7 and 7" == str(caught.value)
    assert "in fail_unpicklably" in caught.value.__notes__[0]


def test_an_actor_that_ends_its_process_has_the_last_word(executor):
    with run(troubled(Troubled.leave), executor) as flow, pytest.raises(ActorDied, match="has had enough of 7"):
        flow.next(timeout_s=60.0)


def test_a_factory_that_cannot_travel_is_refused_in_one_line(executor):
    lock = Lock()
    group = ActorGroup("local", 1, lambda index: lock)

    with pytest.raises(FlowError, match="local-0 cannot travel to the process that it is to live in"):
        run(from_actors(group, Troubled.give).gather_sync(), executor)


def test_what_the_cluster_does_not_have_is_an_error_after_a_stated_time(cluster):
    config = RayConfig(worker=ResourcesConfig(num_cpus=0.0, num_gpus=1.0), start_timeout_s=0.5)
    stream = from_actors(ActorGroup("rollout", 1, Roller), Roller.rollout).gather_sync()

    with pytest.raises(FlowError) as caught:
        run(stream, RayExecutor(config))

    assert str(caught.value) == (
        "rollout-0 found no place: asked for 1 GPU, the cluster has 0 GPU, of which 0 GPU free, in 0.5 s"
        " (executor.start_timeout_s)."
    )


def test_a_successor_that_finds_no_place_is_a_restart_that_failed(cluster):
    executor = RayExecutor(RayConfig(worker=ResourcesConfig(num_cpus=0.0)))
    group = ActorGroup("troubled", 1, Troubled)

    stream = from_actors(group, Troubled.give).gather_sync()
    with run(stream, executor, failures=FailurePolicy(1, 0.01)) as flow, warnings.catch_warnings():
        warnings.simplefilter("ignore", RheosWarning)
        (process,) = flow.next(timeout_s=60.0)
        actor = flow._engine._actors["troubled-0"]
        actor._options["num_gpus"], actor._start_timeout_s = 1.0, 0.5  # of a node that is gone, say
        os.kill(process, signal.SIGKILL)
        error = failure_of(flow)

    assert isinstance(error, ActorDied)
    assert "troubled-0 is gone" in str(error)
    assert "while troubled-0 was made anew" in error.__notes__


@pytest.mark.parametrize("policy", [{}, {"failures": FailurePolicy(3, 0.01)}], ids=["raise", "restart"])
def test_a_learner_that_dies_before_its_first_weights_is_what_failed_not_who_waits_for_them(executor, policy):
    learner = Actor("learner", DyingLearner, Placement.REMOTE)
    newest = Published(learner, DyingLearner.weights)
    rollouts = from_actors(ActorGroup("rollout", 2, Roller), Roller.rollout, first=(Roller.load, lambda _: newest))

    with run(rollouts.gather_sync(), executor, **policy) as flow:
        error = failure_of(flow)

    assert isinstance(error, ActorDied)
    assert "the learner has had enough" == str(error)


def test_actors_drop_what_waits_for_them_when_the_flow_is_closed_and_not_when_it_is_their_turn(executor, tmp_path):
    group = ActorGroup("counted", 4, partial(Counted, folder=str(tmp_path)))

    with run(from_actors(group, Counted.give).gather_async(in_flight=4), executor) as flow:
        flow.next(timeout_s=60.0)
        begun = _size_of(tmp_path)
    after = _size_of(tmp_path)

    assert after - begun <= 2  # who was between two calls just then; one after the other, it would be six
    assert [] == glob.glob(f"{tempfile.gettempdir()}/rheos-*-closing")


def _size_of(folder):
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_flow_that_nobody_closed_does_not_start_ray_once_more(tmp_path):
    program = """
import logging, ray
from ray_actors import Roller
from rheos import ActorGroup, from_actors, run
from rheos_ray.executor import RayExecutor
ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
flow = run(from_actors(ActorGroup("rollout", 1, Roller), Roller.rollout).gather_async(), RayExecutor())
next(flow)
ray.shutdown()
del flow
print("restarted" if ray.is_initialized() else "ended")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120.0, check=True)

    assert ("ended\n", "") == (done.stdout, done.stderr)
