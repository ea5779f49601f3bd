"""A run whose state cannot be saved, or not in time, keeps its weights and says so."""

from __future__ import annotations

import signal
import threading
import warnings
from dataclasses import replace
from functools import wraps
from pathlib import Path

import pytest

from rheos.batches import Batch
from rheos.errors import ItemLost, RheosWarning, TreeError
from rheos.executors.protocol import Shared
from rheos.plugins import hookimpl
from rheos.runs.checkpoints import load_checkpoint
from rheos.runs.flow_state import FlowState, NoState
from rheos.runs.status import RunState
from rheos.streams.stream import from_items
from rheos.testing import toy as toy_module
from rheos.testing.toy import ToyLearner, ToyWorker

RUN = Path("run")


@pytest.mark.parametrize("cls", [ToyWorker, ToyLearner])
def test_a_run_with_an_actor_that_has_no_state_has_weights_only_and_says_so(runs, cls, monkeypatch):
    monkeypatch.delattr(cls, "state_dict")
    name = "rollout-0" if cls is ToyWorker else "learner"

    with pytest.warns(RheosWarning) as caught:
        runs.train(stop=600)

    text = f"the run cannot be resumed: {name} has no state_dict(), so that its checkpoints hold weights only."
    assert [text] == [str(warning.message) for warning in caught]
    assert [300, 600] == runs.saved()
    assert f"holds weights, but no state to go on from: {name} has no state_dict()." in runs.refusal()


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


def test_a_state_that_cannot_be_saved_ends_a_run_with_checkpoints_before_it_begins(runs, monkeypatch):
    with_stage(monkeypatch, Hoarding(from_the_start=True))

    with pytest.raises(
        TreeError, match=r"stage 5: map\(Hoarding\) \[.*\] cannot be saved: state\.function\.seen: got set"
    ):
        runs.train()

    assert [] == runs.rows()


def test_a_state_that_can_no_longer_be_saved_ends_the_run_at_the_checkpoint(runs, monkeypatch):
    with_stage(monkeypatch, Hoarding(from_the_start=False))

    with pytest.raises(TreeError, match=r"stage 5: map\(Hoarding\)"):
        runs.train()

    assert "failed" == runs.status()["state"]
    assert 300 == runs.status()["env_steps"]


def test_a_periodic_checkpoint_that_cannot_be_saved_leaves_the_weights(runs, monkeypatch):
    with_stage(monkeypatch, Hoarding(from_the_start=False))

    with pytest.raises(TreeError):
        runs.train(algo={"episodes": 0})  # so that nothing is the best

    assert [300] == runs.saved()
    assert runs.status()["weights_sha256"] == load_checkpoint(RUN / "checkpoints" / "300").manifest["weights_sha256"]
    assert "holds weights, but no state to go on from: TreeError: stage 5: map(Hoarding)" in runs.refusal()


def test_a_run_whose_last_state_cannot_be_saved_is_done_and_has_its_weights(runs, monkeypatch):
    with_stage(monkeypatch, Hoarding(from_the_start=False))

    with pytest.warns(RheosWarning, match=r"only the weights are saved, .*stage 5: map\(Hoarding\)"):
        result = runs.train(every_steps=None)

    assert (RunState.DONE, [1000]) == (result.state, runs.saved())
    assert result.weights_sha256 == load_checkpoint(RUN / "checkpoints" / "1000").manifest["weights_sha256"]


class Gone(Shared):
    """Columns that were on a machine that is gone."""

    def get(self):
        raise ItemLost("a part of an item is gone with the machine that held it")


class Holding(Hoarding):
    """A stage that holds back an item that is gone."""

    def state_dict(self):
        return {"held": Batch(Gone()) if self.seen else None}


def test_a_checkpoint_with_an_item_in_it_that_is_gone_has_weights_only_where_the_run_goes_on_without_it(
    runs, monkeypatch
):
    with_stage(monkeypatch, Holding(from_the_start=False))

    with pytest.warns(RheosWarning, match="only the weights are saved, .* gone with the machine") as caught:
        result = runs.train(stop=700, executor={"name": "threads", "on_failure": "restart"})

    assert (RunState.DONE, [300, 600, 700]) == (result.state, runs.saved())
    assert 3 == len(caught)
    assert "holds weights, but no state to go on from" in runs.refusal()


def test_an_item_that_is_gone_ends_a_run_that_does_not_go_on_without_it(runs, monkeypatch):
    with_stage(monkeypatch, Holding(from_the_start=False))

    with pytest.raises(ItemLost, match="gone with the machine"):
        runs.train()

    assert [300] == runs.saved()


def test_an_actor_whose_state_cannot_be_saved_is_named(runs, monkeypatch):
    monkeypatch.setattr(ToyLearner, "state_dict", lambda self: {"optimizer": object()})

    with pytest.raises(TreeError, match=r"^learner cannot be saved: state_dict\(\)\.optimizer: got object"):
        runs.train()


def test_an_error_within_a_state_dict_is_no_lack_of_one(runs, monkeypatch):
    monkeypatch.setattr(ToyLearner, "state_dict", lambda self: self.nothing)

    with pytest.raises(AttributeError, match="nothing"):
        runs.train()


def test_weights_without_a_state_do_not_take_the_place_of_a_checkpoint_with_one(runs, monkeypatch):
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
        runs.train(observers=[Interrupting()])

    assert [300] == runs.saved()
    assert 600 == runs.resume(stop={"env_steps": 600}).env_steps


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


def interrupted(runs, **settings):
    with warnings.catch_warnings(record=True, action="always") as caught, pytest.raises(KeyboardInterrupt):
        runs.train(executor={"name": "threads", "grace_s": 0.2}, **settings)
    return [str(warning.message) for warning in caught]


def test_an_interrupted_run_with_a_busy_learner_saves_the_weights_that_it_published_last(runs, busy):
    busy(in_update=12, publishes=True)

    warned = interrupted(runs, stop=None, algo={"episodes": 0})  # so that nothing is the best

    assert ("interrupted", "interrupted by SIGINT") == (runs.status()["state"], runs.status()["reason"])
    assert 1100 in runs.saved()  # beside those with a state, which are more than three
    newest = load_checkpoint(RUN / "checkpoints" / "1100")
    assert runs.status()["weights_sha256"] == newest.manifest["weights_sha256"]
    assert "learner" in newest.manifest["no_state"]
    assert any("only the weights are saved" in text and "published last" in text for text in warned)
    assert 1300 == runs.resume(stop={"env_steps": 1300}).env_steps


def test_an_interrupted_run_with_a_busy_learner_that_published_nothing_says_what_is_not_saved(runs, busy):
    busy(in_update=5, publishes=False)

    interrupted(runs, stop=None)

    status = runs.status()
    assert ("interrupted", [300]) == (status["state"], runs.saved())
    assert status["reason"].startswith("interrupted by SIGINT; the weights since the last checkpoint are not saved: ")
    assert "learner" in status["reason"]
