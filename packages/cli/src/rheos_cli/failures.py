"""What the command line says of an error, and the exit code that it means."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from rheos.errors import RheosError, UsageError

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_USAGE", "is_out_of_memory", "largest_setting", "print_error"]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_OUT_OF_MEMORY = (
    "array is too big",  # NumPy: ValueError
    "maximum allowed dimension exceeded",  # NumPy: ValueError
    "python int too large to convert to c",  # NumPy: OverflowError
    "can't allocate memory",  # PyTorch on the CPU: RuntimeError
    "out of memory",  # PyTorch on a GPU: RuntimeError
)
"""How errors read that are no MemoryError, but mean one."""


def print_error(error: BaseException, prefix: str = "") -> int:
    """Print an error on stderr and return the exit code.

    Wrong input is one line; a failure that Rheos tells is a line and the notes that say where it happened; too
    little memory is one line; whatever else user code raised has its traceback.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    if isinstance(error, UsageError):
        _say(f"{prefix}{error}")
        return EXIT_USAGE
    if isinstance(error, RheosError):
        _say("\n  ".join([f"{prefix}{error}", *notes]))
    elif is_out_of_memory(error):
        _say(f"{prefix}not enough memory: {'; '.join(_lines(str(error), *notes))}")
    else:
        traceback.print_exception(error)
        _say(f"{prefix}{error!r}")
    return EXIT_FAILED


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether more memory was asked for than there is, whoever says so."""
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, ValueError | OverflowError | RuntimeError) and any(said in text for said in _OUT_OF_MEMORY)


def largest_setting(settings: Mapping[str, Any]) -> str:
    """Return the largest number in nested settings, as one would type it, or "" where there is none.

    Example:
        >>> largest_setting({"algo": {"name": "ppo", "rollout_steps": 1024, "hidden": [64, 64]}, "seed": 3})
        'algo.rollout_steps=1024'
    """
    key, value = max(_numbers("", settings), key=lambda item: item[1], default=("", 0))
    return f"{key}={value}" if key else ""


def _numbers(path: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _numbers(f"{path}.{name}" if path else str(name), item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _numbers(f"{path}[{index}]", item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, int(value) if float(value).is_integer() else value


def _lines(*texts: str) -> list[str]:
    """Return the first line of every text that has one."""
    return [text.splitlines()[0] for text in texts if text.strip()]


def _say(text: str) -> None:
    print(f"rheos: {text}", file=sys.stderr)
