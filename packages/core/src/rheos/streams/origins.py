"""Where a stage was written: the first frame of the caller that is not ours."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import PurePath

__all__ = ["Origin", "caller"]

__tracebackhide__ = True


@dataclass(frozen=True)
class Origin:
    """A file and a line."""

    file: str
    line: int

    def __str__(self) -> str:
        """Return the short form that error notes use, `flow.py:27`."""
        return f"{PurePath(self.file).name}:{self.line}"


def caller() -> Origin:
    """Return the line that is being executed in the nearest frame whose module does not hide its frames.

    A module hides its frames by a global `__tracebackhide__ = True`, pytest's convention.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__tracebackhide__"):
        frame = frame.f_back
    return Origin(frame.f_code.co_filename, frame.f_lineno)
