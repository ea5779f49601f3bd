"""Executors for tests: one whose calls finish when the test says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from rheos.executors.host import Host
from rheos.executors.protocol import NOTHING, Call, Completions, Control, LocalShared, Shared
from rheos.streams.actors import Actor

__all__ = ["ManualActor", "ManualExecutor"]

__tracebackhide__ = True

T = TypeVar("T")


class ManualActor:
    """An actor whose calls wait until the test finishes them."""

    def __init__(self, host: Host, completions: Completions) -> None:
        self.name = host.name
        self.waiting: list[Call] = []
        """The calls that were sent and have not finished, in order."""
        self.is_closed = False
        self._host = host
        self._completions = completions

    def call(self, method: str | Control, message: Any = NOTHING, through: tuple[str, ...] = ()) -> Call:
        """Let the call wait."""
        call = Call(self.name, method, message, through)
        self.waiting.append(call)
        return call

    def finish(self, count: int = 1) -> None:
        """Run the next calls and announce them."""
        for _ in range(count):
            call = self.waiting.pop(0)
            self._host.execute(call)
            self._completions.announce(call)

    @property
    def alive(self) -> bool:
        """True until it is closed."""
        return not self.is_closed

    def wait_until_started(self, timeout_s: float | None = None) -> bool:
        """Return True: its object was made at once."""
        return True

    def restart(self, times: int) -> Call:
        """Let the restart wait, like any call."""
        return self.call(Control.RESTART, times)

    def close(self, grace_s: float) -> None:
        """Close the actor's object once."""
        if not self.is_closed:
            self.is_closed = True
            self._host.close()


class ManualExecutor:
    """Finishes a call only when the test says so, from any thread: for tests of order, bounds and waiting.

    Example:
        >>> from rheos import from_items, run
        >>> from rheos.errors import FlowTimeout
        >>> from rheos.testing.fakes import fake_actor
        >>> manual, actor = ManualExecutor(), fake_actor("list", [7])
        >>> flow = run(from_items([7]).ask(actor, list.count), manual)
        >>> try:
        ...     flow.next(timeout_s=0)
        ... except FlowTimeout:
        ...     manual.actors["list"].finish()
        >>> flow.next()
        1
    """

    name = "manual"

    def __init__(self) -> None:
        self.actors: dict[str, ManualActor] = {}
        """The actors by name, in the order in which they were started."""

    def spawn(self, actor: Actor[Any], completions: Completions) -> ManualActor:
        """Make the actor's object here and now."""
        running = self.actors[actor.name] = ManualActor(Host(actor, self.put), completions)
        return running

    def put(self, value: T) -> Shared[T]:
        """Keep the value as it is."""
        return LocalShared(value)

    def log_to(self, folder: Path) -> None:
        """Do nothing: what is printed in this process is seen."""

    def close(self) -> None:
        """Do nothing: nothing is held."""
