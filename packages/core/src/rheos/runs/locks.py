"""RunLock: at most one process writes a run folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from rheos.errors import RunFolderError

__all__ = ["RunLock"]

_HELD: set[Path] = set()
"""What this process holds: the system's lock is between processes only."""


class RunLock:
    """Holds the lock file of a run folder; a context manager.

    The lock is the system's (`lockf`), so it ends with its process, however that ends, is not passed on to forked
    environments, and holds on a network file system, too. Where the system has none, only this process is locked out.

    Args:
        path: of the file. It names the process and stays when the lock ends, for then it says nothing.

    Raises:
        RunFolderError: on entering, if it is held already; says by which process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        """Take the lock."""
        path = self._path.resolve()
        if path in _HELD:
            raise RunFolderError(f"{self._path.parent} is being written by a run of this very process.")
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise RunFolderError(f"{self._path.parent} cannot be written: {error.strerror}.") from error
        _HELD.add(path)
        try:
            _lock(self._descriptor)
        except OSError as error:
            holder = os.read(self._descriptor, 200).decode(errors="replace").strip()
            self._give_up()
            raise RunFolderError(
                f"{self._path.parent} is being written by {holder or 'another process'}: let it end, or stop it first."
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the lock back."""
        self._give_up()

    def _give_up(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _HELD.discard(self._path.resolve())


def _no_lock(descriptor: int) -> None:
    """Do nothing: this system has no such lock."""


def _system_lock() -> Callable[[int], None]:
    try:
        import fcntl
    except ImportError:
        return _no_lock
    return lambda descriptor: fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_lock = _system_lock()
