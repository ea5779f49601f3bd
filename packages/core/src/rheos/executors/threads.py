"""The executor `threads`: every actor has a thread and a mailbox of its own in this process."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Any, TypeVar

from rheos.errors import ActorStuck, FlowError
from rheos.executors.host import Host, user_exit
from rheos.executors.inline import DriverActor
from rheos.executors.protocol import NOTHING, Call, Completions, Control, LocalShared, Shared
from rheos.streams.actors import Placement

if TYPE_CHECKING:
    from pathlib import Path

    from rheos.configuration.run_config import ExecutorConfig
    from rheos.executors.protocol import RunningActor
    from rheos.streams.actors import Actor

__all__ = ["ThreadActor", "ThreadsExecutor", "make_executor"]

__tracebackhide__ = True

T = TypeVar("T")

_IDLE_S = 0.5
"""Seconds that an actor with nothing to do has to end, also where others have used up the grace."""


class ThreadActor:
    """An actor in a thread: its object is made there, works there and is closed there."""

    def __init__(self, actor: Actor[Any], put: Callable[[Any], Shared[Any]], completions: Completions) -> None:
        self.name = actor.name
        self._mailbox = _Mailbox(completions)
        self._thread = Thread(target=_live, args=(actor, put, self._mailbox), name=actor.name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def wait_until_started(self, timeout_s: float | None = None) -> bool:
        """Block until its object is made, or the time is over."""
        is_started = self._mailbox.started.wait(timeout_s)
        if self._mailbox.started.error is not None:
            raise self._mailbox.started.error
        return is_started

    def call(self, method: str | Control, message: Any = NOTHING, through: tuple[str, ...] = ()) -> Call:
        """Put a call into the mailbox."""
        call = Call(self.name, method, message, through)
        self._mailbox.calls.put(call)
        return call

    def restart(self, times: int) -> Call:
        """Put the restart into the mailbox."""
        return self.call(Control.RESTART, times)

    def close(self, grace_s: float) -> None:
        """Have the thread end after the call that it works on, and wait for that."""
        self._mailbox.close()
        if self._thread is current_thread():  # a forgotten flow, collected while the actor works
            return
        self._thread.join(grace_s)
        if self._mailbox.current is None:
            self._thread.join(_IDLE_S)
        if self._thread.is_alive():
            raise ActorStuck(
                f"{self.name} {self._mailbox.doing()} when the time to end is over; its thread is left behind and ends"
                " with the program."
            )
        if self._mailbox.closing_error is not None:
            error, self._mailbox.closing_error = self._mailbox.closing_error, None
            raise error


class _Mailbox:
    """What a thread and its actor share; the thread does not know the actor, so that nobody keeps the other alive."""

    def __init__(self, completions: Completions) -> None:
        self.calls: SimpleQueue[Call | None] = SimpleQueue()
        self.completions = completions
        self.started = Call("", "start", NOTHING, ())
        self.current: Call | None = None
        self.closing_error: Exception | None = None
        self.is_closed = False

    def doing(self) -> str:
        if not self.started.finished:
            return "is still being made"
        return "is still being closed" if self.current is None else f"still works on {self.current!r}"

    def close(self) -> None:
        self.is_closed = True
        self.calls.put(None)


def _live(actor: Actor[Any], put: Callable[[Any], Shared[Any]], mailbox: _Mailbox) -> None:
    try:
        host = Host(actor, put)
    except BaseException as error:
        mailbox.started.finish(None, _ordinary(error, actor.name))
        return
    mailbox.started.finish(None, None)
    while (call := mailbox.calls.get()) is not None:
        mailbox.current = call
        if isinstance(call.message, Call):
            call.message.wait()
        if mailbox.is_closed or mailbox.completions.is_abandoned:
            call.finish(None, FlowError(f"{call!r} was dropped: the flow is closed."))
        else:
            try:
                host.execute(call)
            except BaseException as error:
                call.finish(None, _ordinary(error, repr(call)))
            mailbox.completions.announce(call)
        mailbox.current = call = None  # nothing that passed is kept while the next one is waited for
    try:
        host.close()
    except BaseException as error:
        mailbox.closing_error = _ordinary(error, f"{actor.name}.close")


def _ordinary(error: BaseException, label: str) -> Exception:
    """Return an error that does not end the thread in silence: Ctrl-C reaches the driver, so user code raised it."""
    return error if isinstance(error, Exception) else user_exit(label, error)


class ThreadsExecutor:
    """Runs actors on threads: for environments and networks that let go of Python's lock, and for what waits.

    Those that are placed on the driver live there. A synchronous flow gives the same, bit for bit, as `inline`.
    """

    name = "threads"

    def spawn(self, actor: Actor[Any], completions: Completions) -> RunningActor:
        """Start a thread that makes the actor's object, or make it here where it is placed on the driver."""
        kind = DriverActor if actor.placement is Placement.DRIVER else ThreadActor
        return kind(actor, self.put, completions)

    def put(self, value: T) -> Shared[T]:
        """Keep the value as it is: everybody is in this process."""
        return LocalShared(value)

    def log_to(self, folder: Path) -> None:
        """Do nothing: what is printed in this process is seen."""

    def close(self) -> None:
        """Do nothing: the threads are those of the actors."""


def make_executor(config: ExecutorConfig) -> ThreadsExecutor:
    """Make the executor that the configuration names `threads`."""
    return ThreadsExecutor()
