"""Companions: processes that work with this one and end with it, however it or one of them ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import connection, resource_tracker
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from threading import Event, Thread
from typing import Any, TypeAlias

from rheos.errors import RheosError

__all__ = ["Companions", "Pipe"]

Pipe: TypeAlias = "connection.Connection[Any, Any]"
"""One end of what messages go through, both ways."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What a terminal or a batch system sends to all processes: it is the first one's to answer."""

_PATIENCE_S = 3.0
"""Seconds until a process whose connection has broken is known to have ended."""


class Companions:
    """Processes that live and die together: when one ends, all are ended, and `failure` tells why.

    They end with this process, too, also where it is killed, and they leave Ctrl-C and SIGTERM to it.

    Args:
        name: whose they are, for messages.
        count: how many, beside this one.
        target: at the top of a module; each runs `target(pipe, rank)`, with a rank from 1.
        on_end: called in a thread of its own when one has ended before `close`.
    """

    def __init__(self, name: str, count: int, target: Callable[[Pipe, int], None], on_end: Callable[[], None]) -> None:
        self._name = name
        self._size = count + 1
        self._state = state = _State(on_end)
        self._end = Finalize(self, _end, (state,), exitpriority=1)  # before Python waits for its child processes
        context = multiprocessing.get_context("spawn")
        with _signals_held_off():
            for rank in range(1, self._size):
                pipe, far_end = context.Pipe()
                process = context.Process(
                    target=_live, args=(target, far_end, rank), name=f"{name}-{rank + 1}", daemon=True
                )
                process.start()
                far_end.close()
                state.processes.append(process)
                state.pipes.append(pipe)
        Thread(target=_end_together, args=(state,), name=f"{name}-companions", daemon=True).start()

    def send(self, message: object) -> None:
        """Send a message to each of them.

        Raises:
            ConnectionError: if one has ended.
            Exception: what pickle raises on what cannot travel.
        """
        data = ForkingPickler.dumps(message)  # once for all
        for pipe in self._state.pipes:
            pipe.send_bytes(data)

    def receive(self) -> list[Any]:
        """Wait for a message of each of them.

        Raises:
            ConnectionError: if one has ended.
        """
        messages = [self._receive(pipe) for pipe in self._state.pipes]
        self._state.is_greeted = True
        return messages

    def check(self) -> None:
        """See that all of them are there.

        Raises:
            ConnectionError: if one has ended.
        """
        if self._state.has_ended.is_set():
            raise ConnectionError("a process has ended")

    def failure(self) -> RheosError:
        """Return what to raise after a `ConnectionError`: which of them ended, and why."""
        state = self._state
        state.has_ended.wait(_PATIENCE_S)
        for pipe in state.pipes:
            with suppress(EOFError, OSError):
                while pipe.poll():
                    message = pipe.recv()
                    if isinstance(message, _Failure):
                        state.failures.append(message)
        if state.failures:
            failure = state.failures[0]
            error = RheosError(f"{self._name}: {self._process(failure.rank)} failed: {failure.text}")
            error.add_note(failure.trace)
            return error
        if state.first is None:
            return RheosError(f"{self._name}: its other processes have ended.")
        rank = state.processes.index(state.first) + 1
        how = _how_it_ended(state.first.exitcode or 0, state.is_greeted)
        return RheosError(f"{self._name}: {self._process(rank)} {how}.")

    def close(self) -> None:
        """End all of them, at once: they have nothing to lose. It may be called again."""
        self._end()

    def _receive(self, pipe: Pipe) -> Any:
        try:
            message = pipe.recv()
        except EOFError:
            raise ConnectionError("a process has ended") from None
        if isinstance(message, _Failure):
            self._state.failures.append(message)
            raise ConnectionError("a process has failed")
        return message

    def _process(self, rank: int) -> str:
        return f"process {rank + 1} of {self._size}"


@dataclass
class _State:
    """What a thread and the companions share; the thread does not know them, so that nobody keeps them alive."""

    on_end: Callable[[], None]
    processes: list[SpawnProcess] = field(default_factory=list)
    pipes: list[Pipe] = field(default_factory=list)
    failures: list[_Failure] = field(default_factory=list)
    first: SpawnProcess | None = None
    """The one that ended first."""
    has_ended: Event = field(default_factory=Event)
    is_greeted: bool = False
    """Whether each has sent something."""


@dataclass(frozen=True)
class _Failure:
    """What a companion raised."""

    rank: int
    text: str
    trace: str


def _end(state: _State) -> None:
    state.has_ended.set()
    for process in state.processes:
        process.kill()
    for process in state.processes:
        process.join()
    for pipe in state.pipes:
        pipe.close()


def _end_together(state: _State) -> None:
    """Wait until a process ends, and end the others."""
    ready = connection.wait([process.sentinel for process in state.processes])
    if state.has_ended.is_set():
        return
    ended = [process for process in state.processes if process.sentinel in ready]
    for process in ended:
        process.join(_PATIENCE_S)
    state.first = next((process for process in ended if process.exitcode), ended[0])
    for process in state.processes:
        process.kill()
    state.has_ended.set()
    state.on_end()


def _how_it_ended(code: int, is_greeted: bool) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    hint = "" if is_greeted else ": a program that trains needs `if __name__ == '__main__':` around what it does"
    return f"ended with exit code {code}{hint}"


@contextmanager
def _signals_held_off() -> Iterator[None]:
    """Have processes that are started begin with these signals held off, until they ignore them themselves."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # else the first process starts it, and it lets the signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _live(target: Callable[[Pipe, int], None], pipe: Pipe, rank: int) -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    Thread(target=_end_with_parent, daemon=True).start()
    code = 0
    try:
        target(pipe, rank)
    except (ConnectionError, EOFError):  # another one has ended, and it is that one that is to blame
        pass
    except BaseException as error:
        code = 1
        text = " ".join(f"{type(error).__name__}: {error}".split())
        with suppress(OSError):
            pipe.send(_Failure(rank, text, traceback.format_exc()))
    os._exit(code)  # without what Python does at its end: frameworks wait there for others


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    handle: int = parent.sentinel
    if sys.platform == "linux" and parent.pid is not None:
        with suppress(AttributeError, OSError):  # of an old kernel
            # The sentinel does not tell as long as a process that the parent has forked is there.
            handle = os.pidfd_open(parent.pid)
    if os.getppid() == parent.pid:
        connection.wait([handle])
    os._exit(1)
