"""`rheos eval`, `rheos plot`, and what a run with rheos-cli installed leaves behind."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from rheos.errors import ConfigError
from rheos.runs.training import train
from rheos.testing import toy
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

    assert 2 == main(["eval", str(run_dir), f"device={device!r}"])

    assert ("", f"rheos: device: got {device!r}.\n") == tuple(capsys.readouterr())


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("backend=nonsense", "No backend 'nonsense'. Installed: toy."),
        ("backend.mode=quick", "backend.mode: got 'quick' (str), expected one of 'auto', 'eager', 'graph'"),
        ("algo=ppo", "algo: rheos eval takes backend=<name>, backend.<setting>=... and device=..."),
        ("stop.env_steps=3", "stop: rheos eval takes backend=<name>, backend.<setting>=... and device=..."),
        ("--devise=cpu", "--devise=cpu: no such flag; `rheos eval --help` shows them"),
        ("backend", "backend: cannot be read: expected key=value, such as backend=torch"),
    ],
)
def test_eval_takes_who_acts_and_nothing_else(run_dir, capsys, word, line):
    assert 2 == main(["eval", str(run_dir), word])

    assert ("", f"rheos: {line}\n") == tuple(capsys.readouterr())


def test_eval_acts_on_the_backend_that_is_named(run_dir, monkeypatch, capsys):
    made = []
    monkeypatch.setattr("rheos.runs.policy.make_backend", lambda *arguments: made.append(arguments) or ToyBackend())

    class ToyBackend(toy.ToyBackend):
        def __init__(self):
            super().__init__(device="cpu", mode="eager", threads=1)

    assert 0 == main(["eval", str(run_dir), "--json"])
    in_numpy = json.loads(capsys.readouterr().out)["episode_returns"]
    assert [] == made
    assert 0 == main(["eval", str(run_dir), "--json", "backend=toy", "backend.mode=eager"])

    assert in_numpy == json.loads(capsys.readouterr().out)["episode_returns"]
    ((config, device, _),) = made
    assert ("toy", "eager", "cpu") == (config.name, config.mode, device)


def test_export_writes_the_policy_and_what_goes_in_and_out_and_checks_it(run_dir, capsys):
    assert 0 == main(["export", str(run_dir), "--to", "npz"])

    first, second = capsys.readouterr().out.splitlines()
    assert first == (
        "run/policy.npz: npz, written by toy; read again, it acts as the policy on 72 observations"
        " (largest difference 0)"
    )
    assert "run/policy.npz.json: what goes in and what comes out" == second
    described = json.loads((run_dir / "policy.npz.json").read_text())
    assert {"observations": {"shape": ["B", 4], "dtype": "float32"}} == described["inputs"]
    assert {"actions": {"shape": ["B"], "dtype": "int32"}} == described["outputs"]
    assert (2000, "Discrete") == (described["env_steps"], described["spaces"]["action"]["type"])


def test_an_export_that_acts_otherwise_is_refused_and_removed(run_dir, monkeypatch, capsys):
    def infer(self, function, networks):
        return lambda inputs: {"actions": np.zeros(len(inputs["observations"]), np.int32)}

    monkeypatch.setattr("rheos.testing.toy.ToyBackend.infer", infer)

    assert 1 == main(["export", str(run_dir), "--to", "npz", "-o", "policy.npz"])

    out, err = capsys.readouterr()
    assert "" == out
    assert err.startswith("rheos: What was exported acts otherwise than the policy: actions are up to 1 apart")
    assert ["run"] == [path.name for path in Path().iterdir()]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--to", "gif"],
            "--to gif: no backend is known that writes it, expected one of npz, onnx, savedmodel, torch.",
        ),
        (
            ["--to", "onnx"],
            "--to onnx: no backend that is installed writes it: pip install 'rheos-backend-torch[onnx]'",
        ),
        (["--to", "onnx", "backend=toy"], "--to onnx: the backend 'toy' cannot: it writes npz."),
        (["--to", "npz", "-o", "run"], "run: there is something already: remove it, or name another place."),
        (["--to", "npz", "-o", "no/where"], "no/where: there is no folder no: make it first."),
        ([], "the following arguments are required: --to; `rheos export --help` shows how it is used"),
    ],
)
def test_an_export_that_cannot_be_is_one_line_and_leaves_nothing(run_dir, capsys, words, line):
    before = sorted(Path().rglob("*"))

    assert 2 == main(["export", str(run_dir), *words])

    assert ("", f"rheos: {line}\n") == tuple(capsys.readouterr())
    assert before == sorted(Path().rglob("*"))


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
