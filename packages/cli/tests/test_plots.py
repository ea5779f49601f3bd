"""Learning curves show what metrics.csv says, and say which run is which."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from rheos.errors import RunFolderError
from rheos.runs.folder import RunFolder
from rheos.runs.metrics_log import MetricsLog
from rheos.runs.status import RunStatus
from rheos_cli.plots import draw_learning_curves


@pytest.fixture
def make_run(tmp_path):
    """Write a run folder without a run."""

    def make(name, *, seed=0, algo="ppo", env="CartPole-v1", goal=None, settings=None, rows=None, **others):
        folder = RunFolder.create(tmp_path / name)
        folder.write_config(
            {
                "algo": {"name": algo, **(settings or {})},
                "env": {"name": "gym", "id": env},
                "seed": seed,
                "stop": {"episode_return": goal},
                "run_dir": name,
                **others,
            }
        )
        folder.write_status(RunStatus())
        log = MetricsLog(folder.metrics_path)
        for row in returns((100, 1.0, 1.5), (200, 2.0, 3.0)) if rows is None else rows:
            log.write(row)
        log.close()
        return folder.path

    return make


def returns(*points):
    """Make rows of env steps, and of one or two returns."""
    names = ("env_steps", "episode_return_mean", "episode_return_recent")
    return [dict(zip(names, point, strict=False)) for point in points]


@pytest.fixture
def drawn(monkeypatch):
    """Catch the figure that is saved, as well as saving it."""
    figures = []
    save = Figure.savefig

    def spy(self, *arguments, **keywords):
        figures.append(self)
        save(self, *arguments, **keywords)

    monkeypatch.setattr(Figure, "savefig", spy)
    return figures


def lines_of(figure):
    return {line.get_label(): list(map(tuple, line.get_xydata())) for line in figure.axes[0].get_lines()}


def test_one_run_is_drawn_with_its_mean_its_spread_and_its_goal(make_run, drawn, tmp_path):
    draw_learning_curves([make_run("a", seed=3, goal=475)], tmp_path / "plot.png")

    lines = lines_of(drawn[0])
    assert [(100.0, 1.0), (200.0, 2.0)] == lines["mean of the last 100 episodes"]
    assert [(100.0, 1.5), (200.0, 3.0)] == lines["newest episodes"]
    assert [475.0, 475.0] == [y for _, y in lines["goal 475"]]
    axes = drawn[0].axes[0]
    assert "ppo on CartPole-v1, seed 3" == axes.get_title(loc="left")
    assert ("environment steps", "episode return") == (axes.get_xlabel(), axes.get_ylabel())
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_evaluations_are_points_with_their_spread(make_run, drawn, tmp_path):
    evaluation = {"eval_return_mean": 5.0, "eval_return_std": 0.5}
    rows = [row | (evaluation if row["env_steps"] == 200 else {}) for row in returns((100, 1.0), (200, 2.0))]

    draw_learning_curves([make_run("a", rows=rows)], tmp_path / "plot.png")

    (bars,) = drawn[0].axes[0].containers
    point, _, (spread,) = bars
    assert "evaluation, ± one standard deviation" == bars.get_label()
    assert [[200.0, 5.0]] == point.get_xydata().tolist()
    assert [[200.0, 4.5], [200.0, 5.5]] == spread.get_segments()[0].tolist()


def test_three_metrics_of_a_run_are_drawn_small_those_first_that_say_most(make_run, drawn, tmp_path):
    metrics = {"my_metric": 1.0, "loss": 2.0, "approx_kl": 0.1, "entropy": 0.7}
    rows = [row | metrics for row in returns((100, 1.0), (200, 2.0))]

    draw_learning_curves([make_run("a", rows=rows)], tmp_path / "plot.png")

    assert ["entropy", "approx_kl", "loss"] == [axes.get_title(loc="left") for axes in drawn[0].axes[1:]]
    assert [0.7, 0.7] == drawn[0].axes[1].get_lines()[0].get_ydata().tolist()


def test_runs_that_differ_in_their_seeds_only_are_a_mean_and_a_band(make_run, drawn, tmp_path):
    runs = [
        make_run("a", seed=1, rows=returns((100, 1.0), (300, 3.0))),
        make_run("b", seed=2, rows=returns((100, 3.0), (200, 5.0), (500, 9.0))),
    ]

    draw_learning_curves(runs, tmp_path / "curves.svg")

    (axes,) = drawn[0].axes
    steps, means = np.array(lines_of(drawn[0])["2 seeds"]).T
    assert (100.0, 300.0) == (steps[0], steps[-1])  # nothing beyond the shortest
    # a is s / 100; b is 1 + s / 50 up to step 200, then 5 + (s - 200) / 75
    b = np.where(steps <= 200, 1 + steps / 50, 5 + (steps - 200) / 75)
    assert np.allclose((steps / 100 + b) / 2, means, rtol=1e-12)
    (band,) = axes.collections
    edges = band.get_paths()[0].vertices
    half = abs(b - steps / 100) / 2  # the standard deviation of two numbers
    assert np.isclose(edges[:, 1].max(), (means + half).max())
    assert np.isclose(edges[:, 1].min(), (means - half).min())
    assert "mean ± one standard deviation" == axes.get_legend().get_title().get_text()
    assert "ppo on CartPole-v1" == axes.get_title(loc="left")


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ([{"learning_rate": 0.001}, {"learning_rate": 0.1}], ["learning_rate=0.001", "learning_rate=0.1"]),
        ([{"hidden_sizes": [64, 64]}, {"hidden_sizes": []}], ["hidden_sizes=[64,64]", "hidden_sizes=[]"]),
        (
            [{"x": {"a": 1}, "y": {"a": 1}}, {"x": {"a": 2}, "y": {"a": 3}}],
            ["algo.x.a=1, algo.y.a=1", "algo.x.a=2, algo.y.a=3"],
        ),
        ([{"old": 1}, {"old": 1, "new": 2}], ["2 runs"]),
    ],
    ids=["a number", "a list", "the same name twice", "a setting that only one of them has"],
)
def test_groups_of_runs_are_named_by_the_settings_that_differ(make_run, drawn, tmp_path, settings, labels):
    runs = [make_run(str(number), settings=each) for number, each in enumerate(settings)]

    draw_learning_curves(runs, tmp_path / "curves.png")

    assert labels == [text.get_text() for text in drawn[0].axes[0].get_legend().get_texts()]


def test_algorithms_go_by_their_names(make_run, drawn, tmp_path):
    runs = [make_run("a", settings={"clip_range": 0.2}), make_run("b", algo="apex", settings={"priority": 0.6})]

    draw_learning_curves(runs, tmp_path / "curves.png")

    assert {"ppo", "apex"} == lines_of(drawn[0]).keys()
    assert "ppo, apex on CartPole-v1" == drawn[0].axes[0].get_title(loc="left")


def test_where_a_run_was_logged_and_saved_does_not_tell_it_apart(make_run, drawn, tmp_path):
    runs = [
        make_run(f"{each}", seed=each, logger={"every_steps": each + 1}, checkpoint={"every_steps": each + 1})
        for each in range(3)
    ]

    draw_learning_curves(runs, tmp_path / "curves.png")

    assert "3 seeds" in lines_of(drawn[0])


def test_every_environment_has_a_panel_and_a_setting_one_color_in_all_of_them(make_run, drawn, tmp_path):
    runs = [
        make_run(f"{env}{rate}", env=env, settings={"rate": rate}, goal=goal)
        for env, goal in (("A-v0", 1.0), ("B-v0", 2.0), ("C-v0", None))
        for rate in (1, 2)
    ]

    draw_learning_curves(runs, tmp_path / "curves.png")

    panels = [axes for axes in drawn[0].axes if axes.get_visible()]
    colors = [{line.get_label(): line.get_color() for line in axes.get_lines()} for axes in panels]
    assert ["ppo on A-v0", "ppo on B-v0", "ppo on C-v0"] == [axes.get_title(loc="left") for axes in panels]
    assert 1 == len({each["rate=1"] for each in colors})
    assert ["goal 1", "goal 2"] == [label for each in colors for label in each if label.startswith("goal")]


def test_a_run_that_has_only_begun_takes_no_band_from_the_others_but_leaves_their_lines(make_run, drawn, tmp_path):
    runs = [make_run("a", seed=1), make_run("b", seed=2), make_run("c", seed=3, rows=[])]

    draw_learning_curves(runs, tmp_path / "curves.png")

    (axes,) = drawn[0].axes
    assert [] == lines_of(drawn[0])["3 seeds"]
    assert [2, 2, 0, 0] == [len(line.get_xdata()) for line in axes.get_lines()]
    assert 0 == len(axes.collections)


def test_a_run_that_is_going_on_can_be_drawn(make_run, drawn, tmp_path):
    run = make_run("a")
    with (run / "metrics.csv").open("a") as file:
        file.write("300,1")  # half a row

    draw_learning_curves([run], tmp_path / "plot.png")

    assert [(100.0, 1.0), (200.0, 2.0)] == lines_of(drawn[0])["mean of the last 100 episodes"]


def test_rows_before_the_first_episode_are_no_points(make_run, drawn, tmp_path):
    run = make_run("a", rows=returns((100, None), (200, 2.0)))

    draw_learning_curves([run], tmp_path / "plot.png")

    assert [(200.0, 2.0)] == lines_of(drawn[0])["mean of the last 100 episodes"]


def test_a_run_without_episodes_says_so(make_run, drawn, tmp_path):
    draw_learning_curves([make_run("a", rows=[])], tmp_path / "plot.png")

    assert ["no episode has ended yet"] == [text.get_text() for text in drawn[0].axes[0].texts]


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match=r"is no run: it has no status\.json"):
        draw_learning_curves([tmp_path], tmp_path / "plot.png")

    assert not (tmp_path / "plot.png").exists()


def test_measurements_that_cannot_be_read_are_refused(make_run, tmp_path):
    run = make_run("a")
    (run / "metrics.csv").write_text("env_steps,loss\n1,high\n")

    with pytest.raises(RunFolderError, match=r"cannot be drawn: could not convert string to float: 'high'"):
        draw_learning_curves([run], tmp_path / "plot.png")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", "algo: {name: [\n  ppo"),
        ("config.yaml", "seed: ${nowhere}\n"),
        ("config.yaml", "stop: {episode_return: high}\n"),
        ("config.yaml", "seed: {a: 1}\n"),
        ("config.yaml", "- a\n- b\n"),
        ("config.yaml", "\x00"),
        ("metrics.csv", "env_steps,episode_return_mean\n1\n"),
    ],
)
def test_a_broken_file_is_refused_in_one_line(make_run, tmp_path, name, text):
    run = make_run("a")
    (run / name).write_text(text)

    with pytest.raises(RunFolderError, match=r"a cannot be drawn: ") as caught:
        draw_learning_curves([run], tmp_path / "plot.png")

    assert "\n" not in str(caught.value)
