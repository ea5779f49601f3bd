"""Environments in processes of their own: failures are told, and no process is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from functools import partial
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from rheos.environments.failures import SubprocessFailed
from rheos.environments.native import NativeEnvironments
from rheos.environments.processes import ProcessEnvironments
from rheos.errors import EnvironmentFailed
from rheos.testing.environments import CountingEnv, FailingEnv


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    assert [] == multiprocessing.active_children()


class CannotTravelError(Exception):
    """Cannot be unpickled: its constructor takes two arguments, its `args` have one."""

    def __init__(self, what, why):
        super().__init__(f"{what}: {why}")
        self.refuses = lambda: None  # nor pickled


class DyingEnv(CountingEnv):
    def step(self, action):
        os.kill(os.getpid(), signal.SIGKILL)


class SendsCtrlC(CountingEnv):
    def step(self, action):
        os.kill(os.getpid(), signal.SIGINT)
        return super().step(action)


class GivesFloats(CountingEnv):
    """Of its space, which says bytes, it gives floats from the second step on."""

    def _observation(self):
        observation = super()._observation()
        return observation if self._count < 2 else observation + 300.2


class SlowToClose(CountingEnv):
    def close(self):
        if multiprocessing.parent_process() is not None:  # AsyncVectorEnv closes one here, too
            signal.pause()


def in_processes(*make_envs):
    return NativeEnvironments(ProcessEnvironments(make_envs), seed=0, worker="rollout-1", one_seed_each=True)


def run(environments, steps):
    environments.reset()
    return [environments.step(np.zeros(environments.num_envs, np.int64)) for _ in range(steps)]


@pytest.mark.skipif(not hasattr(gym.vector, "AutoresetMode"), reason="Gymnasium 1.0 resets in the next step")
def test_they_count_as_in_one_process():
    environments = in_processes(partial(CountingEnv, 2), partial(CountingEnv, 3))

    steps = run(environments, 3)
    environments.close()

    assert [[False, False], [True, False], [False, True]] == [step.truncated.tolist() for step in steps]
    assert [
        None,
        [[2.0]],
        [[3.0]],
    ] == [None if step.final_observations is None else step.final_observations.tolist() for step in steps]


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (CannotTravelError("socket", "closed"), "CannotTravelError: socket: closed"),
        (StopIteration(), "StopIteration"),
        (SystemExit(0), "SystemExit: 0"),
        (SystemExit("bye"), "SystemExit: bye"),
    ],
)
def test_an_error_names_environment_step_and_cause_and_shows_the_far_traceback(error, cause):
    environments = in_processes(CountingEnv, partial(FailingEnv, error, at_step=5))

    with pytest.raises(EnvironmentFailed) as caught:
        run(environments, 9)
    environments.close()

    assert f"rollout-1, environment 1, step 5: {cause}" == str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    assert "Traceback in the process of environment 1:" in shown
    assert "raise self._error" in shown


def test_of_several_errors_the_first_environments_is_told():
    environments = in_processes(*(partial(FailingEnv, ValueError(str(i)), at_step=2) for i in range(3)))

    with pytest.raises(EnvironmentFailed, match=r"^rollout-1, environment 0, step 2: ValueError: 0$"):
        run(environments, 2)
    environments.close()


@pytest.mark.parametrize(("error", "cause"), [(OSError("no map"), "OSError: no map"), (SystemExit(), "SystemExit")])
def test_an_error_in_reset_is_told(error, cause):
    environments = in_processes(CountingEnv, partial(FailingEnv, error, at_reset=1))

    with pytest.raises(EnvironmentFailed, match=f"^rollout-1, environment 1, reset: {cause}$"):
        environments.reset()
    environments.close()


def test_an_observation_that_its_spaces_dtype_cannot_hold_is_told():
    space = gym.spaces.Box(0, 255, (1,), np.uint8)
    environments = in_processes(*(partial(kind, observation_space=space) for kind in (CountingEnv, GivesFloats)))

    with pytest.raises(EnvironmentFailed, match="environment 1, step 2: TypeError: the observation has dtype float64"):
        run(environments, 2)
    environments.close()


def test_a_process_that_dies_is_named_with_its_exit_code():
    environments = in_processes(CountingEnv, DyingEnv)

    with pytest.raises(EnvironmentFailed, match="environment 1, step 1: its process ended with exit code -9"):
        run(environments, 1)
    environments.close()


def test_ctrl_c_does_not_reach_the_environments():
    environments = in_processes(SendsCtrlC)

    (step,) = run(environments, 1)
    environments.close()

    assert [1.0] == step.rewards.tolist()


def test_closing_in_the_middle_of_a_step_leaves_no_process():
    environments = in_processes(CountingEnv, CountingEnv)
    environments.reset()
    environments._env.step_async(np.zeros(2, np.int64))

    environments.close()

    assert [] == multiprocessing.active_children()


def test_an_environment_that_does_not_close_is_ended(monkeypatch):
    monkeypatch.setattr("rheos.environments.processes.CLOSE_TIMEOUT_S", 0.2)
    environments = in_processes(SlowToClose)
    environments.reset()

    environments._env.close(timeout=0.2)

    assert [] == multiprocessing.active_children()


def test_a_process_ends_by_sigterm_whatever_handler_this_one_has(monkeypatch):
    monkeypatch.setattr("rheos.environments.processes.CLOSE_TIMEOUT_S", 60.0)
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        environments = in_processes(SlowToClose, SlowToClose)
    finally:
        signal.signal(signal.SIGTERM, before)
    environments.reset()
    processes = list(environments._env.processes)

    environments._env.close(timeout=0.0)

    assert [-signal.SIGTERM] * 2 == [process.exitcode for process in processes]


def test_all_processes_together_have_one_time_to_end(monkeypatch):
    now, waits = [0.0], []

    class Deaf:
        """Ends by being killed only."""

        pid, is_killed = 1, False

        def terminate(self):
            pass

        def kill(self):
            self.is_killed = True

        def is_alive(self):
            return not self.is_killed

        def join(self, timeout):
            if timeout is not None:
                waits.append(timeout)
                now[0] += timeout

    environments = in_processes(CountingEnv)
    deaf = [Deaf() for _ in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(environments._env, "processes", deaf)
        patch.setattr("rheos.environments.processes.time", SimpleNamespace(monotonic=lambda: now[0]))
        environments._env._end_processes()
    environments._env._end_processes()

    assert [5.0, 0.0, 0.0] == waits
    assert all(process.is_killed for process in deaf)


def test_a_process_that_cannot_be_started_leaves_no_other(monkeypatch):
    started, start = [], multiprocessing.Process.start

    def start_one_only(process):
        if started:
            raise BlockingIOError("no more processes")
        started.append(process)
        start(process)

    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", start_one_only)

    with pytest.raises(BlockingIOError, match="no more processes"):
        in_processes(CountingEnv, CountingEnv)

    assert [False] == [process.is_alive() for process in started]


def test_a_constructor_that_fails_in_one_process_leaves_no_other(capfd):
    here = os.getpid()

    def make_here_only():
        if os.getpid() != here:
            raise OSError("port in use")
        return CountingEnv()

    with pytest.raises(SubprocessFailed, match=r"^environment 1: its process ended with exit code 1$"):
        in_processes(CountingEnv, make_here_only)

    assert "port in use" in capfd.readouterr().err
