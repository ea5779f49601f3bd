"""`rheos eval`, `rheos plot`, and what a run with rheos-cli installed leaves behind."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from rheos.errors import ConfigError
from rheos.runs.training import train
from rheos.testing.toy import toy_registry
from rheos_cli.main import main


@pytest.fixture
def run_dir(tmp_path, monkeypatch):
    """Train the toy below an empty folder, with rheos-cli installed and nothing else."""
    registry = toy_registry("rheos-cli")
    monkeypatch.setattr("rheos.plugins.loading._installed", lambda: registry)
    monkeypatch.chdir(tmp_path)
    return train("toy", env="CartPole-v1", backend="toy", seed=3, run_dir="run", stop={"env_steps": 2000}).run_dir


def test_a_run_leaves_a_picture_and_event_files(run_dir):
    assert (run_dir / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert 1 == len(list((run_dir / "tb").iterdir()))


def test_eval_prints_what_a_person_wants_to_know(run_dir, capsys):
    assert 0 == main(["eval", str(run_dir), "--episodes", "3"])

    first, returns, lengths = capsys.readouterr().out.splitlines()
    assert "run, weights at 2,000 env steps, 3 episodes, seed 0" == first
    assert re.fullmatch(r"return  \d+\.\d ± \d+\.\d  \(from \d+\.0 to \d+\.0\)", returns)
    assert re.fullmatch(r"length  \d+\.\d env steps", lengths)


def test_eval_prints_json(run_dir, capsys):
    assert 0 == main(["eval", str(run_dir), "--episodes", "5", "--seed", "7", "--json"])

    result = json.loads(capsys.readouterr().out)
    assert (5, 7, 2000) == (result["episodes"], result["seed"], result["env_steps"])
    assert min(result["episode_returns"]) == result["episode_return_min"]


def test_eval_of_one_checkpoint(run_dir, capsys):
    assert 0 == main(["eval", str(run_dir / "checkpoints" / "2000"), "--json"])

    assert 2000 == json.loads(capsys.readouterr().out)["env_steps"]


@pytest.mark.parametrize("command", ["eval", "plot"])
@pytest.mark.parametrize(("folder", "reason"), [(".", "it has no status.json"), ("nowhere", "there is no such folder")])
def test_a_folder_that_is_no_run_is_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, command, folder, reason):
    monkeypatch.chdir(tmp_path)

    assert 2 == main([command, folder])

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rheos: {folder} is no run: {reason}")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["--episodes", "0"], ["--seed", "-1"]])
def test_eval_refuses_impossible_numbers(run_dir, capsys, arguments):
    assert 2 == main(["eval", str(run_dir), *arguments])

    assert 1 == len(capsys.readouterr().err.splitlines())


@pytest.mark.parametrize("device", ["nonsense", ""])
def test_eval_refuses_a_device_that_the_backend_does_not_have_also_for_small_networks(
    run_dir, device, monkeypatch, capsys
):
    def refuse(self, *, device, mode, threads):
        raise ConfigError(f"device: got {device!r}.")

    monkeypatch.setattr("rheos.testing.toy.ToyBackend.__init__", refuse)

    assert 2 == main(["eval", str(run_dir), "--device", device])

    assert ("", f"rheos: device: got {device!r}.\n") == tuple(capsys.readouterr())


def test_eval_in_an_environment_that_fails_is_its_traceback_and_one_line_and_exit_code_1(run_dir, monkeypatch, capsys):
    def fail(self, **kwargs):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("gymnasium.envs.classic_control.cartpole.CartPoleEnv.reset", fail)
    monkeypatch.setattr("gymnasium.envs.classic_control.cartpole.CartPoleVectorEnv.reset", fail)

    assert 1 == main(["eval", str(run_dir)])

    out, err = capsys.readouterr()
    (line,) = [line for line in err.splitlines() if line.startswith("rheos: ")]
    assert ("", 1) == (out, err.count("Traceback"))
    assert line.startswith("rheos: evaluation-0, ")
    assert line.endswith("ZeroDivisionError: division by zero")


def test_plot_of_a_multirun_draws_its_jobs_in_their_order(run_dir, monkeypatch):
    drawn: list[str] = []
    monkeypatch.setattr("rheos_cli.plots.draw_learning_curves", lambda runs, output: drawn.extend(map(str, runs)))
    for job in (0, 2, 10):
        shutil.copytree(run_dir, Path("sweep", str(job)))
    Path("sweep", "multirun.yaml").write_text("")

    assert 0 == main(["plot", "sweep", str(run_dir), "-o", "all.png"])

    assert ["sweep/0", "sweep/2", "sweep/10", str(run_dir)] == drawn


def test_plot_of_one_run_goes_into_its_folder(run_dir, capsys):
    (run_dir / "plot.png").unlink()

    assert 0 == main(["plot", str(run_dir)])

    assert "run/plot.png\n" == capsys.readouterr().out
    assert (run_dir / "plot.png").exists()


def test_plot_of_several_runs_goes_where_it_is_told(run_dir, tmp_path, capsys):
    assert 0 == main(["plot", str(run_dir), str(run_dir), "-o", "both.svg"])

    assert "both.svg\n" == capsys.readouterr().out
    assert "<svg" in (tmp_path / "both.svg").read_text()


@pytest.mark.parametrize("output", ["curve.docx", "no/such/folder/curve.png"])
def test_plot_refuses_what_it_cannot_write_in_one_line(run_dir, capsys, output):
    assert 2 == main(["plot", str(run_dir), "-o", output])

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rheos: -o {output}: the picture cannot be written")
