"""Environments that may hang: the process that they live in is ended, and says why."""

from __future__ import annotations

from threading import Event

import pytest

from rheos.environments.hanging import TimedEnvironments
from rheos.executors import last_words


class Environments:
    """Hang at one step until they are let go."""

    num_envs, spaces = 2, None

    def __init__(self, hangs_at: int | None = None) -> None:
        self.hangs_at, self.steps, self.is_closed = hangs_at, 0, False
        self.go = Event()

    def reset(self, count=0):
        return f"reset {count}"

    def step(self, actions):
        self.steps += 1
        if self.steps == self.hangs_at:
            assert self.go.wait(30.0)
        return f"step {actions}"

    def close(self):
        self.is_closed = True


def test_steps_that_take_less_pass_and_close_closes():
    environments = Environments()
    timed = TimedEnvironments(environments, 30.0, "rollout-0")

    seen = [timed.reset(4), timed.step(1), timed.step(2)]
    timed.close()

    assert ["reset 4", "step 1", "step 2"] == seen
    assert (2, True) == (timed.num_envs, environments.is_closed)


def test_a_step_that_takes_longer_ends_the_process_with_worker_step_and_time(monkeypatch):
    environments, reasons = Environments(hangs_at=3), []

    def end(reason):
        reasons.append(reason)
        environments.go.set()

    monkeypatch.setattr(last_words, "_end", end)
    timed = TimedEnvironments(environments, 0.2, "rollout-1")
    for action in range(3):
        timed.step(action)
    timed.close()

    assert ["rollout-1: step 3 of its environments took more than 0.2 s (env.step_timeout_s)"] == reasons


def test_one_that_raises_is_not_taken_for_one_that_hangs(monkeypatch):
    reasons, environments = [], Environments()
    monkeypatch.setattr(last_words, "_end", reasons.append)
    timed = TimedEnvironments(environments, 0.1, "rollout-0")

    def fail(actions):
        raise OSError("the cable is loose")

    environments.step = fail
    with pytest.raises(OSError, match="cable"):
        timed.step(0)
    Event().wait(0.4)
    timed.close()

    assert [] == reasons


def test_a_process_that_is_not_an_actors_own_is_not_ended():
    with pytest.raises(RuntimeError, match="not an actor's own"):
        last_words.end_process("enough")
