"""The executors of core keep the contract of executors."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from rheos import ActorGroup, from_actors, run
from rheos.errors import FlowTimeout, RheosWarning
from rheos.executors.inline import InlineExecutor
from rheos.executors.threads import ThreadsExecutor
from rheos.testing.executor_suite import ExecutorSuite
from rheos.testing.executor_suite.actors import Slow
from rheos.testing.executor_suite.gates import Gate
from rheos.testing.simulated import SimulatedExecutor


class TestInlineExecutor(ExecutorSuite):
    is_parallel = False

    def make_executor(self) -> InlineExecutor:
        return InlineExecutor()


class TestThreadsExecutor(ExecutorSuite):
    def make_executor(self) -> ThreadsExecutor:
        return ThreadsExecutor()


class TestSimulatedExecutor(ExecutorSuite):
    is_parallel = False
    seed = 0

    def make_executor(self) -> SimulatedExecutor:
        return SimulatedExecutor(self.seed)


class TestSimulatedExecutorInAnotherOrder(TestSimulatedExecutor):
    seed = 1


class TestSimulatedExecutorInAThirdOrder(TestSimulatedExecutor):
    seed = 2


def test_a_thread_that_is_given_up_is_warned_of_and_ends_once_its_call_returns(tmp_path: Path):
    gate = Gate(tmp_path / "gate")
    slow = ActorGroup("slow", 1, partial(Slow, gate.path))
    flow = run(from_actors(slow, Slow.next).gather_sync(), ThreadsExecutor(), grace_s=0.02)
    with pytest.raises(FlowTimeout):
        flow.next(timeout_s=0.2)  # long enough for the thread to be at work
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "slow-0"]

    with pytest.warns(RheosWarning, match=r"slow-0 still works on slow-0\.next"):
        flow.close()
    gate.open()
    thread.join(30.0)

    assert not thread.is_alive()
