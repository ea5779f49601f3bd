"""Progress: how a run is getting on, on the terminal, and at its end where it lies and what to type next."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rheos.plugins import hookimpl
from rheos.runs.status import RunState
from rheos.runs.totals import EPISODE_WINDOW, FIRST_COLUMNS

if TYPE_CHECKING:
    from rheos.runs.run import Run

__all__ = ["Progress"]

_LINE_EVERY_S = 5.0


class _LastingConsole(Console):
    """A console whose reader may go away (`rheos train ... | head`): it falls silent, and the run goes on."""

    def on_broken_pipe(self) -> None:
        """Write nothing more, where rich would end the program."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Progress:
    """Observes a run for a person: a live table on a terminal, else a line every five seconds.

    Args:
        console: where to write; standard output by default.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console if console is not None else _LastingConsole(highlight=False)
        self._live: Live | None = None
        self._row: Mapping[str, float] = {}
        self._line_due_at = 0.0

    @hookimpl
    def rheos_run_started(self, run: Run) -> None:
        """Say what begins and where it goes."""
        self._print(_headline(run), style="bold")
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, get_renderable=lambda: self._table(run), refresh_per_second=4, transient=True
            )
            self._live.start()

    @hookimpl
    def rheos_report(self, run: Run, row: Mapping[str, float]) -> None:
        """Show a row of measurements: in the table, or as a line where one is due."""
        self._row = row
        if self._live is None and time.perf_counter() >= self._line_due_at:
            self._line_due_at = time.perf_counter() + _LINE_EVERY_S
            self._print(_line(row))

    @hookimpl
    def rheos_run_ended(self, run: Run) -> None:
        """Say how it ended, where everything is, and what to type next."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if not run.folder.status_path.exists():
            return  # it never began: the error says why
        self._print(_outcome(run))
        self._print(_next_steps(run))

    def _print(self, text: str, style: str | None = None) -> None:
        # soft_wrap: a path must stay in one piece to be copied
        self._console.print(text, style=style, markup=False, soft_wrap=True)

    def _table(self, run: Run) -> RenderableType:
        """Draw what the last row says; called from the thread of the display, so it reads no totals."""
        row, goal = self._row, run.config.stop.env_steps
        steps = row.get("env_steps", 0.0)
        numbers = Table.grid(padding=(0, 2))
        numbers.add_column(style="dim")
        numbers.add_column(justify="right")
        numbers.add_row("env steps", f"{steps:,.0f}" + (f" of {goal:,}" if goal else ""))
        numbers.add_row("time", f"{run.wall_s:.0f} s")
        for label, column, form in _SHOWN:
            if column in row:
                numbers.add_row(label, format(row[column], form))
        for name, value in row.items():
            if name not in FIRST_COLUMNS:
                numbers.add_row(name, f"{value:.4g}")
        if not row:
            return Group(numbers, Text("waiting for the first rollouts", style="dim"))
        if goal is None:
            return numbers
        both = Table.grid()  # a bar alone does not end its line
        both.add_row(ProgressBar(total=goal, completed=min(steps, goal), width=40))
        both.add_row(numbers)
        return both


_SHOWN = (
    (f"return (last {EPISODE_WINDOW})", "episode_return_mean", ".1f"),
    ("episode length", "episode_length_mean", ".1f"),
    ("env steps/s", "env_steps_per_s", ",.0f"),
    ("updates", "updates", ",.0f"),
    ("lag", "lag_mean", ".2f"),
)


def _headline(run: Run) -> str:
    config = run.config
    environment = getattr(config.env, "id", config.env.name)
    return f"{config.algo_name} on {environment}, seed {config.seed} -> {run.folder.path}"


def _line(row: Mapping[str, float]) -> str:
    parts = [f"{row['env_steps']:>11,.0f} env steps"]
    if "episode_return_mean" in row:
        parts.append(f"return {row['episode_return_mean']:8.1f}")
    if "env_steps_per_s" in row:
        parts.append(f"{row['env_steps_per_s']:>8,.0f} steps/s")
    return "  ".join([*parts, f"{row['wall_s']:.1f} s"])


def _outcome(run: Run) -> str:
    status = run.status
    at = f"at {status.env_steps:,} env steps ({status.wall_s:.1f} s)"
    mean = status.episode_return_mean
    result = "no episode ended" if mean is None else f"mean return {mean:.1f} over {_episodes(status.episodes)}"
    if status.state is RunState.FAILED:
        return f"Failed {at}: {status.reason}"
    if status.state is RunState.INTERRUPTED:
        return f"Interrupted {at}: {result}."
    goal = run.config.stop.episode_return
    if goal is not None and run.totals.has_full_window and mean is not None and mean >= goal:
        return f"Solved: {result} {at}."
    return f"Done: {result} {at}; {status.reason}."


def _episodes(count: int) -> str:
    if count >= EPISODE_WINDOW:
        return f"the last {EPISODE_WINDOW} episodes"
    return "1 episode" if count == 1 else f"{count} episodes"


def _next_steps(run: Run) -> str:
    folder = run.folder
    parts = [f"Run: {folder.path}"]
    if folder.plot_path.exists():
        parts.append(f"plot: {folder.plot_path}")
    if run.status.weights_sha256 is not None:
        parts.append(f"next: rheos eval {shlex.quote(str(folder.path))}")
    return "  ".join(parts)
