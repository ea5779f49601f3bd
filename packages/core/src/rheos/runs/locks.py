"""RunLock: at most one process writes a run folder."""

from __future__ import annotations

import errno
import os
import socket
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from rheos.errors import RheosWarning, RunFolderError
from rheos.runs.endings import on_failure

__all__ = ["RunLock"]

_HELD: set[Path] = set()
"""What this process holds: the system's lock is between processes only."""
_GUARD = threading.Lock()
"""Held while that is looked at or changed."""


class RunLock:
    """Holds the lock file of a run folder; a context manager.

    The lock is the system's (`lockf`), so it ends with its process, however that ends, is not passed on to forked
    environments, and holds on a network file system, too. Where there is none, only this process is locked out; of a
    file system that has none, that is warned of.

    Args:
        path: of the file. It names the process and stays when the lock ends, for then it says nothing.

    Raises:
        RunFolderError: on entering, if it is held already; says by which process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = path.resolve()
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        """Take the lock."""
        with _GUARD:
            if self._key in _HELD:
                raise RunFolderError(f"{self._path.parent} is being written by a run of this very process.")
            _HELD.add(
                self._key
            )  # before the file is opened: the system's lock ends when any descriptor of it is closed
        with on_failure(self._give_up):
            try:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise RunFolderError(f"{self._path.parent} cannot be written: {error.strerror}.") from error
            self._lock(self._descriptor)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the lock back."""
        self._give_up()

    def _lock(self, descriptor: int) -> None:
        try:
            _lock(descriptor)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
                raise RunFolderError(
                    f"{self._path.parent} is being written by {holder}: let it end, or stop it first."
                ) from error
            text = f"{self._path} cannot be locked: {error.strerror}. See that no other process writes this run."
            warnings.warn(text, RheosWarning, stacklevel=4)

    def _give_up(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        with _GUARD:
            _HELD.discard(self._key)


def _no_lock(descriptor: int) -> None:
    """Do nothing: this system has no such lock."""


def _system_lock() -> Callable[[int], None]:
    try:
        import fcntl
    except ImportError:
        return _no_lock
    return lambda descriptor: fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_lock = _system_lock()
