"""`rheos train -m`: all jobs are checked first, each has a folder of its own, and one that fails is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rheos.configuration.run_config import RunConfig
from rheos.errors import EnvironmentFailed, UnknownName
from rheos.runs.status import RunState
from rheos_cli.main import main

BASE = ["algo=walk", "backend=fake", "logger=none"]

TOY = "from rheos.testing.toy import rheos_algorithms, rheos_backends"


def test_every_job_of_a_multirun_has_a_folder_of_its_own(runs, empty_folder):
    code = main(["train", "-m", *BASE, "seed=3,4"])

    folders = [Path(config.run_dir or "") for config in runs.configs]
    assert (0, [3, 4]) == (code, [config.seed for config in runs.configs])
    assert ["0", "1"] == [folder.name for folder in folders]
    assert folders[0].parent == folders[1].parent
    assert Path("runs/multirun") == folders[0].parent.parent
    assert [folders[0].parent / "multirun.yaml"] == [p.relative_to(empty_folder) for p in empty_folder.rglob("*.yaml")]


def test_run_dir_of_a_multirun_holds_the_folders_of_its_jobs(runs):
    main(["train", "-m", *BASE, "seed=3,4", "run_dir=out"])

    assert ["out/0", "out/1"] == [Path(config.run_dir or "").as_posix() for config in runs.configs]


def test_all_jobs_are_checked_before_the_first_one_starts(runs, empty_folder, capsys):
    code = main(["train", "-m", *BASE, "algo.learning_rate=0.1,0.2,-1"])

    assert 2 == code
    assert capsys.readouterr().err == (
        "rheos: job 2 (algo=walk backend=fake logger=none algo.learning_rate=-1): "
        "algo.learning_rate: got -1 (int), expected a number > 0\n"
    )
    assert ([], []) == (runs.configs, list(empty_folder.iterdir()))


def test_what_the_algorithm_or_the_environment_refuses_is_found_in_that_check(runs, monkeypatch, capsys):
    def refuse(config: RunConfig, registry: Any) -> None:
        if config.env.id == "NoSuch-v0":
            raise UnknownName("No environment 'NoSuch-v0'.")

    monkeypatch.setattr("rheos.runs.program.prepare", refuse)

    code = main(["train", "-m", *BASE, "env=gym", "env.id=CartPole-v1,NoSuch-v0"])

    assert (2, []) == (code, runs.configs)
    assert capsys.readouterr().err.endswith("env.id=NoSuch-v0): No environment 'NoSuch-v0'.\n")


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["-m", "run_dir=file"], "file/0"),
        (["-m", "hydra.sweep.dir=file"], "job 0 (algo=walk backend=fake logger=none): run_dir=file/0: "),
        (["-m", "hydra.sweep.dir=${run_dir}", "run_dir=file/deep"], "file/deep/0"),
        (["hydra.run.dir=file/deep"], "file/deep"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_folder_that_cannot_be_made_is_one_line_and_nothing_runs(words, folder, runs, empty_folder, capsys):
    (empty_folder / "file").write_text("in the way")

    code = main(["train", *BASE, *words])

    out, err = capsys.readouterr()
    assert (2, "", 1) == (code, out, err.count("\n"))
    assert folder in err
    assert ([], ["file"]) == (runs.configs, [path.name for path in empty_folder.iterdir()])


def test_a_multirun_in_the_folder_of_another_is_refused_before_its_first_job(runs, empty_folder, capsys):
    (empty_folder / "out" / "1").mkdir(parents=True)
    (empty_folder / "out" / "1" / "config.yaml").touch()

    code = main(["train", "-m", *BASE, "seed=3,4,5", "run_dir=out"])

    out, err = capsys.readouterr()
    assert (2, "", []) == (code, out, runs.configs)
    assert err.startswith(
        "rheos: job 1 (algo=walk backend=fake logger=none seed=4 run_dir=out): run_dir=out/1: there is"
    )
    assert ["1"] == [path.name for path in (empty_folder / "out").iterdir()]


def test_a_job_that_fails_is_named_and_the_others_still_run(runs, capsys):
    runs.failures[4] = EnvironmentFailed("it fell over")

    code = main(["train", "-m", *BASE, "seed=3,4,5"])

    assert (1, [3, 4, 5]) == (code, [config.seed for config in runs.configs])
    job = "1 (algo=walk backend=fake logger=none seed=4)"
    assert [f"rheos: job {job}: it fell over", f"rheos: 1 of 3 jobs failed: {job}"] == (
        capsys.readouterr().err.splitlines()
    )


def test_ctrl_c_ends_the_whole_multirun_and_names_the_jobs_that_did_not_start(runs, capsys):
    runs.state = RunState.INTERRUPTED

    code = main(["train", "-m", *BASE, "seed=3,4,5"])

    job = "algo=walk backend=fake logger=none"
    assert (130, [3]) == (code, [config.seed for config in runs.configs])
    assert f"rheos: interrupted: 2 of 3 jobs not started: 1 ({job} seed=4); 2 ({job} seed=5)\n" == (
        capsys.readouterr().err
    )


def test_a_multirun_says_at_its_end_where_its_runs_are_and_what_to_type_next(runs, capsys):
    main(["train", "-m", *BASE, "seed=3,4", "run_dir=my sweep"])

    assert "Multirun: my sweep  next: rheos plot 'my sweep'" == capsys.readouterr().out.splitlines()[-1]
