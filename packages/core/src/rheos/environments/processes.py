"""ProcessEnvironments: single environments, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv
from gymnasium.vector.async_vector_env import AsyncState

from rheos.environments.failures import SubprocessFailed, cause_of
from rheos.environments.transitions import signals_of, values_of_reset, values_of_step
from rheos.spaces.fitting import ObservationCheck

__all__ = ["ProcessEnvironments"]

CLOSE_TIMEOUT_S = 5.0
"""How long all processes together may take to close their environments, before they are ended."""


if TYPE_CHECKING:
    _AsyncVectorEnv = AsyncVectorEnv[Any, Any]
else:
    _AsyncVectorEnv = AsyncVectorEnv  # takes no parameters in older versions of Gymnasium


class ProcessEnvironments(_AsyncVectorEnv):
    """Gymnasium's AsyncVectorEnv, made robust.

    A failure is a `SubprocessFailed` that knows the environment and its traceback, whatever was raised (Gymnasium
    waits for ever when an exception cannot be pickled, and prints warnings). Ctrl-C reaches this process only, so
    that a run can end in order. No process survives `close`, or a constructor that fails.

    An environment that ended is reset in the same step, except with Gymnasium 1.0, which does it in the next one.
    What `step` and `reset` give is overwritten by the next step.
    """

    def __init__(self, make_envs: Sequence[Callable[[], gym.Env[Any, Any]]]) -> None:
        settings: dict[str, Any] = {"copy": False}
        if hasattr(gym.vector, "AutoresetMode"):
            settings["autoreset_mode"] = gym.vector.AutoresetMode.SAME_STEP
        functions = [_MakeGuarded(make, index, os.getpid()) for index, make in enumerate(make_envs)]
        try:
            super().__init__(functions, **settings)
        except BaseException as error:
            all_started = len(self._started()) == len(make_envs)  # else it comes from here, not from a process
            gone = self._process_gone() if all_started and isinstance(error, EOFError | OSError) else None
            self._end_processes()
            if gone is None:
                raise
            raise gone from error

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset every environment; a process that is gone is a `SubprocessFailed`."""
        try:
            return super().reset(seed=seed, options=options)
        except (EOFError, OSError) as error:
            raise self._process_gone() from error

    def step(self, actions: Any) -> Any:
        """Step every environment; a process that is gone is a `SubprocessFailed`."""
        try:
            return super().step(actions)
        except (EOFError, OSError) as error:
            raise self._process_gone() from error

    def close_extras(self, timeout: float | None = CLOSE_TIMEOUT_S, terminate: bool = False) -> None:
        """Let the environments close themselves, unless a step is under way; end the processes that do not."""
        if not terminate and self._state is AsyncState.DEFAULT:
            for pipe in self.parent_pipes:
                with suppress(OSError):  # the process of this one is gone
                    pipe.send(("close", None))
            _join(self.processes, CLOSE_TIMEOUT_S if timeout is None else timeout)
        self._end_processes()

    def _raise_if_errors(self, successes: Iterable[bool]) -> None:
        failures: list[SubprocessFailed] = []
        for success in successes:
            if not success:
                index, _, failure, trace = self.error_queue.get()
                self.parent_pipes[index].close()
                if not isinstance(failure, SubprocessFailed):  # not the environment's: Gymnasium's own loop
                    failure = SubprocessFailed(index, cause_of(failure), trace)
                failures.append(failure)
        if failures:
            self._state = AsyncState.DEFAULT  # nothing is pending any more
            raise min(failures, key=lambda failure: failure.index)

    def _process_gone(self) -> SubprocessFailed:
        """Name the process that ended on its own."""
        sentinels = {process.sentinel: index for index, process in enumerate(self.processes)}
        gone = connection.wait(list(sentinels), timeout=CLOSE_TIMEOUT_S)
        index = min((sentinels[sentinel] for sentinel in gone if isinstance(sentinel, int)), default=0)
        self.processes[index].join(CLOSE_TIMEOUT_S)  # the exit code comes a little after the end
        return SubprocessFailed(index, f"its process ended with exit code {self.processes[index].exitcode}", "")

    def _started(self) -> list[multiprocessing.Process]:
        return [process for process in getattr(self, "processes", ()) if process.pid is not None]

    def _end_processes(self) -> None:
        processes = self._started()
        for process in processes:
            process.terminate()
        _join(processes, CLOSE_TIMEOUT_S)
        for process in processes:
            if process.is_alive():
                process.kill()
        _join(processes, None)
        for pipe in getattr(self, "parent_pipes", ()):
            pipe.close()


def _join(processes: Sequence[multiprocessing.Process], timeout_s: float | None) -> None:
    """Wait until all have ended, or the time that they have together is over."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    for process in processes:
        process.join(None if deadline is None else max(0.0, deadline - time.monotonic()))


class _MakeGuarded:
    """Makes an environment; in its own process, shields it from Ctrl-C and makes its errors fit to travel.

    A forked process has its parent's handler for SIGTERM: a run's holds the signal off, so it is taken away.
    """

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], index: int, parent: int) -> None:
        self._make, self._index, self._parent = make, index, parent

    def __call__(self) -> gym.Env[Any, Any]:
        if os.getpid() == self._parent:  # AsyncVectorEnv makes one here, to ask for its spaces
            return self._make()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return _Guard(self._make(), self._index)


class _Guard(gym.Wrapper[Any, Any, Any, Any]):
    """Turns whatever an environment raises, or gives that does not fit its space, into `SubprocessFailed`."""

    def __init__(self, env: gym.Env[Any, Any], index: int) -> None:
        super().__init__(env)
        self._index = index
        self._check = ObservationCheck(env.observation_space)

    def step(self, action: Any) -> Any:
        try:
            stepped: Any = self.env.step(action)
            observation, reward, terminated, truncated, info = values_of_step(stepped)
            self._check(observation)
            return observation, *signals_of(reward, terminated, truncated), info
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, too
            raise self._failure(error) from None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        try:
            observation, info = values_of_reset(self.env.reset(seed=seed, options=options))
            self._check(observation)
            return observation, info
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self._failure(error) from None

    def _failure(self, error: BaseException) -> SubprocessFailed:
        return SubprocessFailed(self._index, cause_of(error), traceback.format_exc())
