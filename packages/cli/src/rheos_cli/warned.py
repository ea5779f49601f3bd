"""Warnings on the command line: ours are one line, as errors are; a library's stay as they are."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rheos.errors import RheosWarning

__all__ = ["warnings_in_one_line"]


@contextmanager
def warnings_in_one_line(*, is_quiet: bool = False) -> Iterator[None]:
    """Print every `RheosWarning` as `rheos: warning: ...` on stderr, once each, until the block ends.

    Args:
        is_quiet: whether to leave them out.
    """
    show = warnings.showwarning

    def show_in_one_line(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, RheosWarning):
            show(message, category, filename, lineno, file, line)
        elif not is_quiet:
            print(f"rheos: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():  # it puts back showwarning, too
        warnings.simplefilter("default", RheosWarning)
        warnings.showwarning = show_in_one_line
        yield
