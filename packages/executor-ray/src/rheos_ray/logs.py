"""ActorLog: what actors print, in a file in place of the screen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from ray._private import ray_logging, worker

__all__ = ["ActorLog"]

_dispatcher: Any = ray_logging.global_worker_stdstream_dispatcher
_screen: Any = worker
"""Has the switch for what Ray prints of actors and nodes. Neither is public: no public way leads to these lines."""


class ActorLog:
    """Writes the lines that actors print into a file, each with the actor's name and its process.

    Ray brings them here from every node, some tenths of a second after they were printed.

    Args:
        path: of the file, made with the first line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._was_shown = _screen._worker_logs_enabled
        _screen._worker_logs_enabled = False
        _dispatcher.add_handler(self._name, self._write)

    @property
    def _name(self) -> str:
        return f"rheos-{id(self)}"

    def close(self) -> None:
        """Write no more. Idempotent."""
        _dispatcher.remove_handler(self._name)
        _screen._worker_logs_enabled = self._was_shown
        if self._file is not None:
            self._file.close()

    def _write(self, data: Mapping[str, Any]) -> None:
        """Take lines as Ray has them, in a thread of its own."""
        name = data.get("actor_name")
        if not name:  # of Ray's own processes
            return
        if self._file is None:
            self._file = self._path.open("a", encoding="utf-8")
        where = f" {data['ip']}" if data.get("ip") not in (None, data.get("localhost")) else ""
        self._file.writelines(f"{name} ({data.get('pid')}{where}) | {line}\n" for line in data.get("lines", ()))
        self._file.flush()
