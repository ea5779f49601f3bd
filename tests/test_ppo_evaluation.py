"""PPO evaluated while it trains: training is not disturbed, and what is measured is what the saved weights do."""

from __future__ import annotations

import csv

import pytest

import rheos
from rheos import hookimpl

SMALL = {"name": "ppo", "rollout_steps": 32, "minibatch_size": 64}
NORMALIZED = {**SMALL, "normalize_observations": True}


class Evaluations:
    """Keeps every evaluation of a run."""

    def __init__(self):
        self.all = []

    @hookimpl
    def rheos_report(self, run, row):
        if "eval_return_mean" in row:
            self.all.append(run.evaluation)


def trained(run_dir, *, every_steps=None, episodes=3, algo=SMALL, observers=(), **others):
    return rheos.train(
        algo,
        env="CartPole-v1",
        seed=1,
        stop={"env_steps": 1_500},
        run_dir=run_dir,
        eval={"every_steps": every_steps, "episodes": episodes},
        observers=observers,
        **others,
    )


def untimed(run):
    with (run.run_dir / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    left_out = ("wall_s", "env_steps_per_s")
    return [
        {name: cell for name, cell in row.items() if name not in left_out and not name.startswith("eval_")}
        for row in rows
    ]


@pytest.mark.parametrize("algo", [SMALL, NORMALIZED], ids=["plain", "normalized"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_learns_the_same_with_and_without_evaluations(tmp_path, algo, workers):
    executor = {"name": "inline", "workers": workers}
    without = trained(tmp_path / "without", algo=algo, executor=executor, logger={"every_steps": 1})

    with_them = trained(tmp_path / "with", algo=algo, executor=executor, every_steps=400, logger={"every_steps": 1})

    assert without.weights_sha256 == with_them.weights_sha256
    assert untimed(without) == untimed(with_them)


@pytest.mark.parametrize("algo", [SMALL, NORMALIZED], ids=["plain", "normalized"])
def test_the_last_evaluation_is_what_the_saved_weights_do_in_the_same_episodes(tmp_path, monkeypatch, algo):
    evaluations = Evaluations()
    run = trained(tmp_path / "run", algo=algo, every_steps=400, observers=[evaluations])
    monkeypatch.setattr("rheos.runs.evaluation._NAME", "eval")  # so that the episodes are those of the training

    again = rheos.evaluate(run.run_dir, episodes=3, seed=1)

    assert evaluations.all[-1].episode_returns == again.episode_returns
    assert len({evaluation.episode_returns for evaluation in evaluations.all}) > 1  # the weights did change


def test_statistics_of_observations_are_frozen_in_an_evaluation(tmp_path):
    run = trained(tmp_path / "run", algo=NORMALIZED)
    weights = rheos.load_policy(run.run_dir).checkpoint.weights
    before = {name: array.copy() for name, array in weights.items()}
    assert any("mean" in name for name in weights)

    first, again = (rheos.evaluate(run.run_dir, episodes=3) for _ in range(2))

    assert first.episode_returns == again.episode_returns
    after = rheos.load_policy(run.run_dir).checkpoint.weights
    assert {name: array.tolist() for name, array in before.items()} == {
        name: array.tolist() for name, array in after.items()
    }
