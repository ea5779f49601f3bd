"""Interruptions: a first signal asks the run to stop between two items, a second one raises."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interruptions"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruptions:
    """Holds off Ctrl-C and SIGTERM while a run is in the middle of an item; a context manager.

    The first signal sets `requested` and calls what `on_request` was given; the second raises `KeyboardInterrupt`
    where the program is. The handlers that were there before are put back at the end. Outside the main thread,
    where Python allows no handlers, nothing is held off.
    """

    def __init__(self) -> None:
        self.requested: str | None = None
        """The name of the signal that asked for a stop."""
        self._action: Callable[[], None] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def on_request(self, action: Callable[[], None]) -> None:
        """Call `action` at the first signal, from within its handler; at once, if there was one already."""
        self._action = action
        if self.requested is not None:
            action()

    def __enter__(self) -> Self:
        """Take over the signals."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Put back the handlers that were there before."""
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested is not None:
            raise KeyboardInterrupt
        self.requested = signal.Signals(number).name
        if self._action is not None:
            self._action()
