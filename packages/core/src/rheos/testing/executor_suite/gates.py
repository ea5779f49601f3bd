"""How a test and its actors meet wherever the actors live on this machine: a gate to wait at, a diary to write into."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Diary", "Gate", "wait_at"]

_MANY = 1024


class Gate:
    """A place where actors wait until the test lets them through: a named pipe, of which each takes a byte.

    Args:
        path: where the pipe is made; actors get it as a string and `wait_at` it.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self._pipe: int | None = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # so that actors need not wait to open it

    def let_through(self, count: int) -> None:
        """Let so many calls through, now or when they come."""
        if self._pipe is not None:
            os.write(self._pipe, b"." * count)

    def open(self) -> None:
        """Let everybody through from now on. Idempotent."""
        if self._pipe is not None:
            self.let_through(_MANY)
            os.unlink(self.path)
            os.close(self._pipe)
            self._pipe = None


def wait_at(path: str) -> None:
    """Block until the gate lets one through."""
    try:
        pipe = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # it was opened for good
        return
    try:
        os.read(pipe, 1)
    finally:
        os.close(pipe)


@dataclass(frozen=True)
class Diary:
    """A file of lines that actors add to, each line at once."""

    path: str

    def write(self, line: str) -> None:
        """Add a line."""
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)

    def lines(self) -> list[str]:
        """Return the lines so far."""
        path = Path(self.path)
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
