"""The live table has a fixed shape: groups of numbers in columns of the same width, whatever the numbers are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from rich.console import Console

from rheos.configuration.run_config import EvalConfig, StopConfig
from rheos.runs.status import RunStatus
from rheos_cli.live_table import LiveTable
from rheos_cli.small_charts import block_chart
from rheos_cli.time_left import TimeLeft

ROW = {
    "env_steps": 2048,
    "wall_s": 2.0,
    "episode_return_mean": 123.45,
    "episode_length_mean": 98.76,
    "env_steps_per_s": 10240.0,
    "episode_return_recent": 130.0,
    "episodes": 30,
    "updates": 64,
    "lag_mean": 0.0,
    "lag_max": 1,
    "policy_loss": -0.0123,
    "value_loss": 12.5,
    "approx_kl": 2.5e-4,
}


def fake_run(*, busy=(), restarts=0, evaluates=False, **stop):
    return SimpleNamespace(
        config=SimpleNamespace(
            stop=StopConfig(**{"env_steps": 10_000, **stop}), eval=EvalConfig(every_steps=1000 if evaluates else None)
        ),
        status=RunStatus(),
        wall_s=4.0,
        busy=dict(busy),
        restarts=restarts,
    )


def drawn(*rows, width=80, height=40, **run):
    table = LiveTable(fake_run(**run))
    for row in rows:
        table.update(row)
    console = Console(width=width, height=height, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(table.draw(width, height))
    return capture.get().splitlines()


def line_with(lines, *words):
    (line,) = [line for line in lines if all(word in line for word in words)]
    return " ".join(line.strip("│ ").split())


def test_before_the_first_row_it_waits():
    lines = drawn()

    assert "0 of 10,000 env steps 0:04 elapsed" == line_with(lines, "env steps")
    assert "waiting for the first rollouts" == line_with(lines, "waiting")


def test_it_shows_how_far_the_run_is_and_how_long_it_takes():
    lines = drawn(ROW)

    # 7,952 steps at 1,024 a second take 7.8 s, of which 2 have passed since that row
    assert "2,048 of 10,000 env steps 0:04 elapsed, 0:06 left" == line_with(lines, "elapsed")
    assert line_with(lines, "━").endswith("20%")


def test_two_groups_of_numbers_are_beside_each_other_in_80_columns():
    lines = drawn(ROW, busy={"driver": 0.93})

    assert "episodes speed" == line_with(lines, "speed")
    assert "return (last 100) 123.5 env steps/s 10,240" == line_with(lines, "env steps/s")
    assert "length 98.8 updates 64" == line_with(lines, "updates")
    assert "count 30 driver busy 93%" == line_with(lines, "driver busy")
    assert "lag 0.00 (at most 1)" == line_with(lines, "lag")
    assert "policy_loss -0.0123 approx_kl 2.50e-04" == line_with(lines, "policy_loss")


def test_who_is_busy_and_how_often_workers_came_anew_is_said():
    lines = drawn(ROW, busy={"driver": 0.12, "rollout": 0.98, "learner": 0.4}, restarts=2)

    assert line_with(lines, "rollout busy").endswith("rollout busy 98%")
    assert line_with(lines, "learner busy").endswith("learner busy 40%")
    assert line_with(lines, "restarts").endswith("restarts 2")


def test_the_curve_is_beside_them_in_120_columns():
    lines = drawn(ROW, width=120)

    assert "episodes speed return" == line_with(lines, "speed")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_every_line_is_as_wide_as_the_frame_whatever_the_numbers_are(width):
    huge = dict.fromkeys(ROW, -123456789000.0) | {"env_steps": 9_999_999, "wall_s": 86_400.0}
    long = {"a_metric_with_a_name_that_is_longer_than_its_column": float("nan")}

    for rows in ([ROW], [ROW, huge], [ROW | long], [huge | long]):
        assert {min(width, 120)} == {len(line) for line in drawn(*rows, width=width)}


def test_the_numbers_stay_in_their_places_from_row_to_row():
    first, second = drawn(ROW), drawn(ROW, ROW | {"policy_loss": 1.5, "env_steps_per_s": 9.0})

    ends = [[line.rstrip("│ ").__len__() for line in lines] for lines in (first, second)]
    assert ends[0] == ends[1]


def test_a_metric_that_a_row_lacks_keeps_its_last_value():
    lines = drawn(ROW, {"env_steps": 4096, "wall_s": 4.0})

    assert "policy_loss -0.0123 approx_kl 2.50e-04" == line_with(lines, "policy_loss")


def test_an_evaluation_is_shown_where_there_are_any():
    before, after = (
        drawn(ROW, evaluates=True),
        drawn(ROW | {"eval_return_mean": 480.0, "eval_return_std": 12.25}, evaluates=True),
    )

    assert line_with(before, "evaluation").startswith("evaluation - ")
    assert line_with(after, "evaluation").startswith("evaluation 480.0 ± 12.2 ")
    assert not any("eval_return" in line for line in after)


def test_the_goal_is_shown_and_makes_the_time_left_a_bound():
    lines = drawn(ROW, episode_return=475.0)

    assert line_with(lines, "stops at").startswith("stops at 475.0 ")
    assert line_with(lines, "elapsed").endswith("at most 0:06 left")


def test_a_run_that_ends_at_a_return_only_has_no_bar():
    lines = drawn(ROW, env_steps=None, episode_return=475.0)

    assert "2,048 env steps 0:04 elapsed" == line_with(lines, "elapsed")
    assert not any("━" in line for line in lines)


def test_a_terminal_of_few_lines_gets_no_curve():
    lines = drawn(ROW, height=15)

    assert len(lines) < 15
    assert "episodes speed" == line_with(lines, "speed")
    assert not any("▁" in line for line in lines)


def test_the_curve_is_as_long_as_the_run_is_far():
    half = [ROW | {"env_steps": steps, "episode_return_mean": float(steps)} for steps in range(1000, 6000, 1000)]

    lines = drawn(*half, height=40)

    bottom = next(line for line in reversed(lines) if "▁" in line)
    assert 33 == len(bottom.strip("│ ").split()[0])  # half of the 66 columns beside the marks
    assert bottom.strip("│ ").endswith("1,000.0")


def test_a_run_in_one_place_is_drawn_at_the_bottom():
    assert ["▁▁▁"] == block_chart([5.0, 5.0, 5.0], width=3)
    assert ["   ", "   "] == block_chart([], width=3, height=2)
    assert ["▁"] == block_chart([5.0, 7.0], width=1)


def test_the_time_left_is_that_of_whichever_stop_comes_first():
    steps, seconds = TimeLeft(StopConfig(env_steps=1000)), TimeLeft(StopConfig(env_steps=1000, seconds=5.0))
    for time_left in (steps, seconds):
        time_left.update(env_steps=100, wall_s=1.0)

    assert 9.0 == steps.at(1.0)
    assert 4.0 == seconds.at(1.0)
    assert 0.0 == steps.at(60.0)
    assert None is TimeLeft(StopConfig(env_steps=None, episode_return=1.0)).at(1.0)
    assert None is TimeLeft(StopConfig(env_steps=1000)).at(1.0)


def test_the_time_left_changes_little_when_one_row_was_slow():
    time_left = TimeLeft(StopConfig(env_steps=100_000))
    for second in range(1, 31):
        time_left.update(env_steps=1000 * second, wall_s=float(second))

    before = time_left.at(30.0)
    time_left.update(env_steps=30_100, wall_s=31.0)

    after = time_left.at(31.0)
    assert 70.0 == pytest.approx(before)
    assert before < after < 1.15 * before  # at the speed of that one row it would be 699 s
