"""What tests of core share: executors, a clock that stands still, and what was warned of."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from rheos.executors.inline import InlineExecutor
from rheos.executors.protocol import Executor
from rheos.executors.threads import ThreadsExecutor
from rheos.scheduler import recovery
from rheos.testing.simulated import SimulatedExecutor


class Clock:
    """A clock that stands still."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def restart_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which restarts are due."""
    clock = Clock()
    monkeypatch.setattr(recovery, "perf_counter", clock)
    return clock


@pytest.fixture
def warned() -> Iterator[list[str]]:
    """What was warned of, as it comes."""
    texts: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: texts.append(str(message))
        yield texts


@pytest.fixture(params=["inline", "threads", "simulated"])
def executor(request: pytest.FixtureRequest) -> Executor:
    made: dict[str, Executor] = {
        "inline": InlineExecutor(),
        "threads": ThreadsExecutor(),
        "simulated": SimulatedExecutor(seed=1),
    }
    return made[request.param]
