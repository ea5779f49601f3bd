"""TimedEnvironments: environments that may hang, and what ends them."""

from __future__ import annotations

from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rheos.executors.last_words import end_process

if TYPE_CHECKING:
    from rheos.environments.environment import VectorEnvironment, VectorStep

__all__ = ["TimedEnvironments"]

_LOOKS = 4
"""How often within the time a step is looked at."""


class TimedEnvironments:
    """Environments whose steps and resets may take so long; else the process that they live in is ended, and says why.

    Args:
        environments: that may hang.
        timeout_s: for a step of all of them together.
        worker: whose they are, for the message.
    """

    def __init__(self, environments: VectorEnvironment, timeout_s: float, worker: str) -> None:
        self._environments = environments
        self.num_envs, self.spaces = environments.num_envs, environments.spaces
        self._clock = _Clock(timeout_s, worker)
        Thread(target=_watch, args=(self._clock,), name=f"{worker}-step-timeout", daemon=True).start()

    def reset(self, count: int = 0) -> Any:
        """Start all environments."""
        self._clock.began_at = perf_counter()
        try:
            return self._environments.reset(count)
        finally:
            self._clock.began_at = None

    def step(self, actions: Any) -> VectorStep:
        """Take one action in each environment."""
        self._clock.began_at = perf_counter()
        try:
            return self._environments.step(actions)
        finally:
            self._clock.began_at = None
            self._clock.steps += 1

    def close(self) -> None:
        """Release everything."""
        self._clock.is_stopped.set()
        self._environments.close()


class _Clock:
    """What the environments and the thread that watches them share."""

    def __init__(self, timeout_s: float, worker: str) -> None:
        self.timeout_s, self.worker = timeout_s, worker
        self.steps = 0
        self.began_at: float | None = None
        self.is_stopped = Event()


def _watch(clock: _Clock) -> None:
    while not clock.is_stopped.wait(clock.timeout_s / _LOOKS):
        began_at = clock.began_at
        if began_at is not None and perf_counter() - began_at > clock.timeout_s:
            end_process(
                f"{clock.worker}: step {clock.steps + 1} of its environments took more than"
                f" {clock.timeout_s:g} s (env.step_timeout_s)"
            )
            return
