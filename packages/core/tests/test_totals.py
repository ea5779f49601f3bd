"""Reports add up; means are over what they say they are over."""

from __future__ import annotations

import pytest

from rheos.batches import Episode
from rheos.reports import Report
from rheos.runs.evaluation_result import EvaluationResult
from rheos.runs.totals import FIRST_COLUMNS, Totals


def episodes(*returns: float) -> tuple[Episode, ...]:
    return tuple(Episode(value, 10) for value in returns)


def totals_of(*reports: Report) -> Totals:
    totals = Totals()
    for report in reports:
        totals.add(report)
    return totals


def test_counts_add_up():
    totals = totals_of(
        Report(env_steps=10, agent_steps=20, updates=1, episodes=episodes(1.0, 2.0)), Report(env_steps=5, updates=2)
    )

    assert (15, 20, 3, 2) == (totals.env_steps, totals.agent_steps, totals.updates, totals.episodes)


def test_the_mean_return_is_over_the_last_100_episodes():
    totals = totals_of(Report(episodes=episodes(*[-1000.0] * 50)), Report(episodes=episodes(*[4.0] * 99, 104.0)))

    assert 5.0 == totals.episode_return_mean


@pytest.mark.parametrize(("count", "expected"), [(99, False), (100, True), (101, True)])
def test_a_window_is_full_with_100_episodes(count, expected):
    assert expected is totals_of(Report(episodes=episodes(*[1.0] * count))).has_full_window


def test_before_the_first_episode_there_is_no_mean():
    assert totals_of(Report(env_steps=5)).episode_return_mean is None


def test_a_row_begins_with_the_same_columns_always():
    assert list(FIRST_COLUMNS) == list(Totals().take_row(1.0))


def test_a_row_tells_what_came_since_the_row_before():
    totals = totals_of(Report(env_steps=100, episodes=episodes(1.0)))
    totals.take_row(2.0)
    totals.add(Report(env_steps=300, episodes=episodes(5.0, 7.0)))

    row = totals.take_row(4.0)

    assert (400, 150.0) == (row["env_steps"], row["env_steps_per_s"])
    assert 6.0 == row["episode_return_recent"]
    assert pytest.approx(13.0 / 3) == row["episode_return_mean"]


def test_a_metric_is_a_mean_over_updates():
    totals = totals_of(Report(updates=1, metrics={"loss": 1.0}), Report(updates=3, metrics={"loss": 5.0}))

    assert 4.0 == totals.take_row(1.0)["loss"]


def test_a_metric_that_was_not_reported_since_is_not_in_the_row():
    totals = totals_of(Report(updates=1, metrics={"loss": 1.0}))
    totals.take_row(1.0)
    totals.add(Report(env_steps=1))

    assert "loss" not in totals.take_row(2.0)


def test_lag_is_the_mean_and_the_maximum_of_what_learned():
    totals = totals_of(Report(env_steps=9), Report(updates=1, lag=(0, 1.0, 2)), Report(updates=1, lag=(1, 2.0, 5)))

    row = totals.take_row(1.0)

    assert (1.5, 5) == (row["lag_mean"], row["lag_max"])


def test_a_metric_cannot_pass_for_a_number_of_the_run():
    totals = totals_of(Report(env_steps=8, metrics={"env_steps": 1e9}))

    assert 8 == totals.take_row(1.0)["env_steps"]


def evaluation(*returns: float) -> EvaluationResult:
    lengths = tuple(int(value) for value in returns)
    return EvaluationResult(run_dir="run", env_steps=0, seed=0, episode_returns=returns, episode_lengths=lengths)


def test_an_evaluation_is_in_the_next_row_only():
    totals = totals_of(Report(env_steps=100))
    totals.add_evaluation(evaluation(1.0, 5.0), seconds=1.0)

    row = totals.take_row(2.0)
    totals.add(Report(env_steps=100))

    assert (3.0, 2.0, 3.0) == (row["eval_return_mean"], row["eval_return_std"], row["eval_length_mean"])
    assert list(FIRST_COLUMNS) == list(totals.take_row(4.0))


def test_the_time_of_an_evaluation_is_none_in_which_env_steps_were_taken():
    totals = totals_of(Report(env_steps=300))
    totals.add_evaluation(evaluation(1.0), seconds=7.0)

    assert 100.0 == totals.take_row(10.0)["env_steps_per_s"]


def test_an_evaluation_alone_is_news_and_has_no_speed():
    totals = Totals()
    totals.add_evaluation(evaluation(1.0), seconds=1.0)

    assert totals.has_news
    assert totals.take_row(2.0)["env_steps_per_s"] is None


def test_a_metric_cannot_pass_for_an_evaluation():
    totals = totals_of(Report(env_steps=8, metrics={"eval_return_mean": 1e9}))
    totals.add_evaluation(evaluation(4.0), seconds=1.0)

    assert 4.0 == totals.take_row(2.0)["eval_return_mean"]
