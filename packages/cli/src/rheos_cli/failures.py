"""What the command line says of an error, and the exit code that it means."""

from __future__ import annotations

import sys
import traceback

from rheos.errors import RheosError, UsageError

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_USAGE", "print_error"]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def print_error(error: BaseException, prefix: str = "") -> int:
    """Print an error on stderr and return the exit code.

    Wrong input is one line. A failure that Rheos tells is a line and the notes that say where it happened, below the
    traceback of what user code raised to cause it. Too little memory is one line. Whatever else user code raised has
    its traceback.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    if isinstance(error, UsageError):
        _say(f"{prefix}{error}")
        return EXIT_USAGE
    if isinstance(error, RheosError):
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        _say("\n  ".join([f"{prefix}{error}", *notes]))
    elif isinstance(error, MemoryError):
        _say(f"{prefix}not enough memory: {'; '.join(_lines(str(error), *notes))}")
    else:
        traceback.print_exception(error)
        _say(f"{prefix}{error!r}")
    return EXIT_FAILED


def _lines(*texts: str) -> list[str]:
    """Return the first line of every text that has one."""
    return [text.splitlines()[0] for text in texts if text.strip()]


def _say(text: str) -> None:
    print(f"rheos: {text}", file=sys.stderr)
