"""A run that evaluates while it trains: when, in which episodes, what is kept, and what stops it."""

from __future__ import annotations

import csv
import json
import signal
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from rheos.errors import EnvironmentFailed, RheosError
from rheos.plugins import hookimpl
from rheos.runs.checkpoints import newest_checkpoint
from rheos.runs.evaluation import evaluate
from rheos.runs.folder import RunFolder
from rheos.runs.policy import load_policy
from rheos.runs.status import RunState
from rheos.runs.training import train
from rheos.scheduler.flow import Flow
from rheos.scheduler.statistics import FlowStatistics
from rheos.testing.toy import ToyLearner, toy_registry


class Scripted(gymnasium.Env):
    """Episodes of 1 to 9 steps by seed, which call `at_step`; the toy trains without stepping any."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    closed = 0

    @staticmethod
    def at_step(env):
        """Return the reward of a step."""
        return 2.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps_left = int(self.np_random.integers(1, 10))
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps_left -= 1
        return np.zeros(2, np.float32), Scripted.at_step(self), self.steps_left == 0, False, {}

    def close(self):
        Scripted.closed += 1


@pytest.fixture(autouse=True)
def scripted(monkeypatch):
    gymnasium.register("Scripted-v0", Scripted)
    monkeypatch.setattr(Scripted, "closed", 0)
    yield
    del gymnasium.registry["Scripted-v0"]


@pytest.fixture
def toy(tmp_path):
    """Train the toy: a report every 100 env steps, evaluated every 1000, no rows but those of evaluations."""

    def run(name="run", *, evaluation=None, observers=(), algo=None, stop=2500, rows=10**6, **settings):
        return train(
            {"name": "toy", **(algo or {})},
            env="Scripted-v0",
            backend="toy",
            run_dir=tmp_path / name,
            stop={"env_steps": stop},
            eval={"every_steps": 1000} if evaluation is None else evaluation,
            logger={"every_steps": rows},
            observers=observers,
            registry=toy_registry(),
            **settings,
        )

    return run


class Witness:
    """Writes down what it is told of, with the newest evaluation at the time."""

    def __init__(self):
        self.rows, self.evaluations, self.busy, self.events = [], [], [], []

    @hookimpl
    def rheos_run_started(self, run):
        self.busy.append(run.busy.get("driver"))

    @hookimpl
    def rheos_report(self, run, row):
        self.rows.append(row)
        self.evaluations.append(run.evaluation)
        self.busy.append(run.busy.get("driver"))
        self.events.append(("row", row["env_steps"]))

    @hookimpl
    def rheos_checkpoint_saved(self, path):
        self.events.append(("saved", int(path.name)))


def rows_of(result):
    with (result.run_dir / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def give_returns(monkeypatch, returns):
    """Let the episodes have these returns one after the other, each at its last step."""
    scores = iter(returns)
    monkeypatch.setattr(Scripted, "at_step", staticmethod(lambda env: next(scores) if env.steps_left == 0 else 0.0))


# when, and in which episodes


def test_an_evaluation_is_in_the_row_of_its_env_steps_and_in_no_other(toy):
    result = toy(rows=500)

    cells = {row["env_steps"]: row["eval_return_mean"] != "" for row in rows_of(result)}

    assert {"500": False, "1000": True, "1500": False, "2000": True, "2500": True} == cells


def test_the_row_is_written_at_once_and_loggers_and_observers_get_what_metrics_csv_gets(toy):
    witness = Witness()

    result = toy(observers=[witness])

    assert [1000, 2000, 2500] == [row["env_steps"] for row in witness.rows]
    for name in ("eval_return_mean", "eval_return_std", "eval_length_mean"):
        assert [row[name] for row in witness.rows] == [float(row[name]) for row in rows_of(result)]


def test_an_evaluation_has_the_returns_and_lengths_of_its_episodes(toy):
    witness = Witness()

    toy(observers=[witness], evaluation={"every_steps": 1000, "episodes": 21})

    evaluation, row = witness.evaluations[0], witness.rows[0]
    assert (21, 1000, 0) == (evaluation.episodes, evaluation.env_steps, evaluation.seed)
    assert evaluation.episode_returns == tuple(2.0 * length for length in evaluation.episode_lengths)
    assert np.mean(evaluation.episode_returns) == row["eval_return_mean"]
    assert np.std(evaluation.episode_returns) == row["eval_return_std"]
    assert np.mean(evaluation.episode_lengths) == row["eval_length_mean"]


def test_every_evaluation_of_a_run_plays_the_same_episodes_which_are_not_those_of_rheos_eval(toy):
    witness = Witness()

    result = toy(observers=[witness], seed=3)

    assert 3 == len(witness.evaluations)
    assert 1 == len({evaluation.episode_lengths for evaluation in witness.evaluations})
    other = evaluate(result.run_dir, episodes=10, seed=3, registry=toy_registry())
    assert other.episode_lengths != witness.evaluations[0].episode_lengths


def test_the_last_weights_are_evaluated_once(toy):
    witness = Witness()

    toy(stop=2000, observers=[witness])

    assert [("row", 1000), ("saved", 1000), ("row", 2000), ("saved", 2000)] == witness.events


def test_a_run_that_is_not_to_be_evaluated_makes_no_environment_for_it(toy):
    result = toy(evaluation={"every_steps": None})

    assert 1 == Scripted.closed  # the one that was asked for its spaces
    assert "eval_return_mean" not in rows_of(result)[0]


def test_the_same_weights_are_learned_with_and_without_evaluations(toy):
    with_them, without = toy("with"), toy("without", evaluation={"every_steps": None})

    assert without.weights_sha256 == with_them.weights_sha256
    assert without.episode_return_mean == with_them.episode_return_mean


def test_large_networks_are_evaluated_by_the_backend_each_time_with_the_newest_weights(toy, monkeypatch):
    loaded = []
    monkeypatch.setattr("rheos.acting.acts_in_numpy", lambda specs: False)
    monkeypatch.setattr(
        "rheos.testing.toy.ToyBackend.load",
        lambda self, networks, weights: loaded.append(weights["policy/output/bias"]),
    )

    result = toy(algo={"step": 0.5})

    first, second = (float(bias[0]) for bias in loaded)  # the first evaluation builds what it needs
    saved = newest_checkpoint(result.run_dir / "checkpoints").weights["policy/output/bias"]
    assert (10.0, 12.5) == (first, second)  # after 20 and 25 rounds, from 0
    assert 12.5 == saved[0]


# what is kept


def test_the_best_checkpoint_is_the_one_that_was_evaluated_best(toy, monkeypatch):
    give_returns(monkeypatch, [1.0, 7.0, 3.0, 2.0, 1.0, 0.0])

    result = toy(stop=6000, evaluation={"every_steps": 1000, "episodes": 1}, checkpoint={"every_steps": 500})

    assert 2000 == result.best_env_steps
    assert {"2000", "5000", "5500", "6000"} == {path.name for path in (result.run_dir / "checkpoints").iterdir()}
    manifest = json.loads((result.run_dir / "checkpoints" / "2000" / "manifest.json").read_text())
    assert 7.0 == manifest["eval_return_mean"]


def test_weights_are_saved_right_after_an_evaluation_that_none_was_better_than(toy, monkeypatch):
    give_returns(monkeypatch, [1.0, 0.0, 1.0, 5.0])
    witness = Witness()

    toy(
        stop=4000,
        evaluation={"every_steps": 1000, "episodes": 1},
        checkpoint={"every_steps": None},
        observers=[witness],
    )

    assert [1000, 3000, 4000] == [env_steps for event, env_steps in witness.events if event == "saved"]


def test_the_best_checkpoint_is_never_one_whose_weights_have_been_replaced(toy, monkeypatch):
    versions = iter(range(1, 100))
    original = ToyLearner.weights  # as if the learner went on between two reports
    monkeypatch.setattr(ToyLearner, "weights", lambda self: replace(original(self), version=next(versions)))
    give_returns(monkeypatch, [7.0, 3.0])

    result = toy(algo={"rounds": 10}, evaluation={"every_steps": 1000, "episodes": 1})

    manifest = json.loads((result.run_dir / "checkpoints" / "1000" / "manifest.json").read_text())
    assert (1000, 3.0) == (result.best_env_steps, manifest["eval_return_mean"])


def test_the_best_checkpoint_of_a_run_without_evaluations_is_the_one_with_the_best_mean_return(toy):
    result = toy(
        evaluation={"every_steps": None},
        algo={"return_per_round": -1.0},
        stop=6000,
        checkpoint={"every_steps": 1000},
    )

    assert 1000 == result.best_env_steps
    assert {"1000", "4000", "5000", "6000"} == {path.name for path in (result.run_dir / "checkpoints").iterdir()}


# what stops it


def test_a_signal_in_an_evaluation_ends_it_at_the_next_step_and_the_run_in_order(toy, tmp_path, monkeypatch):
    steps = []

    def at_step(env):
        env.steps_left = 10  # it never ends
        steps.append(env)
        if len(steps) == 25:
            signal.raise_signal(signal.SIGINT)
        return 1.0

    monkeypatch.setattr(Scripted, "at_step", staticmethod(at_step))

    with pytest.raises(KeyboardInterrupt, match=r"the run is complete as far as it went"):
        toy(evaluation={"every_steps": 1000, "episodes": 10})

    status = RunFolder(tmp_path / "run").read_status()
    assert (RunState.INTERRUPTED, "interrupted by SIGINT", 1000) == (status.state, status.reason, status.env_steps)
    assert (
        status.weights_sha256
        == load_policy(tmp_path / "run", registry=toy_registry()).checkpoint.manifest["weights_sha256"]
    )
    assert (30, 11) == (len(steps), Scripted.closed)  # a step of all ten was under way
    assert "eval_return_mean" not in (tmp_path / "run" / "metrics.csv").read_text()


def test_a_signal_in_the_last_evaluation_interrupts_the_run(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(Scripted, "at_step", staticmethod(lambda env: signal.raise_signal(signal.SIGTERM) or 1.0))

    with pytest.raises(KeyboardInterrupt):
        toy(evaluation={"every_steps": 10**6, "episodes": 1}, stop=500)

    status = RunFolder(tmp_path / "run").read_status()
    assert (RunState.INTERRUPTED, "interrupted by SIGTERM", 500) == (status.state, status.reason, status.env_steps)


def test_a_second_signal_in_an_evaluation_ends_the_run_at_once_with_its_environments_closed(toy, tmp_path, monkeypatch):
    def at_step(env):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")

    monkeypatch.setattr(Scripted, "at_step", staticmethod(at_step))

    with pytest.raises(KeyboardInterrupt):
        toy(evaluation={"every_steps": 1000, "episodes": 10})

    assert RunState.INTERRUPTED == RunFolder(tmp_path / "run").read_status().state
    assert 11 == Scripted.closed


def test_an_environment_that_raises_in_an_evaluation_fails_the_run_by_its_name(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(Scripted, "at_step", staticmethod(lambda env: 1 / 0))

    with pytest.raises(EnvironmentFailed, match=r"^eval-0, environment 0, step 1: ZeroDivisionError"):
        toy()

    status = RunFolder(tmp_path / "run").read_status()
    assert RunState.FAILED == status.state
    assert status.reason.startswith("EnvironmentFailed: eval-0, environment 0, step 1: ZeroDivisionError")
    assert 11 == Scripted.closed


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_fails_an_evaluation(toy, monkeypatch, bad):
    monkeypatch.setattr(Scripted, "at_step", staticmethod(lambda env: bad))

    with pytest.raises(EnvironmentFailed, match=rf"^eval-0, environment 0, step 1: .*{bad}"):
        toy()


def test_weights_that_are_not_finite_are_neither_evaluated_nor_saved_and_the_good_ones_stay(toy, tmp_path):
    message = r"weight 'policy/hidden_0/kernel': 16 of 16 values are not finite at env step 2000: not saved"

    with pytest.raises(RheosError, match=message):
        toy(algo={"spoils_weights_in_round": 15})

    status = RunFolder(tmp_path / "run").read_status()
    checkpoint = load_policy(tmp_path / "run", registry=toy_registry()).checkpoint
    assert (RunState.FAILED, 2000) == (status.state, status.env_steps)
    assert status.reason.startswith("RheosError: weight 'policy/hidden_0/kernel'")
    assert (1000, status.weights_sha256) == (checkpoint.env_steps, checkpoint.manifest["weights_sha256"])
    assert ["1000"] == [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()]


@pytest.mark.parametrize("spoilt_in", [11, 25])
def test_weights_that_become_nan_without_an_evaluation_are_never_saved(toy, tmp_path, spoilt_in):
    with pytest.raises(RheosError, match=r"values are not finite"):
        toy(
            algo={"spoils_weights_in_round": spoilt_in},
            evaluation={"every_steps": None},
            checkpoint={"every_steps": 500},
        )

    good = (spoilt_in - 1) // 5 * 500
    assert good == load_policy(tmp_path / "run", registry=toy_registry()).checkpoint.env_steps
    assert RunState.FAILED == RunFolder(tmp_path / "run").read_status().state


# how busy the driver is


def test_the_driver_of_an_inline_run_is_always_busy(toy):
    witness = Witness()

    toy(observers=[witness])

    assert [None, 1.0, 1.0, 1.0] == witness.busy


def test_the_driver_is_busy_in_the_share_of_time_since_the_last_row_in_which_it_does_not_wait(toy, monkeypatch):
    asked = iter([FlowStatistics(0.0, 0.0), FlowStatistics(10.0, 2.5), FlowStatistics(20.0, 12.5)])
    monkeypatch.setattr(Flow, "statistics", lambda flow: next(asked))
    witness = Witness()

    toy(observers=[witness], evaluation={"every_steps": None}, rows=1000, stop=2000)

    assert [None, 0.75, 0.0] == witness.busy
