"""Which settings of a run may be others when it goes on, and which of them change what is learned."""

from __future__ import annotations

import pytest

from rheos.errors import ConfigError
from rheos.plugins import hookimpl
from rheos.runs.changes import changed_settings, learned_otherwise


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


def test_a_wrong_value_of_what_may_change_is_told_as_in_training(runs):
    runs.train(stop=300)

    assert runs.refusal(stop={"env_steps": -1}).startswith("stop.env_steps: got -1 (int), expected an integer")


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


def test_a_run_that_goes_on_knows_what_is_another_by_now(runs):
    seen = []

    class Witness:
        @hookimpl
        def rheos_run_started(self, run):
            seen.append(run.changes)

    runs.train(stop=600, observers=[Witness()])
    runs.resume(stop={"env_steps": 900, "seconds": 60.0}, checkpoint={"every_steps": 250}, observers=[Witness()])

    assert [(), ("checkpoint.every_steps=250 (was 300)",)] == seen
