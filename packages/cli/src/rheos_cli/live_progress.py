"""LiveProgress: a table on the terminal that follows a run, and stays there when it has ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live

from rheos.plugins.hooks import hookimpl
from rheos_cli.live_table import LiveTable
from rheos_cli.wording import headline, next_steps, outcome

if TYPE_CHECKING:
    from rheos.runs.run import Run

__all__ = ["LiveProgress"]

_DRAWN_PER_SECOND = 2


class _LastingConsole(Console):
    """A console whose reader may go away: it falls silent, and the run goes on."""

    def on_broken_pipe(self) -> None:
        """Write nothing more, where rich would end the program."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class LiveProgress:
    """Observes runs for a person at a terminal.

    Args:
        console: where to write; standard output by default.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console if console is not None else _LastingConsole(highlight=False)
        self._live: Live | None = None
        self._table: LiveTable | None = None

    @hookimpl
    def rheos_run_started(self, run: Run) -> None:
        """Say what begins and where it goes, and show the table."""
        self._print(headline(run), style="bold")
        table = self._table = LiveTable(run)
        self._live = Live(
            console=self._console,
            get_renderable=lambda: table.draw(*self._console.size),
            refresh_per_second=_DRAWN_PER_SECOND,
        )
        self._live.start()

    @hookimpl
    def rheos_report(self, row: Mapping[str, float]) -> None:
        """Show a row of measurements; the table is drawn by a thread of its own, which reads no totals."""
        if self._table is not None:
            self._table.update(row)

    @hookimpl
    def rheos_run_ended(self, run: Run) -> None:
        """Leave the table as it is, and say how the run ended, where everything is, and what to type next."""
        if self._live is not None:
            self._live.transient = not run.totals.has_reports
            self._live.stop()
        self._live = self._table = None
        if run.folder.status_path.exists():  # else it never began: the error says why
            self._print(outcome(run))
            self._print(next_steps(run))

    def _print(self, text: str, style: str | None = None) -> None:
        # soft_wrap: a path must stay in one piece to be copied
        self._console.print(text, style=style, markup=False, soft_wrap=True)
