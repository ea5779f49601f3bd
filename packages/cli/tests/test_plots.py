"""Learning curves show what metrics.csv says, and say which run is which."""

from __future__ import annotations

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

    def make(name, *, seed=0, algo="ppo", goal=None, returns=((100, 1.0, 1.5), (200, 2.0, 3.0))):
        folder = RunFolder.create(tmp_path / name)
        folder.write_config(
            {"algo": {"name": algo}, "env": {"id": "CartPole-v1"}, "seed": seed, "stop": {"episode_return": goal}}
        )
        folder.write_status(RunStatus())
        log = MetricsLog(folder.metrics_path)
        for env_steps, mean, recent in returns:
            log.write({"env_steps": env_steps, "episode_return_mean": mean, "episode_return_recent": recent})
        log.close()
        return folder.path

    return make


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


def test_several_runs_are_named_by_what_tells_them_apart(make_run, drawn, tmp_path):
    runs = [make_run("a", seed=1), make_run("b", seed=2, returns=((50, 9.0, 9.0),))]

    draw_learning_curves(runs, tmp_path / "curves.svg")

    assert {"seed 1": [(100.0, 1.0), (200.0, 2.0)], "seed 2": [(50.0, 9.0)]} == lines_of(drawn[0])
    assert "ppo on CartPole-v1" == drawn[0].axes[0].get_title(loc="left")


def test_runs_that_nothing_tells_apart_are_named_by_their_folders(make_run, drawn, tmp_path):
    draw_learning_curves([make_run("a"), make_run("b")], tmp_path / "curves.png")

    assert {"a", "b"} == lines_of(drawn[0]).keys()


def test_rows_before_the_first_episode_are_no_points(make_run, drawn, tmp_path):
    run = make_run("a", returns=((100, None, None), (200, 2.0, 2.0)))

    draw_learning_curves([run], tmp_path / "plot.png")

    assert [(200.0, 2.0)] == lines_of(drawn[0])["mean of the last 100 episodes"]


def test_a_run_without_episodes_says_so(make_run, drawn, tmp_path):
    draw_learning_curves([make_run("a", returns=())], tmp_path / "plot.png")

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
