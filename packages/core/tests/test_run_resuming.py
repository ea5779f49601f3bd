"""A run that was cut goes on in its own folder, as if it had not been, or says in one line why it cannot."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from dataclasses import replace
from functools import wraps
from pathlib import Path

import numpy as np
import pytest

from rheos.errors import ConfigError, RheosError, RheosWarning, RunFolderError, TreeError
from rheos.plugins import hookimpl
from rheos.runs import locks
from rheos.runs.changes import changed_settings, learned_otherwise
from rheos.runs.checkpoints import load_checkpoint
from rheos.runs.flow_state import FlowState, NoState
from rheos.runs.folder import RunFolder
from rheos.runs.locks import RunLock
from rheos.runs.resuming import resume
from rheos.runs.status import RunState
from rheos.runs.training import train
from rheos.streams.stream import from_items
from rheos.testing import toy as toy_module
from rheos.testing.toy import ToyLearner, ToyWorker, toy_registry

RUN = Path("run")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def toy(run_dir=RUN, *, stop=1000, every_steps=300, observers=(), algo=None, **settings):
    """Train the toy, 100 env steps a round."""
    return train(
        {"name": "toy", **(algo or {})},
        env="CartPole-v1",
        backend="toy",
        run_dir=run_dir,
        stop={"env_steps": stop},
        checkpoint={"every_steps": every_steps},
        logger={"every_steps": 200},
        observers=observers,
        registry=toy_registry(),
        **settings,
    )


def resumed(run_dir=RUN, **changes):
    return resume(run_dir, registry=toy_registry(), **changes)


def cut(run_dir=RUN, *, at=750, **settings):
    """Train the toy until something raises; the newest checkpoint is from before that."""
    with pytest.raises(ZeroDivisionError):
        toy(run_dir, observers=[Failing(at)], **settings)


class Failing:
    """Raises at a row."""

    def __init__(self, at):
        self._at = at

    @hookimpl
    def rheos_report(self, row):
        if row["env_steps"] >= self._at:
            raise ZeroDivisionError


def untimed_rows(run_dir):
    with (run_dir / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: cell for name, cell in row.items() if name not in ("wall_s", "env_steps_per_s")} for row in rows]


def saved_in(run_dir):
    return sorted(int(path.name) for path in (run_dir / "checkpoints").iterdir())


def status_of(run_dir):
    return json.loads((run_dir / "status.json").read_text())


def test_a_run_that_was_cut_ends_as_the_one_that_was_not():
    uncut = toy("uncut")
    cut()

    result = resumed()

    assert (RunState.DONE, uncut.weights_sha256) == (result.state, result.weights_sha256)
    assert (uncut.env_steps, uncut.updates, uncut.episodes) == (result.env_steps, result.updates, result.episodes)
    assert uncut.best_env_steps == result.best_env_steps
    assert untimed_rows(Path("uncut")) == untimed_rows(RUN)
    assert saved_in(Path("uncut")) == saved_in(RUN)


def test_a_run_that_is_done_does_more_with_a_larger_stop():
    longer = toy("longer", stop=1200)
    toy(stop=600)

    result = resumed(stop={"env_steps": 1200})

    assert longer.weights_sha256 == result.weights_sha256
    assert untimed_rows(Path("longer")) == untimed_rows(RUN)
    assert "env_steps: 1200" in (RUN / "config.yaml").read_text()


def test_a_last_row_that_was_not_due_is_not_in_the_run_that_goes_on():
    longer = toy("longer", stop=1200, every_steps=100)
    toy(stop=500, every_steps=100)  # rows are due at 200, 400, 600

    before = [int(row["env_steps"]) for row in untimed_rows(RUN)]
    resumed(stop={"env_steps": 1200})

    assert [200, 400, 500] == before
    assert longer.episodes == 120
    assert untimed_rows(Path("longer")) == untimed_rows(RUN)


def test_it_can_be_cut_again_and_again():
    uncut = toy("uncut", stop=2000)
    cut(at=500, stop=2000)
    for at in (900, 1300, 1700):
        with pytest.raises(ZeroDivisionError):
            resume(RUN, observers=[Failing(at)], registry=toy_registry())

    result = resumed()

    assert uncut.weights_sha256 == result.weights_sha256
    assert untimed_rows(Path("uncut")) == untimed_rows(RUN)


def test_what_the_run_left_after_the_checkpoint_is_cut_off():
    cut(at=800)
    left = [int(row["env_steps"]) for row in untimed_rows(RUN)]
    with (RUN / "metrics.csv").open("a") as file:
        file.write("1000,1.0,half a ro")

    resumed()

    assert [200, 400, 600, 800] == left  # the newest checkpoint is of 600
    assert [200, 400, 600, 800, 1000] == [int(row["env_steps"]) for row in untimed_rows(RUN)]


def test_columns_that_came_after_the_checkpoint_are_cut_off_with_their_rows():
    cut()
    with (RUN / "metrics.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    with (RUN / "metrics.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*header, "late"], *([*row, "1"] for row in rows)])

    resumed()

    assert "late" not in untimed_rows(RUN)[-1]


def test_time_goes_on_where_it_was_and_the_status_says_what_goes_on():
    seen = []

    class Witness:
        @hookimpl
        def rheos_run_started(self, run):
            seen.append((status_of(RUN)["state"], run.resumed_at, run.wall_s, run.totals.env_steps))

    toy(stop=600)
    with (RUN / "metrics.csv").open(newline="") as file:
        before = float(list(csv.DictReader(file))[-1]["wall_s"])

    resume(RUN, stop={"env_steps": 900}, observers=[Witness()], registry=toy_registry())

    ((state, resumed_at, wall_s, env_steps),) = seen
    assert ("running", 600, 600) == (state, resumed_at, env_steps)
    assert wall_s >= before > 0
    assert status_of(RUN)["wall_s"] >= wall_s


def test_loggers_are_told_where_they_go_on(monkeypatch):
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

    cut()
    monkeypatch.setattr(toy_module, "ToySpied", Logger, raising=False)
    registry = toy_registry()
    monkeypatch.setattr(
        registry, "logger", lambda name: type("Spec", (), {"factory": "rheos.testing.toy:ToySpied"}), raising=False
    )

    resume(RUN, logger={"names": ["spied"]}, registry=registry)

    assert ["resumed at 600", 800, "flushed", 1000, "flushed", "closed"] == told


def test_evaluations_go_on_as_in_the_run_that_was_not_cut():
    evaluation = {"every_steps": 250, "episodes": 2}
    uncut = toy("uncut", eval=evaluation)
    cut(eval=evaluation)

    result = resumed()

    assert uncut.best_env_steps == result.best_env_steps
    assert untimed_rows(Path("uncut")) == untimed_rows(RUN)
    assert saved_in(Path("uncut")) == saved_in(RUN)


def test_another_rhythm_of_evaluations_and_checkpoints_counts_from_here():
    toy(stop=600)

    resumed(stop={"env_steps": 1200}, checkpoint={"every_steps": 500}, eval={"every_steps": 400, "episodes": 1})

    evaluated = [int(row["env_steps"]) for row in untimed_rows(RUN) if row["eval_return_mean"]]
    assert [800, 1200] == evaluated
    assert {600, 1000, 1200} <= set(saved_in(RUN))


def test_the_best_checkpoint_that_a_state_knows_is_there_when_a_run_goes_on_from_it():
    seen = []

    class Witness:
        @hookimpl
        def rheos_run_started(self, run):
            seen.append((run.status.best_env_steps, saved_in(RUN)))

    cut(at=700, every_steps=400, eval={"every_steps": 100, "episodes": 1})  # saves weights that were better at 500, ...

    resume(RUN, observers=[Witness()], registry=toy_registry())

    ((best, saved),) = seen
    assert best in saved
    assert 400 == max(saved)


def test_a_torn_checkpoint_is_passed_over_with_a_warning_and_its_steps_are_done_again():
    uncut = toy("uncut", stop=1200)
    toy(stop=900)
    (RUN / "checkpoints" / ".1000.tmp").mkdir()  # the process died while it was saved
    newest = RUN / "checkpoints" / "900" / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])

    with pytest.warns(
        RheosWarning, match=r"passed over: .*900 is a torn checkpoint: its state does not have the check"
    ):
        result = resumed(stop={"env_steps": 1200})

    assert uncut.weights_sha256 == result.weights_sha256
    assert untimed_rows(Path("uncut")) == untimed_rows(RUN)
    assert saved_in(Path("uncut")) == saved_in(RUN)  # which reads every name as a number


@pytest.mark.parametrize("name", ["state.json", "state.safetensors", "weights.safetensors"])
def test_a_checkpoint_that_lacks_a_file_is_passed_over(name):
    toy(stop=900)
    (RUN / "checkpoints" / "900" / name).unlink()

    if name == "state.json":  # what says that there is a state at all
        result = resumed(stop={"env_steps": 1000})
    else:
        with pytest.warns(RheosWarning, match="900 is (no|a torn) checkpoint"):
            result = resumed(stop={"env_steps": 1000})

    assert 1000 == result.env_steps


def test_a_checkpoint_names_its_files_and_no_code():
    toy(stop=300)

    checkpoint = RUN / "checkpoints" / "300"

    assert {"manifest.json", "state.json", "state.safetensors", "weights.safetensors"} == set(os.listdir(checkpoint))
    assert "state_sha256" in load_checkpoint(checkpoint).manifest
    assert "rheos.testing.toy" not in (checkpoint / "state.json").read_text()


# what cannot go on


def refusal_of(call, *arguments, **settings):
    with pytest.raises(RheosError) as caught:
        call(*arguments, **settings)
    return str(caught.value)


def test_a_folder_that_is_no_run_is_refused():
    assert "nowhere is no run: there is no such folder." == refusal_of(resumed, "nowhere")


def test_a_run_without_a_checkpoint_is_refused_in_one_line():
    with pytest.raises(ZeroDivisionError):
        toy(observers=[Failing(200)], every_steps=None)

    before = (RUN / "metrics.csv").read_text()

    assert refusal_of(resumed).startswith("run has no checkpoint yet: weights are saved every checkpoint.every_steps")
    assert (before, "failed") == ((RUN / "metrics.csv").read_text(), status_of(RUN)["state"])


def test_a_run_that_has_done_all_it_was_to_do_is_refused_with_what_to_type():
    toy(stop=600)

    assert "run is done: stop.env_steps=600 reached. Give it more, such as stop.env_steps=1200." == refusal_of(resumed)


def test_a_run_without_periodic_checkpoints_goes_on_from_its_last_one():
    toy(stop=600, every_steps=None)

    assert 900 == resumed(stop={"env_steps": 900}).env_steps


@pytest.mark.parametrize("cls", [ToyWorker, ToyLearner])
def test_a_run_with_an_actor_that_has_no_state_has_weights_only_and_says_so(cls, monkeypatch):
    monkeypatch.delattr(cls, "state_dict")
    name = "rollout-0" if cls is ToyWorker else "learner"

    with pytest.warns(RheosWarning) as caught:
        toy(stop=600)

    text = f"the run cannot be resumed: {name} has no state_dict(), so that its checkpoints hold weights only."
    assert [text] == [str(warning.message) for warning in caught]
    assert [300, 600] == saved_in(RUN)
    assert f"holds weights, but no state to go on from: {name} has no state_dict()." in refusal_of(resumed)


def test_a_run_that_another_process_writes_is_refused():
    toy(stop=300)
    script = textwrap.dedent("""
        import sys
        from rheos.runs.folder import RunFolder
        from rheos.runs.locks import RunLock
        with RunLock(RunFolder(__import__("pathlib").Path("run")).lock_path):
            print("held", flush=True)
            sys.stdin.read()
    """)
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert "held" == holder.stdout.readline().strip()

        refused = refusal_of(resumed, stop={"env_steps": 600})

        assert f"run is being written by process {holder.pid} on " in refused
        holder.kill()
    assert 600 == resumed(stop={"env_steps": 600}).env_steps  # the lock ended with its process


def test_a_run_is_locked_while_it_goes_on_also_against_its_own_process():
    refused = []

    class Meddler:
        @hookimpl
        def rheos_report(self):
            refused.append(refusal_of(resumed))

    toy(stop=200, observers=[Meddler()])

    assert ["run is being written by a run of this very process."] == refused
    with RunLock(RunFolder(RUN).lock_path):
        pass


def test_of_two_threads_of_one_process_one_writes_a_run(here):
    path = here / ".lock"
    barrier, refused = threading.Barrier(8), []

    def enter():
        barrier.wait(10)
        try:
            with RunLock(path):
                barrier.wait(10)
        except RunFolderError as error:
            refused.append(str(error))
            barrier.wait(10)

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert 7 == len(refused)
    assert {f"{here} is being written by a run of this very process."} == set(refused)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_warned_of_and_the_run_goes_on(here, monkeypatch, number):
    def no_lock(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(locks, "_lock", no_lock)

    with (
        pytest.warns(RheosWarning, match=f"cannot be locked: {os.strerror(number)}"),
        RunLock(here / ".lock"),
        pytest.raises(RunFolderError, match="this very process"),
        RunLock(here / ".lock"),
    ):
        pass


@pytest.mark.parametrize("number", [errno.EACCES, errno.EAGAIN])
def test_a_lock_that_is_held_is_told_by_both_of_its_errors(here, monkeypatch, number):
    def held(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(locks, "_lock", held)
    with pytest.raises(RunFolderError, match="is being written by another process"), RunLock(here / ".lock"):
        pass
    monkeypatch.undo()

    with RunLock(here / ".lock"):  # it was given back
        assert (here / ".lock").read_text().startswith(f"process {os.getpid()} on ")


def test_a_folder_that_is_not_there_cannot_be_locked_and_is_not_held_afterwards(here):
    for _ in range(2):
        with pytest.raises(RunFolderError, match="cannot be written: No such file"), RunLock(here / "gone" / ".lock"):
            pass


def test_each_part_of_a_run_has_a_trace_of_its_own():
    toy(stop=300, trace=True)
    before = (RUN / "trace.json").read_bytes()

    resumed(stop={"env_steps": 600})

    assert before == (RUN / "trace.json").read_bytes()
    assert json.loads((RUN / "trace-300.json").read_text())


def test_a_refusal_for_the_metrics_is_told_before_a_logger_is_made(monkeypatch):
    made = []
    toy(stop=600)
    (RUN / "metrics.csv").unlink()
    monkeypatch.setattr(toy_module, "ToySpied", made.append, raising=False)
    registry = toy_registry()
    monkeypatch.setattr(
        registry, "logger", lambda name: type("Spec", (), {"factory": "rheos.testing.toy:ToySpied"}), raising=False
    )

    refused = refusal_of(resume, RUN, stop={"env_steps": 900}, logger={"names": ["spied"]}, registry=registry)

    assert "metrics.csv cannot be read" in refused
    assert ([], "done") == (made, status_of(RUN)["state"])


@pytest.mark.parametrize("part", ["columns", "rows"])
def test_a_metrics_file_that_was_shortened_is_told(part):
    toy(stop=600)
    header, *rows = (RUN / "metrics.csv").read_text().splitlines()
    kept = [header.replace("updates", "renewals"), *rows] if part == "columns" else [header, rows[0]]
    (RUN / "metrics.csv").write_text("\n".join(kept) + "\n")

    assert "put the file back as it was" in refusal_of(resumed, stop={"env_steps": 900})


def test_a_flow_with_other_stages_than_the_run_had_is_refused(monkeypatch):
    toy(stop=600)
    flow = toy_module.toy_flow
    monkeypatch.setattr(toy_module, "toy_flow", lambda roles, config: flow(roles, config).map(abs))

    refused = refusal_of(resumed, stop={"env_steps": 900})

    assert refused.startswith("The flow is another one than that of the run: stage 5: map(abs)")
    assert refused.endswith("was not there.")
    assert "done" == status_of(RUN)["state"]


def test_an_environment_with_other_spaces_than_the_run_had_is_refused():
    toy(stop=600)
    for path in (RUN / "checkpoints").glob("*/manifest.json"):
        path.write_text(path.read_text().replace('"n": 2', '"n": 3'))

    assert refusal_of(resumed, stop={"env_steps": 900}).startswith(
        "env: the action space is {'type': 'Discrete', 'n': 2"
    )


# settings


def test_a_setting_of_what_is_learned_is_refused_with_a_line_each():
    settings = {"algo": {"name": "toy", "step": 0.5}, "seed": 0, "executor": {"workers": 1}, "stop": {"env_steps": 1}}

    with pytest.raises(ConfigError) as caught:
        changed_settings(
            settings, {"algo": {"step": 0.1}, "seed": 1, "executor": {"workers": 2}, "stop": {"env_steps": 2}}
        )

    assert [
        "algo.step: the run has 0.5, you gave 0.1",
        "seed: the run has 0, you gave 1",
        "executor.workers: the run has 1, you gave 2",
    ] == str(caught.value).splitlines()


def test_a_setting_that_is_as_it_was_may_be_given():
    settings = {"algo": {"hidden": [8], "step": None}, "seed": 0}

    changed = changed_settings(settings, {"algo": {"hidden": (8,), "step": None}, "seed": 0})

    assert (8, None, 0) == (*changed["algo"]["hidden"], changed["algo"]["step"], changed["seed"])


def test_a_setting_that_the_run_does_not_have_is_refused():
    with pytest.raises(ConfigError, match=r"algo\.lr: the run has no such setting, you gave 1"):
        changed_settings({"algo": {"name": "toy"}}, {"algo": {"lr": 1}})


def test_a_wrong_value_of_what_may_change_is_told_as_in_training():
    toy(stop=300)

    assert refusal_of(resumed, stop={"env_steps": -1}).startswith("stop.env_steps: got -1 (int), expected an integer")


def test_changes_on_which_depends_what_is_learned_are_named():
    before = {
        "stop": {"env_steps": 100, "seconds": None},
        "checkpoint": {"every_steps": 50, "reset_environments": True},
        "eval": {"every_steps": None},
    }
    after = {
        "stop": {"env_steps": 200, "seconds": 5.0},
        "checkpoint": {"every_steps": None, "reset_environments": False},
        "eval": {"every_steps": 10},
    }

    assert () == learned_otherwise(before, before)
    assert (
        "checkpoint.every_steps=null (was 50)",
        "checkpoint.reset_environments=False (was True)",
    ) == learned_otherwise(before, after)


def test_a_run_that_goes_on_knows_what_is_another_by_now():
    seen = []

    class Witness:
        @hookimpl
        def rheos_run_started(self, run):
            seen.append(run.changes)

    toy(stop=600, observers=[Witness()])
    resume(
        RUN,
        stop={"env_steps": 900, "seconds": 60.0},
        checkpoint={"every_steps": 250},
        observers=[Witness()],
        registry=toy_registry(),
    )

    assert [(), ("checkpoint.every_steps=250 (was 300)",)] == seen


@pytest.mark.parametrize(
    ("stop", "line"),
    [
        (
            {"env_steps": 300},
            r"run is done: stop\.env_steps=300 reached\. Give it more, such as stop\.env_steps=1200\.",
        ),
        (
            {"env_steps": None, "seconds": 1e-3},
            r"run is done: stop\.seconds=0\.001 reached\. .* such as stop\.seconds=\d+\.",
        ),
    ],
)
def test_a_stop_that_is_reached_already_is_refused_and_the_one_to_raise_is_named(stop, line):
    toy(stop=600)

    assert re.fullmatch(line, refusal_of(resumed, stop=stop))


def test_a_run_that_was_interrupted_is_not_done_by_a_stop_that_lies_behind_it():
    class Hasty:
        @hookimpl
        def rheos_report(self, row):
            if row["env_steps"] >= 400:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        toy(stop=600, observers=[Hasty()])

    assert "stop.env_steps=100 reached" in refusal_of(resumed, stop={"env_steps": 100})
    assert RunState.INTERRUPTED is RunFolder(RUN).read_status().state


# what cannot be saved


class Hoarding:
    """A stage that remembers what no file can hold."""

    def __init__(self, from_the_start):
        self.seen = {1} if from_the_start else []

    def __call__(self, item):
        self.seen = {1}
        return item

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


def with_stage(monkeypatch, stage):
    flow = toy_module.toy_flow
    monkeypatch.setattr(toy_module, "toy_flow", lambda roles, config: flow(roles, config).map(stage))


def test_a_state_that_cannot_be_saved_ends_a_run_with_checkpoints_before_it_begins(monkeypatch):
    with_stage(monkeypatch, Hoarding(from_the_start=True))

    with pytest.raises(
        TreeError, match=r"stage 5: map\(Hoarding\) \[.*\] cannot be saved: state\.function\.seen: got set"
    ):
        toy()

    assert [] == untimed_rows(RUN)


def test_a_state_that_can_no_longer_be_saved_ends_the_run_at_the_checkpoint(monkeypatch):
    with_stage(monkeypatch, Hoarding(from_the_start=False))

    with pytest.raises(TreeError, match=r"stage 5: map\(Hoarding\)"):
        toy()

    assert "failed" == status_of(RUN)["state"]
    assert 300 == status_of(RUN)["env_steps"]


def test_a_periodic_checkpoint_that_cannot_be_saved_leaves_the_weights(monkeypatch):
    with_stage(monkeypatch, Hoarding(from_the_start=False))

    with pytest.raises(TreeError):
        toy(algo={"episodes": 0})  # so that nothing is the best

    assert [300] == saved_in(RUN)
    assert status_of(RUN)["weights_sha256"] == load_checkpoint(RUN / "checkpoints" / "300").manifest["weights_sha256"]
    assert "holds weights, but no state to go on from: TreeError: stage 5: map(Hoarding)" in refusal_of(resumed)


def test_a_run_whose_last_state_cannot_be_saved_is_done_and_has_its_weights(monkeypatch):
    with_stage(monkeypatch, Hoarding(from_the_start=False))

    with pytest.warns(RheosWarning, match=r"only the weights are saved, .*stage 5: map\(Hoarding\)"):
        result = toy(every_steps=None)

    assert (RunState.DONE, [1000]) == (result.state, saved_in(RUN))
    assert result.weights_sha256 == load_checkpoint(RUN / "checkpoints" / "1000").manifest["weights_sha256"]


# what outlasts the time that a run has to end


class Busy:
    """Interrupts the run as soon as an update of the learner is under way that does not end."""

    def __init__(self, monkeypatch, *, in_update, publishes):
        self.has_begun, self.may_end = False, threading.Event()
        update = ToyLearner.update

        @wraps(update)
        def updated(learner, batch):
            report = update(learner, batch)
            if report.version == in_update and not self.has_begun:
                self.has_begun = True
                self.may_end.wait(0.1)  # until the driver waits: a signal just before it does is not seen at once
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                self.may_end.wait(30)
            return replace(report, weights=learner.weights()) if publishes else report

        monkeypatch.setattr(ToyLearner, "update", updated)
        monkeypatch.setattr(toy_module, "toy_flow", running_ahead)


def running_ahead(roles, config):
    """Do what the toy does, with actors in threads."""
    rounds = from_items(range(1, config.rounds + 1))
    batches = rounds.ask(roles.workers, ToyWorker.rollout, in_flight=2)
    return batches.ask(roles.learner, ToyLearner.update).map(toy_module.report)


@pytest.fixture
def busy(monkeypatch):
    """Make the learner busy; it is let go at the end."""
    made = []

    def make(**settings):
        made.append(Busy(monkeypatch, **settings))

    yield make
    for one in made:
        one.may_end.set()


def interrupted(**settings):
    with warnings.catch_warnings(record=True, action="always") as caught, pytest.raises(KeyboardInterrupt):
        toy(executor={"name": "threads", "grace_s": 0.2}, **settings)
    return [str(warning.message) for warning in caught]


def test_an_interrupted_run_with_a_busy_learner_saves_the_weights_that_it_published_last(busy):
    busy(in_update=12, publishes=True)

    warned = interrupted(stop=None, algo={"episodes": 0})  # so that nothing is the best

    assert ("interrupted", "interrupted by SIGINT") == (status_of(RUN)["state"], status_of(RUN)["reason"])
    assert 1100 in saved_in(RUN)  # beside those with a state, which are more than three
    newest = load_checkpoint(RUN / "checkpoints" / "1100")
    assert status_of(RUN)["weights_sha256"] == newest.manifest["weights_sha256"]
    assert "learner" in newest.manifest["no_state"]
    assert any("only the weights are saved" in text and "published last" in text for text in warned)
    assert 1300 == resumed(stop={"env_steps": 1300}).env_steps


def test_weights_without_a_state_do_not_take_the_place_of_a_checkpoint_with_one(monkeypatch):
    class Interrupting:
        @hookimpl
        def rheos_checkpoint_saved(self):
            weights = ToyLearner.weights
            patched.setattr(ToyLearner, "weights", lambda learner: replace(weights(learner), version=99))
            patched.setattr(FlowState, "take", outlasts)
            signal.raise_signal(signal.SIGINT)

    def outlasts(state, timeout_s):
        raise NoState("rollout-0.rollout has not finished")

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        toy(observers=[Interrupting()])

    assert [300] == saved_in(RUN)
    assert 600 == resumed(stop={"env_steps": 600}).env_steps


def test_an_interrupted_run_with_a_busy_learner_that_published_nothing_says_what_is_not_saved(busy):
    busy(in_update=5, publishes=False)

    interrupted(stop=None)

    status = status_of(RUN)
    assert ("interrupted", [300]) == (status["state"], saved_in(RUN))
    assert status["reason"].startswith("interrupted by SIGINT; the weights since the last checkpoint are not saved: ")
    assert "learner" in status["reason"]


def test_an_actor_whose_state_cannot_be_saved_is_named(monkeypatch):
    monkeypatch.setattr(ToyLearner, "state_dict", lambda self: {"optimizer": object()})

    with pytest.raises(TreeError, match=r"^learner cannot be saved: state_dict\(\)\.optimizer: got object"):
        toy()


def test_an_error_within_a_state_dict_is_no_lack_of_one(monkeypatch):
    monkeypatch.setattr(ToyLearner, "state_dict", lambda self: self.nothing)

    with pytest.raises(AttributeError, match="nothing"):
        toy()


def test_a_resumed_run_that_fails_at_once_can_be_resumed_again(monkeypatch):
    uncut = toy("uncut")
    cut()
    with monkeypatch.context() as patched:
        patched.setattr(ToyLearner, "load_state_dict", lambda self, state: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            resumed()

    assert "failed" == status_of(RUN)["state"]
    assert uncut.weights_sha256 == resumed().weights_sha256


def test_the_weights_of_a_resumed_run_are_those_of_its_state():
    toy(stop=600)
    shutil.copytree(RUN, "copy")

    resumed("copy", stop={"env_steps": 700})

    first, second = (load_checkpoint(Path(path)).weights for path in ("run/checkpoints/600", "copy/checkpoints/700"))
    for name, array in first.items():
        np.testing.assert_allclose(array + 0.5, second[name], rtol=1e-6)
