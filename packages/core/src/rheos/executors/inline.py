"""The reference executor: every actor lives on the driver, in this thread, in a fixed order; a debugger works."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from rheos.executors.host import Host
from rheos.executors.protocol import NOTHING, Call, Completions, Control, LocalShared, Shared

if TYPE_CHECKING:
    from pathlib import Path

    from rheos.configuration.run_config import ExecutorConfig
    from rheos.streams.actors import Actor

__all__ = ["DriverActor", "InlineExecutor", "make_executor"]

__tracebackhide__ = True

T = TypeVar("T")


class DriverActor:
    """An actor on the driver: a call waits in the run's queue until the scheduler runs it."""

    def __init__(self, actor: Actor[Any], put: Callable[[Any], Shared[Any]], completions: Completions) -> None:
        self.name = actor.name
        self._host = Host(actor, put)
        self._completions = completions
        self._is_closed = False

    @property
    def alive(self) -> bool:
        """True until it is closed: it lives as long as the driver."""
        return not self._is_closed

    def wait_until_started(self, timeout_s: float | None = None) -> bool:
        """Return True: its object was made at once."""
        return True

    def call(self, method: str | Control, message: Any = NOTHING, through: tuple[str, ...] = ()) -> Call:
        """Queue a call for the driver."""
        call = Call(self.name, method, message, through)
        self._completions.later(call, self._host.execute)
        return call

    def restart(self, times: int) -> Call:
        """Queue the restart for the driver."""
        return self.call(Control.RESTART, times)

    def close(self, grace_s: float) -> None:
        """Close the actor's object once; that takes the time that it takes."""
        if not self._is_closed:
            self._is_closed = True
            self._host.close()


class InlineExecutor:
    """Runs everything on the driver; with a seed a whole run is the same, bit for bit."""

    name = "inline"

    def spawn(self, actor: Actor[Any], completions: Completions) -> DriverActor:
        """Make the actor's object here and now."""
        return DriverActor(actor, self.put, completions)

    def put(self, value: T) -> Shared[T]:
        """Keep the value as it is: everybody is in this process."""
        return LocalShared(value)

    def log_to(self, folder: Path) -> None:
        """Do nothing: what is printed in this process is seen."""

    def close(self) -> None:
        """Do nothing: nothing is held."""


def make_executor(config: ExecutorConfig) -> InlineExecutor:
    """Make the executor that the configuration names `inline`."""
    return InlineExecutor()
