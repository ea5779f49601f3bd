"""What an executor is: it starts actors, carries messages to them, and announces what has finished."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from queue import Empty, SimpleQueue
from threading import Event, Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rheos.errors import FlowError

if TYPE_CHECKING:
    from pathlib import Path

    from rheos.streams.actors import Actor

__all__ = ["NOTHING", "Call", "Completions", "Control", "Executor", "LocalShared", "RunningActor", "Shared"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Nothing(Enum):
    """The type of NOTHING."""

    NOTHING = "nothing"


NOTHING = Nothing.NOTHING
"""The message of a method that takes none."""


class Control(Enum):
    """What a host does itself, where a method's name is passed on to the actor's object."""

    INSTALL = "install"
    """The message is `(name, function)`: keep a copy, for requests that name it in `through`."""
    FUNCTION_STATE = "function state"
    """The message is a name: reply with the `state_dict` of the installed function, or None."""
    LOAD_FUNCTION_STATE = "load function state"
    """The message is `(name, state)`."""
    RESTART = "restart"
    """The message is how often that was done by then: make the actor's object anew; what was installed is gone. An
    object that has a method `restarted(times)` is told, so that it need not repeat what its predecessors did."""


class Shared(ABC, Generic[T_co]):
    """A value that was sent once and is read by many."""

    @abstractmethod
    def get(self) -> T_co:
        """Return the value; arrays in it are read-only."""


@dataclass(frozen=True)
class LocalShared(Shared[T]):
    """A shared value within one process."""

    value: T

    def get(self) -> T:
        """Return the value."""
        return self.value


_WANTED = Lock()
"""Held while those change who want to know that a call has finished."""


class Call:
    """A message on its way to an actor and, once finished, what came back. It may itself be a message."""

    finished = False
    value: Any = None
    error: Exception | None = None
    failed_in: str | None = None
    """The installed function that raised, if one did."""
    began_at = ended_at = 0.0
    """By perf_counter, where the actor lives."""
    owner: Any = None
    key = 0
    incarnation = 0
    """How often its actor had been restarted when it was sent."""
    _wanted_by: tuple[Callable[[], None], ...] = ()

    def __init__(self, actor: str, method: str | Control, message: Any, through: tuple[str, ...]) -> None:
        self.actor = actor
        self.method = method
        self.message = message
        self.through = through

    def finish(self, value: Any, error: Exception | None) -> None:
        """Set what came back; the executor announces the call after this."""
        self.value, self.error, self.finished = value, error, True
        if self._wanted_by:
            self._tell()

    def when_finished(self, act: Callable[[], None]) -> None:
        """Call `act()` once it has finished: at once, or in the thread that finishes it."""
        with _WANTED:
            self._wanted_by = (*self._wanted_by, act)
        if self.finished:  # `finish` may have looked before `act` was there; what others wait for is not done here
            with _WANTED:
                is_left = any(one is act for one in self._wanted_by)
                self._wanted_by = tuple(one for one in self._wanted_by if one is not act)
            if is_left:
                act()

    def _tell(self) -> None:
        with _WANTED:
            acts, self._wanted_by = self._wanted_by, ()
        for act in acts:
            act()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until it has finished, and return whether it has; for executors whose actors have their own threads."""
        if self.finished:
            return True
        event = Event()
        self.when_finished(event.set)
        return event.wait(timeout_s)

    def __repr__(self) -> str:
        """Return the actor and the method."""
        method = self.method if isinstance(self.method, str) else self.method.value
        return f"{self.actor}.{method}"


class Completions:
    """The one queue on which a run waits: what has finished anywhere, and what is to be run on the driver."""

    def __init__(self) -> None:
        self.announced: SimpleQueue[Call | None] = SimpleQueue()
        """Calls that have finished elsewhere, and None to wake the run."""
        self.on_driver: deque[tuple[Call, Callable[[Call], Call]]] = deque()
        """Calls that the driver has to run, and how."""
        self.is_abandoned = False
        """Whether the run is closed, so that what was sent and has not begun is dropped."""
        self.waited_s = 0.0
        """For how long the run has waited here, all in all."""
        self._to_drop: list[Callable[[], None]] = []

    def announce(self, call: Call) -> None:
        """Tell the run that a call has finished. From any thread."""
        self.announced.put(call)

    def wake(self) -> None:
        """Wake the run without news. From any thread, and from a signal handler."""
        self.announced.put(None)

    def later(self, call: Call, work: Callable[[Call], Call]) -> None:
        """Queue a call that the driver itself runs: `work(call)` finishes it and returns it.

        An executor that decides only then which call comes next returns that one.
        """
        self.on_driver.append((call, work))

    def abandon(self, error: Exception) -> None:
        """Finish with an error what the driver has not run, so that nobody goes on waiting for it."""
        self.is_abandoned = True
        for drop in self._to_drop:
            drop()
        while self.on_driver:
            call, _ = self.on_driver.popleft()
            call.finish(None, error)

    def when_abandoned(self, drop: Callable[[], None]) -> None:
        """Call `drop()` when the run is closed, before the first actor is; for an actor that cannot look for itself."""
        self._to_drop.append(drop)

    @property
    def has_driver_work(self) -> bool:
        """Whether the next call on the driver can run: its message is no call that is still outstanding."""
        if not self.on_driver:
            return False
        message = self.on_driver[0][0].message
        return message is NOTHING or not isinstance(message, Call) or message.finished

    def run_one_on_driver(self) -> Call:
        """Run the next call that is placed on the driver and return it finished; only while `has_driver_work`."""
        call, work = self.on_driver.popleft()
        try:
            return work(call)
        except BaseException:  # Ctrl-C
            call.finish(None, FlowError(f"{call!r} was interrupted."))
            raise

    def take(self) -> Call | None:
        """Return an announced call, or None when there is none."""
        while not self.announced.empty():
            try:
                call = self.announced.get_nowait()
            except Empty:
                return None
            if call is not None:
                return call
        return None

    def wait(self, timeout_s: float | None) -> Call | None:
        """Block until something is announced; None after a `wake` or when the time is over."""
        began_at = perf_counter()
        try:
            return self.announced.get(timeout=timeout_s)
        except Empty:
            return None
        finally:
            self.waited_s += perf_counter() - began_at


class RunningActor(Protocol):
    """An actor that is being started. Messages of one caller arrive in the order in which they were sent."""

    @property
    def name(self) -> str:
        """The name of its description."""
        ...

    @property
    def alive(self) -> bool:
        """Whether what it lives in is there: its thread, its process."""
        ...

    def wait_until_started(self, timeout_s: float | None = None) -> bool:
        """Block until its object is made, or the time is over; return whether it is made.

        What its factory raised is raised here. Calls may be sent before.
        """
        ...

    def call(self, method: str | Control, message: Any = NOTHING, through: tuple[str, ...] = ()) -> Call:
        """Send a message and return at once; the call is announced when it has finished.

        Args:
            method: a method of the actor's object, or a control.
            message: its argument: a value, a `Shared` or a `Call` (whose value is then the argument).
            through: names of installed functions that the reply passes through where the actor lives.
        """
        ...

    def restart(self, times: int) -> Call:
        """Make the actor's object anew, behind what was sent before; also where what it lived in is gone.

        Args:
            times: how often that was done by then, 1 for the first; for an object with `restarted(times)`.

        A call that was sent and will never be answered is announced with an `ActorDied`.

        Returns:
            A call that is announced once the new object is there, or with what its factory raised.
        """
        ...

    def close(self, grace_s: float) -> None:
        """End the actor: what it works on is finished, what else was sent is dropped, its object is closed. Idempotent.

        Args:
            grace_s: after so many seconds it is given up; one that works on nothing is closed also where none are left.

        Raises:
            ActorStuck: if it was given up.
            Exception: what its object's `close()` raised.
        """
        ...


class Executor(Protocol):
    """Starts actors in one way: in this process, on threads, on a cluster."""

    name: str

    def spawn(self, actor: Actor[Any], completions: Completions) -> RunningActor:
        """Begin to start an actor whose calls are announced to `completions`.

        Its placement is never `AUTO` here. An executor that brings a place of its own, `REMOTE`, hands the others to
        `rheos.executors.threads.ThreadsExecutor`.
        """
        ...

    def put(self, value: T) -> Shared[T]:
        """Send a value once, to be read by many."""
        ...

    def log_to(self, folder: Path) -> None:
        """Write what actors print into a file in this folder, where it would not reach the screen as print does."""
        ...

    def close(self) -> None:
        """Give back what the executor itself holds; its actors are closed before. Idempotent."""
        ...
