"""metrics.csv: every cell stands under its name, also when a metric appears late."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from rheos.runs.metrics_log import MetricsLog, read_metrics
from rheos.runs.totals import FIRST_COLUMNS


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.csv"


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_promised_columns_come_first_and_are_there_before_any_row(path):
    MetricsLog(path).close()

    header = path.read_text().strip().split(",")

    assert ["env_steps", "wall_s", "episode_return_mean", "episode_length_mean", "env_steps_per_s"] == header[:5]
    assert list(FIRST_COLUMNS) == header


def test_a_metric_that_appears_late_gets_a_column_and_the_rows_above_stay_right(path):
    log = MetricsLog(path)

    log.write({"env_steps": 1, "loss": 0.5})
    log.write({"env_steps": 2, "entropy": 0.25, "loss": None})
    log.write({"env_steps": 3, "entropy": 0.125, "loss": 0.75})
    log.close()

    cells = [(row["env_steps"], row["loss"], row["entropy"]) for row in rows_of(path)]
    assert [("1", "0.5", ""), ("2", "", "0.25"), ("3", "0.75", "0.125")] == cells
    assert all(None not in row and None not in row.values() for row in rows_of(path))


def test_a_name_with_a_comma_keeps_its_column(path):
    log = MetricsLog(path)

    log.write({"env_steps": 1, 'loss, "clipped"': 0.5})
    log.write({"env_steps": 2, "other": 1.0})
    log.close()

    assert "0.5" == rows_of(path)[0]['loss, "clipped"']


def test_each_row_can_be_read_at_once(path):
    log = MetricsLog(path)

    log.write({"env_steps": 1})

    assert ["1"] == [row["env_steps"] for row in rows_of(path)]
    log.close()


def test_numbers_come_back_with_all_their_digits(path):
    log = MetricsLog(path)
    log.write({"env_steps": 3, "loss": 0.1 + 0.2, "norm": np.float64(1 / 3), "entropy": float("nan")})
    log.close()

    columns = read_metrics(path)

    assert ([3.0], [0.1 + 0.2], [1 / 3]) == (columns["env_steps"], columns["loss"], columns["norm"])
    assert np.isnan(columns["entropy"][0])
    assert [None] == columns["wall_s"]


def test_a_line_that_is_still_being_written_is_left_out(path):
    path.write_text("env_steps,loss\n1,0.5\n2,0.")

    assert {"env_steps": [1.0], "loss": [0.5]} == read_metrics(path)


@pytest.mark.parametrize("line", ["2", "2,0.5,7", "", '"2,0.5'])
def test_a_row_that_does_not_fit_the_header_is_refused_by_its_number(path, line):
    path.write_text(f"env_steps,loss\n1,0.5\n{line}\n")

    with pytest.raises(ValueError, match=r"metrics\.csv: row 2 has \d cells, the header has 2"):
        read_metrics(path)


def test_an_empty_file_has_no_columns(path):
    path.write_text("")

    assert {} == read_metrics(path)
