"""Trace: what every actor did and when, as a file that Perfetto and Chrome can show, a lane for each actor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rheos.executors.protocol import Call

__all__ = ["Trace"]

_DRIVER = "driver"


class Trace:
    """Writes events in the Trace Event Format as they come; what is there can be shown also if the run never ends.

    Open the file at https://ui.perfetto.dev, or at chrome://tracing. Times are in microseconds since the trace began.

    Args:
        path: the file; what was there is replaced.
        began_at: by `time.perf_counter`.
    """

    def __init__(self, path: Path, began_at: float) -> None:
        self._began_at = began_at
        self._lanes: dict[str, int] = {}
        self._file = path.open("w", encoding="utf-8")
        self._separator = "["
        self._lane(_DRIVER)

    def add_call(self, call: Call) -> None:
        """Take in a call that has finished."""
        if call.ended_at <= 0.0:  # it never ran
            return
        method = call.method if isinstance(call.method, str) else call.method.value
        self._add(self._lane(call.actor), method, call.began_at, call.ended_at, failed=call.error is not None)

    def add_wait(self, began_at: float, ended_at: float) -> None:
        """Take in a time in which the driver waited; the rest of its lane is work."""
        self._add(self._lane(_DRIVER), "wait", began_at, ended_at, failed=False)

    def close(self) -> None:
        """End the file. Idempotent."""
        if not self._file.closed:
            self._file.write("\n]\n")
            self._file.close()

    def _lane(self, name: str) -> int:
        if name not in self._lanes:
            self._lanes[name] = len(self._lanes)
            event = {"name": "thread_name", "ph": "M", "pid": 1, "tid": self._lanes[name], "args": {"name": name}}
            self._write(event)
        return self._lanes[name]

    def _add(self, lane: int, name: str, began_at: float, ended_at: float, *, failed: bool) -> None:
        event: dict[str, object] = {
            "name": name,
            "ph": "X",
            "pid": 1,
            "tid": lane,
            "ts": round(1e6 * (began_at - self._began_at), 3),
            "dur": round(1e6 * (ended_at - began_at), 3),
        }
        if failed:
            event["args"] = {"failed": True}
        self._write(event)

    def _write(self, event: dict[str, object]) -> None:
        self._file.write(f"{self._separator}\n{json.dumps(event)}")
        self._separator = ","
