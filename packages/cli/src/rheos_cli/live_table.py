"""LiveTable: the newest measurements of a run, drawn for a terminal of 80 columns or of more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rheos.runs.status import RunState
from rheos.runs.totals import EPISODE_WINDOW, FIRST_COLUMNS
from rheos_cli.small_charts import Series, block_chart
from rheos_cli.time_left import TimeLeft

if TYPE_CHECKING:
    from rheos.configuration.run_config import StopConfig
    from rheos.runs.run import Run

__all__ = ["LiveTable"]

_WIDEST = 120
_CELL, _GAP = 36, 4
_CURVE_LINES, _MARK = 3, 10
_EVALUATION = frozenset({"eval_return_mean", "eval_return_std", "eval_length_mean"})
_CURVE = "cyan"


class _Cell(NamedTuple):
    """A number and what it is; `style` of the number."""

    label: str
    value: str
    style: str = "bold"


class LiveTable:
    """Takes in the rows of a run and draws them; what was measured stays until it is measured again.

    Args:
        run: the run; its configuration says what there is to be shown.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._newest: dict[str, float] = {}
        self._time_left = TimeLeft(run.config.stop)
        self._returns = Series()

    def update(self, row: Mapping[str, float]) -> None:
        """Take in a row of measurements."""
        self._newest = {**self._newest, **row}  # a new mapping: the thread of the display may be reading the old one
        self._time_left.update(row["env_steps"], row["wall_s"])
        if "episode_return_mean" in row and math.isfinite(row["episode_return_mean"]):
            self._returns.append(row["episode_return_mean"])

    def draw(self, width: int, height: int = 40) -> RenderableType:
        """Draw the table, as wide as the terminal, at most 120 columns.

        Args:
            width: of the terminal, in columns.
            height: of the terminal, in lines; the curve of the returns is left out where there is no room for it.
        """
        outer = min(width, _WIDEST)
        inner = outer - 4
        columns = max(1, (inner + _GAP) // (_CELL + _GAP))
        cell = (inner + _GAP) // columns - _GAP
        parts = self._progress(inner)
        if self._newest:
            learning = self._learning(columns, cell)
            room = height - len(parts) - len(learning) - 4  # the frame, an empty line, and what the terminal keeps
            parts += [Text(), *self._episodes_and_speed(inner, columns, cell, room), *learning]
        else:
            parts += [Text(), Text("waiting for the first rollouts", style="dim italic")]
        return Panel(Group(*parts), box=box.ROUNDED, border_style="dim", width=outer)

    def _progress(self, width: int) -> list[RenderableType]:
        """Draw the bar, how many steps of how many, and the time."""
        run, stop = self._run, self._run.config.stop
        wall_s = run.wall_s if run.status.state is RunState.RUNNING else run.status.wall_s
        steps = self._newest.get("env_steps", 0.0)
        left = self._time_left.at(wall_s)
        text = f"{steps:,.0f} env steps"
        if stop.env_steps is not None:
            goal = f"{stop.env_steps:,}"
            text = f"{steps:>{len(goal)},.0f} of {goal} env steps"
        elapsed = f"{_duration(wall_s)} elapsed"
        if left is not None:
            at_most = "at most " if stop.episode_return is not None else ""
            elapsed = f"{elapsed}, {at_most}{_duration(left)} left"
            if len(text) + len(elapsed) >= width:
                elapsed = f"{_duration(left)} left"
        times = _line(Text(text), Text(elapsed), width)
        fraction = _fraction(stop, steps, wall_s)
        if fraction is None:
            return [times]
        bar = Table.grid()  # a bar alone does not end its line
        bar.add_column(width=width - 6)
        bar.add_column(width=6, justify="right")
        bar.add_row(
            ProgressBar(total=1.0, completed=fraction, width=width - 6, complete_style=_CURVE, finished_style="green"),
            f"{fraction:.0%}",
        )
        return [bar, times]

    def _episodes_and_speed(self, width: int, columns: int, cell: int, room: int) -> list[Text]:
        """Draw the two groups beside each other, and the curve of the returns beside them, or below in that room."""
        episodes = [_heading("episodes"), *_cells(self._episodes(), cell)]
        speed = [_heading("speed"), *_cells(self._speed(), cell)]
        if columns >= 3:
            height = max(len(episodes), len(speed)) - 1
            rest = width - 2 * (cell + _GAP)
            return _beside([episodes, speed, [_heading("return"), *self._curve(rest, height)]], cell)
        lines = _beside([episodes, speed], cell) if columns == 2 else [*episodes, Text(), *speed]
        height = min(room - len(lines) - 2, _CURVE_LINES)
        return [*lines, Text(), _heading("return"), *self._curve(width, height)] if height > 0 else lines

    def _curve(self, width: int, height: int) -> list[Text]:
        """Draw the returns so far, as far as the run is, with the highest and the lowest of them at the right."""
        points = self._returns.points
        marks = [""] * height
        if points:
            marks[-1], marks[0] = _return(min(points)), _return(max(points))
        stop, newest = self._run.config.stop, self._newest
        fraction = _fraction(stop, newest["env_steps"], newest["wall_s"])
        filled = max(round((width - _MARK) * (1.0 if fraction is None else fraction)), 1)
        lines = [line.ljust(width - _MARK) for line in block_chart(points, filled, height)]
        return [
            Text.assemble((line, _CURVE), (f"{mark:>{_MARK}}", "dim")) for line, mark in zip(lines, marks, strict=True)
        ]

    def _episodes(self) -> list[_Cell]:
        row, config = self._newest, self._run.config
        cells = [_Cell(f"return (last {EPISODE_WINDOW})", _return(row.get("episode_return_mean")), "bold green")]
        if config.stop.episode_return is not None:
            cells.append(_Cell("stops at", _return(config.stop.episode_return)))
        if config.eval.every_steps is not None:
            spread = f" ± {_return(row['eval_return_std'])}" if "eval_return_std" in row else ""
            cells.append(_Cell("evaluation", f"{_return(row.get('eval_return_mean'))}{spread}", "bold green"))
        return [
            *cells,
            _Cell("length", _return(row.get("episode_length_mean"))),
            _Cell("count", f"{row.get('episodes', 0.0):,.0f}"),
        ]

    def _speed(self) -> list[_Cell]:
        row, run = self._newest, self._run
        cells = [
            _Cell("env steps/s", f"{row['env_steps_per_s']:,.0f}" if "env_steps_per_s" in row else "-"),
            _Cell("updates", f"{row.get('updates', 0.0):,.0f}"),
            *(_Cell(f"{role} busy", f"{share:.0%}") for role, share in run.busy.items()),
        ]
        if "lag_mean" in row:
            cells.append(_Cell("lag", f"{row['lag_mean']:.2f} (at most {row.get('lag_max', 0.0):.0f})"))
        if run.restarts:
            cells.append(_Cell("restarts", str(run.restarts), "bold red"))
        return cells

    def _learning(self, columns: int, cell: int) -> list[Text]:
        """Draw the metrics of the algorithm, by the names that metrics.csv has; nothing where there are none."""
        metrics = {name: value for name, value in self._newest.items() if name not in _OTHERS}
        if not metrics:
            return []
        cells = [
            _Cell(name, number(value), "bold" if math.isfinite(value) else "bold red")
            for name, value in metrics.items()
        ]
        rows = math.ceil(len(cells) / columns)
        groups = [_cells(cells[first : first + rows], cell) for first in range(0, len(cells), rows)]
        return [Text(), _heading("learning"), *_beside(groups, cell)]


_OTHERS = {*FIRST_COLUMNS, *_EVALUATION}


def number(value: float) -> str:
    """Return a number of any size in at most nine characters, as many digits as are of use.

    Example:
        >>> [number(value) for value in (12345.6, 462.61, 1.2345, -0.01234, 2.5e-4, 0.0, 3.2e12)]
        ['12,346', '462.6', '1.234', '-0.0123', '2.50e-04', '0.0000', '3.20e+12']
    """
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if size >= 1e7 or 0.0 < size < 1e-3:
        return f"{value:.2e}"
    return (
        f"{value:,.0f}"
        if size >= 1e4
        else f"{value:,.1f}"
        if size >= 10
        else f"{value:.3f}"
        if size >= 1
        else (f"{value:.4f}")
    )


def _return(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if abs(value) < 1e7 else f"{value:.2e}"


def _fraction(stop: StopConfig, steps: float, wall_s: float) -> float | None:
    """Return how far a run is, from 0 to 1; None where it stops at a return only."""
    parts = [steps / stop.env_steps] if stop.env_steps is not None else []
    if stop.seconds is not None:
        parts.append(wall_s / stop.seconds if stop.seconds else 1.0)
    return min(max(parts), 1.0) if parts else None


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _heading(text: str) -> Text:
    return Text(text, style=f"{_CURVE} bold")


def _cells(cells: Sequence[_Cell], width: int) -> list[Text]:
    """Draw a line for each number: what it is at the left, in full where there is room, the number at the right."""
    lines = []
    for cell in cells:
        label = Text(cell.label, style="dim")
        label.truncate(max(width - len(cell.value) - 1, 1), overflow="ellipsis")
        lines.append(_line(label, Text(cell.value, style=cell.style), width))
    return lines


def _line(left: Text, right: Text, width: int) -> Text:
    return Text.assemble(left, " " * max(width - left.cell_len - right.cell_len, 1), right)


def _beside(groups: Sequence[Sequence[Text]], width: int) -> list[Text]:
    """Join groups of lines into lines; each group is `width` wide, the last one as wide as it is."""
    lines = []
    for index in range(max(map(len, groups), default=0)):
        joined = Text()
        for column, group in enumerate(groups):
            part = group[index].copy() if index < len(group) else Text()
            if column < len(groups) - 1:
                part.pad_right(width - part.cell_len + _GAP)
            joined.append_text(part)
        lines.append(joined)
    return lines
