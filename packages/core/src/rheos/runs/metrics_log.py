"""MetricsLog: metrics.csv, a row of measurements each, under a header that stays right."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from rheos.runs.files import write_atomically
from rheos.runs.totals import FIRST_COLUMNS

__all__ = ["MetricsLog", "read_metrics"]


class MetricsLog:
    """Writes metrics.csv; each row is on the disk's side of the process once `write` returns.

    A metric that appears late gets a column at the right end: the file is then written anew, atomically, with
    empty cells above. That costs a pass over the file, once a name. An empty cell means: not measured.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns: list[str] = list(FIRST_COLUMNS)
        path.write_text(_csv_line(self._columns))
        self._file = path.open("a", newline="")

    def write(self, row: Mapping[str, float | None]) -> None:
        """Append a row; names that are new become columns."""
        new = [name for name in row if name not in self._columns]
        if new:
            self._add_columns(new)
        self._file.write(_csv_line([_cell(row.get(name)) for name in self._columns]))
        self._file.flush()

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


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, int) else repr(float(value))  # float(): NumPy's repr names its type


def _csv_line(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
