"""Progress: how a run is getting on, and at its end where it lies: a table on a terminal, else a line now and then."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from rheos.plugins.hooks import hookimpl
from rheos_cli.wording import headline, line_of, next_steps, outcome

if TYPE_CHECKING:
    from rheos.runs.run import Run

__all__ = ["PlainProgress", "make_progress"]

_LINE_EVERY_S = 5.0


def make_progress(*, is_plain: bool = False) -> object:
    """Return an observer that shows runs on standard output: as a live table where that is a terminal.

    Args:
        is_plain: whether to print lines there, too.
    """
    if is_plain or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return PlainProgress()
    from rheos_cli.live_progress import LiveProgress

    return LiveProgress()


class PlainProgress:
    """Observes a run: prints a line every five seconds, and one for every evaluation.

    Args:
        output: where to print; standard output by default. Its reader may go away (`rheos train ... | head`): then
            nothing more is printed, and the run goes on.
    """

    def __init__(self, output: TextIO | None = None) -> None:
        self._output = output
        self._line_due_at = 0.0

    @hookimpl
    def rheos_run_started(self, run: Run) -> None:
        """Say what begins and where it goes."""
        self._line_due_at = 0.0
        self._print(headline(run))

    @hookimpl
    def rheos_report(self, row: Mapping[str, float]) -> None:
        """Print a row of measurements, where a line is due or the run was evaluated."""
        if time.perf_counter() >= self._line_due_at or "eval_return_mean" in row:
            self._line_due_at = time.perf_counter() + _LINE_EVERY_S
            self._print(line_of(row))

    @hookimpl
    def rheos_run_ended(self, run: Run) -> None:
        """Say how it ended, where everything is, and what to type next, unless it never began."""
        if run.folder.status_path.exists():
            self._print(outcome(run))
            self._print(next_steps(run))

    def _print(self, text: str) -> None:
        output = sys.stdout if self._output is None else self._output
        try:
            print(text, file=output, flush=True)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
