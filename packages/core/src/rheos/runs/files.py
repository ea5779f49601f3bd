"""Files that are whole or not there: a temporary name, synced, renamed."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["sync_directory", "sync_file", "write_atomically", "write_synced"]


def write_atomically(path: Path, data: str | bytes) -> None:
    """Replace a file so that a reader sees the old content or the new one, never a part, even after a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write_synced(temporary, data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_synced(path: Path, data: str | bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk; does nothing where directories cannot be opened."""
    if os.name == "posix":
        sync_file(path)


def sync_file(path: Path) -> None:
    """Wait until what is in a file is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
