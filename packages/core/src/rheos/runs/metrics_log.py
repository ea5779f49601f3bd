"""MetricsLog: metrics.csv, a row of measurements each, under a header that stays right."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rheos.errors import RunFolderError
from rheos.runs.files import write_atomically
from rheos.runs.totals import FIRST_COLUMNS

__all__ = ["LogPosition", "MetricsLog", "read_metrics", "refuse_shortened"]


@dataclass(frozen=True)
class LogPosition:
    """How far a log is written: its columns, and how many rows."""

    columns: tuple[str, ...]
    rows: int


class MetricsLog:
    """Writes metrics.csv; each row is on the disk's side of the process once `write` returns.

    A metric that appears late gets a column at the right end: the file is then written anew, atomically, with
    empty cells above. That costs a pass over the file, once a name. An empty cell means: not measured.

    Args:
        path: of the file.
        position: where a log goes on that is there already; what was written after it is cut off. None begins one.

    Raises:
        RunFolderError: if what is there does not reach so far.
    """

    def __init__(self, path: Path, position: LogPosition | None = None) -> None:
        self._path = path
        self._columns: list[str] = list(FIRST_COLUMNS)
        self._rows = 0
        if position is None:
            path.write_text(_csv_line(self._columns))
        else:
            self._columns, self._rows = list(position.columns), position.rows
            _cut(path, position)
        self._file = path.open("a", newline="")

    @property
    def position(self) -> LogPosition:
        """How far it is written."""
        return LogPosition(tuple(self._columns), self._rows)

    def sync(self) -> None:
        """Wait until what was written is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def write(self, row: Mapping[str, float | None]) -> None:
        """Append a row; names that are new become columns."""
        new = [name for name in row if name not in self._columns]
        if new:
            self._add_columns(new)
        self._file.write(_csv_line([_cell(row.get(name)) for name in self._columns]))
        self._file.flush()
        self._rows += 1

    def close(self) -> None:
        """Close the file; writing nothing more."""
        self._file.close()

    def _add_columns(self, names: list[str]) -> None:
        self._file.close()
        with self._path.open(newline="") as file:
            _, *rows = csv.reader(file)
        self._columns.extend(names)
        widened = [self._columns, *(row + [""] * len(names) for row in rows)]
        write_atomically(self._path, "".join(_csv_line(row) for row in widened))
        self._file = self._path.open("a", newline="")


def read_metrics(path: Path) -> dict[str, list[float | None]]:
    """Return the columns of a metrics.csv by name; None for an empty cell.

    A last line that is still being written is left out, so that a running run can be read.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if a cell is no number, or a row has more or fewer cells than the header.
    """
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    try:
        header, *rows = csv.reader(io.StringIO(whole)) if whole else [[]]
    except csv.Error as error:
        raise ValueError(f"{path.name}: {error}") from error
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise ValueError(f"{path.name}: row {number} has {len(row)} cells, the header has {len(header)}")
    return {name: [float(row[column]) if row[column] else None for row in rows] for column, name in enumerate(header)}


def refuse_shortened(path: Path, position: LogPosition) -> None:
    """Refuse to go on with a metrics.csv that does not reach so far.

    Raises:
        RunFolderError: says what is there and what should be.
    """
    _rows_up_to(path, position)


def _cut(path: Path, position: LogPosition) -> None:
    """Keep the rows and columns up to a position."""
    write_atomically(path, "".join(_csv_line(row) for row in _rows_up_to(path, position)))


def _rows_up_to(path: Path, position: LogPosition) -> list[list[str]]:
    """Return the rows and columns up to a position; a last line that was being written is no row."""
    try:
        text = path.read_text()
        header, *rows = csv.reader(io.StringIO(text[: text.rfind("\n") + 1]))
    except (OSError, ValueError, csv.Error) as error:
        raise RunFolderError(f"{path} cannot be read: {error}.") from error
    count = len(position.columns)
    if tuple(header[:count]) != position.columns or len(rows) < position.rows:
        raise RunFolderError(
            f"{path} has {len(rows)} rows under {', '.join(header)}, expected at least the {position.rows} that were "
            f"there when the checkpoint was saved, under {', '.join(position.columns)}: put the file back as it was."
        )
    return [row[:count] for row in (header, *rows[: position.rows])]


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, int) else repr(float(value))  # float(): NumPy's repr names its type


def _csv_line(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
