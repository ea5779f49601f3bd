"""The checkpoint that a run goes on from: what is in it, and which one is taken where some are torn."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from rheos.errors import RheosWarning
from rheos.plugins import hookimpl
from rheos.runs.checkpoints import load_checkpoint

RUN = Path("run")


def test_a_torn_checkpoint_is_passed_over_with_a_warning_and_its_steps_are_done_again(runs):
    uncut = runs.train("uncut", stop=1200)
    runs.train(stop=900)
    (RUN / "checkpoints" / ".1000.tmp").mkdir()  # the process died while it was saved
    newest = RUN / "checkpoints" / "900" / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])

    with pytest.warns(
        RheosWarning, match=r"passed over: .*900 is a torn checkpoint: its state does not have the check"
    ):
        result = runs.resume(stop={"env_steps": 1200})

    assert uncut.weights_sha256 == result.weights_sha256
    assert runs.rows("uncut") == runs.rows()
    assert runs.saved("uncut") == runs.saved()  # which reads every name as a number


@pytest.mark.parametrize("name", ["state.json", "state.safetensors", "weights.safetensors"])
def test_a_checkpoint_that_lacks_a_file_is_passed_over(runs, name):
    runs.train(stop=900)
    (RUN / "checkpoints" / "900" / name).unlink()

    if name == "state.json":  # what says that there is a state at all
        result = runs.resume(stop={"env_steps": 1000})
    else:
        with pytest.warns(RheosWarning, match="900 is (no|a torn) checkpoint"):
            result = runs.resume(stop={"env_steps": 1000})

    assert 1000 == result.env_steps


def test_a_checkpoint_names_its_files_and_no_code(runs):
    runs.train(stop=300)

    checkpoint = RUN / "checkpoints" / "300"

    assert {"manifest.json", "state.json", "state.safetensors", "weights.safetensors"} == set(os.listdir(checkpoint))
    assert "state_sha256" in load_checkpoint(checkpoint).manifest
    assert "rheos.testing.toy" not in (checkpoint / "state.json").read_text()


def test_the_best_checkpoint_that_a_state_knows_is_there_when_a_run_goes_on_from_it(runs):
    seen = []

    class Witness:
        @hookimpl
        def rheos_run_started(self, run):
            seen.append((run.status.best_env_steps, runs.saved()))

    runs.cut(at=700, every_steps=400, eval={"every_steps": 100, "episodes": 1})  # it saves better weights at 500

    runs.resume(observers=[Witness()])

    ((best, saved),) = seen
    assert best in saved
    assert 400 == max(saved)


def test_a_run_without_periodic_checkpoints_goes_on_from_its_last_one(runs):
    runs.train(stop=600, every_steps=None)

    assert 900 == runs.resume(stop={"env_steps": 900}).env_steps


def test_the_weights_of_a_resumed_run_are_those_of_its_state(runs):
    runs.train(stop=600)
    shutil.copytree(RUN, "copy")

    runs.resume("copy", stop={"env_steps": 700})

    first, second = (load_checkpoint(Path(path)).weights for path in ("run/checkpoints/600", "copy/checkpoints/700"))
    for name, array in first.items():
        np.testing.assert_allclose(array + 0.5, second[name], rtol=1e-6)
