"""A run that was cut goes on in its own folder, as if it had not been."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from rheos.plugins import hookimpl
from rheos.runs.status import RunState
from rheos.testing.toy import ToyLearner

RUN = Path("run")


def test_a_run_that_was_cut_ends_as_the_one_that_was_not(runs):
    uncut = runs.train("uncut")
    runs.cut()

    result = runs.resume()

    assert (RunState.DONE, uncut.weights_sha256) == (result.state, result.weights_sha256)
    assert (uncut.env_steps, uncut.updates, uncut.episodes) == (result.env_steps, result.updates, result.episodes)
    assert uncut.best_env_steps == result.best_env_steps
    assert runs.rows("uncut") == runs.rows()
    assert runs.saved("uncut") == runs.saved()


def test_a_run_that_is_done_does_more_with_a_larger_stop(runs):
    longer = runs.train("longer", stop=1200)
    runs.train(stop=600)

    result = runs.resume(stop={"env_steps": 1200})

    assert longer.weights_sha256 == result.weights_sha256
    assert runs.rows("longer") == runs.rows()
    assert "env_steps: 1200" in (RUN / "config.yaml").read_text()


def test_a_last_row_that_was_not_due_is_not_in_the_run_that_goes_on(runs):
    longer = runs.train("longer", stop=1200, every_steps=100)
    runs.train(stop=500, every_steps=100)  # rows are due at 200, 400, 600

    before = [int(row["env_steps"]) for row in runs.rows()]
    runs.resume(stop={"env_steps": 1200})

    assert [200, 400, 500] == before
    assert longer.episodes == 120
    assert runs.rows("longer") == runs.rows()


def test_it_can_be_cut_again_and_again(runs):
    uncut = runs.train("uncut", stop=2000)
    runs.cut(at=500, stop=2000)
    for at in (900, 1300, 1700):
        runs.cut_again(at=at)

    result = runs.resume()

    assert uncut.weights_sha256 == result.weights_sha256
    assert runs.rows("uncut") == runs.rows()


def test_what_the_run_left_after_the_checkpoint_is_cut_off(runs):
    runs.cut(at=800)
    left = [int(row["env_steps"]) for row in runs.rows()]
    with (RUN / "metrics.csv").open("a") as file:
        file.write("1000,1.0,half a ro")

    runs.resume()

    assert [200, 400, 600, 800] == left  # the newest checkpoint is of 600
    assert [200, 400, 600, 800, 1000] == [int(row["env_steps"]) for row in runs.rows()]


def test_columns_that_came_after_the_checkpoint_are_cut_off_with_their_rows(runs):
    runs.cut()
    with (RUN / "metrics.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    with (RUN / "metrics.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*header, "late"], *([*row, "1"] for row in rows)])

    runs.resume()

    assert "late" not in runs.rows()[-1]


def test_time_goes_on_where_it_was_and_the_status_says_what_goes_on(runs):
    seen = []

    class Witness:
        @hookimpl
        def rheos_run_started(self, run):
            seen.append((runs.status()["state"], run.resumed_at, run.wall_s, run.totals.env_steps))

    runs.train(stop=600)
    with (RUN / "metrics.csv").open(newline="") as file:
        before = float(list(csv.DictReader(file))[-1]["wall_s"])

    runs.resume(stop={"env_steps": 900}, observers=[Witness()])

    ((state, resumed_at, wall_s, env_steps),) = seen
    assert ("running", 600, 600) == (state, resumed_at, env_steps)
    assert wall_s >= before > 0
    assert runs.status()["wall_s"] >= wall_s


def test_loggers_are_told_where_they_go_on(runs, registry_with_logger):
    told = []

    class Logger:
        def __init__(self, run_dir):
            self.log = lambda env_steps, row: told.append(env_steps)

        def resume(self, env_steps):
            told.append(f"resumed at {env_steps}")

        def flush(self):
            told.append("flushed")

        def close(self):
            told.append("closed")

    runs.cut()

    runs.resume(logger={"names": ["spied"]}, registry=registry_with_logger(Logger))

    assert ["resumed at 600", 800, "flushed", 1000, "flushed", "closed"] == told


def test_evaluations_go_on_as_in_the_run_that_was_not_cut(runs):
    evaluation = {"every_steps": 250, "episodes": 2}
    uncut = runs.train("uncut", eval=evaluation)
    runs.cut(eval=evaluation)

    result = runs.resume()

    assert uncut.best_env_steps == result.best_env_steps
    assert runs.rows("uncut") == runs.rows()
    assert runs.saved("uncut") == runs.saved()


def test_another_rhythm_of_evaluations_and_checkpoints_counts_from_here(runs):
    runs.train(stop=600)

    runs.resume(stop={"env_steps": 1200}, checkpoint={"every_steps": 500}, eval={"every_steps": 400, "episodes": 1})

    evaluated = [int(row["env_steps"]) for row in runs.rows() if row["eval_return_mean"]]
    assert [800, 1200] == evaluated
    assert {600, 1000, 1200} <= set(runs.saved())


def test_each_part_of_a_run_has_a_trace_of_its_own(runs):
    runs.train(stop=300, trace=True)
    before = (RUN / "trace.json").read_bytes()

    runs.resume(stop={"env_steps": 600})

    assert before == (RUN / "trace.json").read_bytes()
    assert json.loads((RUN / "trace-300.json").read_text())


def test_a_resumed_run_that_fails_at_once_can_be_resumed_again(runs, monkeypatch):
    uncut = runs.train("uncut")
    runs.cut()
    with monkeypatch.context() as patched:
        patched.setattr(ToyLearner, "load_state_dict", lambda self, state: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runs.resume()

    assert "failed" == runs.status()["state"]
    assert uncut.weights_sha256 == runs.resume().weights_sha256
