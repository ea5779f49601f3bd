"""`rheos train -m hydra/launcher=rheos_ray`: the jobs of a multirun are processes on a Ray cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rheos.runs.folder import RunFolder
from rheos.runs.status import RunState
from rheos_cli.main import main

SWEEP = ["algo=ppo", "env=cartpole", "stop.env_steps=2000", "run_dir=sweep"]
LAUNCHER = ["hydra/launcher=rheos_ray", "hydra.launcher.address=local"]


def test_the_jobs_of_a_multirun_run_on_ray_each_in_its_own_folder(tmp_path: Path):
    command = [sys.executable, "-m", "rheos_cli", "train", "-m", *LAUNCHER, *SWEEP, "seed=0,1"]

    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    folders = [tmp_path / "sweep" / number for number in ("0", "1")]
    lines = result.stdout.splitlines()
    assert (0, "") == (result.returncode, result.stderr)
    assert [RunState.DONE] * 2 == [RunFolder(folder).read_status().state for folder in folders]
    assert all("\nDone: " in (folder / "output.log").read_text() for folder in folders)
    jobs = [f"{seed} (algo=ppo env=cartpole stop.env_steps=2000 run_dir=sweep seed={seed})" for seed in (0, 1)]
    assert {f"job {job} {what}" for job in jobs for what in ("begins", "is done")} == set(lines[:-1])
    assert "Multirun: sweep  next: rheos plot sweep" == lines[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algo.learning_rate=0.1,-1"], "algo.learning_rate=-1): algo.learning_rate: got -1 (int), expected a number"),
        (["seed=0,1", "hydra.launcher.num_cpus=0"], "hydra.launcher.num_cpus: got 0 (int), expected a number > 0"),
        (
            ["seed=0,1", "hydra.launcher.num_cpu=2"],
            "hydra.launcher.num_cpu: no such setting. Did you mean 'hydra.launcher.num_cpus'? Settings: address,",
        ),
        (["seed=0,1", "hydra.launcher.executor=threads"], "got 'threads', expected an executor that runs jobs."),
    ],
    ids=["job", "setting", "misspelt", "executor"],
)
def test_what_cannot_be_is_one_line_and_nothing_starts_or_is_left(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    code = main(["train", "-m", *LAUNCHER, *SWEEP, *words])

    out, err = capsys.readouterr()
    assert (2, "", 1) == (code, out, err.count("\n"))
    assert message in err
    assert [] == list(tmp_path.iterdir())
