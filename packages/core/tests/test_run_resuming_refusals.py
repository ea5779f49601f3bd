"""A run that cannot go on says why in one line."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from rheos.plugins import hookimpl
from rheos.runs.folder import RunFolder
from rheos.runs.status import RunState
from rheos.testing import toy as toy_module

RUN = Path("run")


def test_a_folder_that_is_no_run_is_refused(runs):
    assert "nowhere is no run: there is no such folder." == runs.refusal("nowhere")


def test_a_run_without_a_checkpoint_is_refused_in_one_line(runs):
    runs.cut(at=200, every_steps=None)
    before = (RUN / "metrics.csv").read_text()

    assert runs.refusal().startswith("run has no checkpoint yet: weights are saved every checkpoint.every_steps")
    assert (before, "failed") == ((RUN / "metrics.csv").read_text(), runs.status()["state"])


def test_a_run_that_has_done_all_it_was_to_do_is_refused_with_what_to_type(runs):
    runs.train(stop=600)

    assert "run is done: stop.env_steps=600 reached. Give it more, such as stop.env_steps=1200." == runs.refusal()


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
def test_a_stop_that_is_reached_already_is_refused_and_the_one_to_raise_is_named(runs, stop, line):
    runs.train(stop=600)

    assert re.fullmatch(line, runs.refusal(stop=stop))


def test_a_run_that_was_interrupted_is_not_done_by_a_stop_that_lies_behind_it(runs):
    class Hasty:
        @hookimpl
        def rheos_report(self, row):
            if row["env_steps"] >= 400:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        runs.train(stop=600, observers=[Hasty()])

    assert "stop.env_steps=100 reached" in runs.refusal(stop={"env_steps": 100})
    assert RunState.INTERRUPTED is RunFolder(RUN).read_status().state


def test_a_refusal_for_the_metrics_is_told_before_a_logger_is_made(runs, registry_with_logger):
    made = []
    registry = registry_with_logger(made.append)
    runs.train(stop=600)
    (RUN / "metrics.csv").unlink()

    refused = runs.refusal(stop={"env_steps": 900}, logger={"names": ["spied"]}, registry=registry)

    assert "metrics.csv cannot be read" in refused
    assert ([], "done") == (made, runs.status()["state"])


@pytest.mark.parametrize("part", ["columns", "rows"])
def test_a_metrics_file_that_was_shortened_is_told(runs, part):
    runs.train(stop=600)
    header, *rows = (RUN / "metrics.csv").read_text().splitlines()
    kept = [header.replace("updates", "renewals"), *rows] if part == "columns" else [header, rows[0]]
    (RUN / "metrics.csv").write_text("\n".join(kept) + "\n")

    assert "put the file back as it was" in runs.refusal(stop={"env_steps": 900})


def test_a_flow_with_other_stages_than_the_run_had_is_refused(runs, monkeypatch):
    runs.train(stop=600)
    flow = toy_module.toy_flow
    monkeypatch.setattr(toy_module, "toy_flow", lambda roles, config: flow(roles, config).map(abs))

    refused = runs.refusal(stop={"env_steps": 900})

    assert refused.startswith("The flow is another one than that of the run: stage 5: map(abs)")
    assert refused.endswith("was not there.")
    assert "done" == runs.status()["state"]


def test_an_environment_with_other_spaces_than_the_run_had_is_refused(runs):
    runs.train(stop=600)
    for path in (RUN / "checkpoints").glob("*/manifest.json"):
        path.write_text(path.read_text().replace('"n": 2', '"n": 3'))

    assert runs.refusal(stop={"env_steps": 900}).startswith("env: the action space is {'type': 'Discrete', 'n': 2")
