"""A run folder belongs to one run for ever, and is whole or not there."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from rheos.errors import RunFolderError
from rheos.runs import folder as folder_module
from rheos.runs.folder import RunFolder, default_run_path
from rheos.runs.status import RunState, RunStatus


@pytest.fixture
def somewhere(tmp_path, monkeypatch):
    """Work in an empty folder, at one moment that does not pass."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folder_module.time, "strftime", lambda form: "20250130-101500")
    return tmp_path


@pytest.mark.parametrize(
    ("algorithm", "environment", "expected"),
    [
        ("ppo", "CartPole-v1", "runs/ppo-cartpole/20250130-101500-seed3"),
        ("ppo", "ALE/Pong-v5", "runs/ppo-ale-pong/20250130-101500-seed3"),
        ("My_Algo", "package.module:Env-v0", "runs/my-algo-package-module-env/20250130-101500-seed3"),
    ],
)
def test_the_default_path_says_what_ran_and_when(somewhere, algorithm, environment, expected):
    assert expected == default_run_path(algorithm, environment, 3).as_posix()


def test_jobs_that_start_in_the_same_second_get_folders_of_their_own(somewhere):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: RunFolder.create_default("ppo", "CartPole-v1", 0).path.name, range(8)))

    first = "20250130-101500-seed0"
    assert {first, *(f"{first}-{number}" for number in range(2, 9))} == set(made)


def test_of_many_jobs_with_one_run_dir_exactly_one_gets_it(somewhere):
    def attempt(_):
        try:
            return RunFolder.create(somewhere / "run")
        except RunFolderError:
            return None

    with ThreadPoolExecutor(8) as pool:
        made = [folder for folder in pool.map(attempt, range(8)) if folder is not None]

    assert 1 == len(made)


@pytest.mark.parametrize("name", ["config.yaml", "status.json", "metrics.csv", "flow.mmd", "plot.png"])
def test_a_folder_that_holds_anything_of_a_run_is_refused_and_left_as_it_is(somewhere, name):
    run = somewhere / "run"
    run.mkdir()
    (run / name).write_text("precious")

    with pytest.raises(RunFolderError, match=rf"there is {name} already, and a run is never overwritten"):
        RunFolder.create(run)

    assert ["precious"] == [path.read_text() for path in run.iterdir()]


def test_a_folder_of_something_else_is_taken(somewhere):
    run = somewhere / "job"
    (run / ".hydra").mkdir(parents=True)

    RunFolder.create(run)

    assert {".hydra", "config.yaml"} == {path.name for path in run.iterdir()}


def test_a_run_dir_that_is_a_file_is_refused_in_one_line(somewhere):
    (somewhere / "file").write_text("precious")

    with pytest.raises(RunFolderError, match=r"run_dir=.*file: the folder cannot be made \(Not a directory\)"):
        RunFolder.create(somewhere / "file")

    assert "precious" == (somewhere / "file").read_text()


def test_discarding_removes_what_was_made_and_nothing_else(somewhere):
    (somewhere / "runs").mkdir()
    (somewhere / "runs" / "notes.txt").write_text("precious")
    folder = RunFolder.create_default("ppo", "CartPole-v1", 0)
    folder.write_status(RunStatus())
    (folder.tensorboard_path).mkdir()

    folder.discard()

    assert ["runs", "runs/notes.txt"] == sorted(path.relative_to(somewhere).as_posix() for path in somewhere.rglob("*"))


def test_discarding_keeps_a_folder_that_was_there_before(somewhere):
    (somewhere / "run").mkdir()

    RunFolder.create(somewhere / "run").discard()

    assert [] == list((somewhere / "run").iterdir())


def test_the_status_comes_back_as_it_was_written(somewhere):
    status = RunStatus(
        state=RunState.FAILED, reason="ZeroDivisionError: …", env_steps=7, wall_s=1.5, weights_sha256="ab", episodes=2
    )
    folder = RunFolder.create(somewhere / "run")

    folder.write_status(status)

    assert status == folder.read_status()


def test_a_mean_that_is_not_finite_is_still_json(somewhere):
    folder = RunFolder.create(somewhere / "run")

    folder.write_status(RunStatus(episode_return_mean=float("nan")))

    assert json.loads(folder.status_path.read_text(), parse_constant=pytest.fail)["episode_return_mean"] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is no run: it has no status.json"),
        ("{", "cannot be read: JSONDecodeError"),
        ("[]", "cannot be read: AttributeError"),
        ("{}", "cannot be read: KeyError"),
        ('{"state": "asleep"}', "cannot be read: ValueError"),
    ],
)
def test_a_folder_that_is_no_run_is_an_error_of_one_line(somewhere, content, message):
    run = somewhere / "run"
    run.mkdir()
    if content is not None:
        (run / "status.json").write_text(content)

    with pytest.raises(RunFolderError, match=message) as caught:
        RunFolder(run).read_status()

    assert "\n" not in str(caught.value)


def test_a_folder_that_does_not_exist_is_no_run(somewhere):
    with pytest.raises(RunFolderError, match=r"nowhere is no run: there is no such folder"):
        RunFolder(somewhere / "nowhere").read_status()
