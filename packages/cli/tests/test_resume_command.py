"""`rheos resume`: what may be another from here on, and what is refused before anything has changed."""

from __future__ import annotations

import pytest

from rheos.runs.status import RunResult, RunState
from rheos.runs.training import train
from rheos.testing.toy import toy_registry
from rheos_cli.main import main


@pytest.fixture
def run_dir(tmp_path):
    """A run of the toy that is done."""
    return train(
        "toy",
        env="CartPole-v1",
        backend="toy",
        run_dir=tmp_path / "run",
        stop={"env_steps": 300},
        registry=toy_registry(),
    ).run_dir


@pytest.fixture
def asked(monkeypatch):
    """What the command asks for, in place of a run."""
    seen = []

    def resume_run(run_dir, changes, registry, observers=()):
        seen.append(changes)
        return RunResult(state=RunState.DONE, run_dir=run_dir)

    monkeypatch.setattr("rheos.runs.resuming.resume_run", resume_run)
    return seen


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ([], {}),
        (["stop.env_steps=1_000_000"], {"stop": {"env_steps": 1_000_000}}),
        (["stop.env_steps=null", "stop.seconds=1e2"], {"stop": {"env_steps": None, "seconds": 100.0}}),
        (["++checkpoint.reset_environments=false"], {"checkpoint": {"reset_environments": False}}),
        (["logger.names=[]", "device=cuda"], {"logger": {"names": []}, "device": "cuda"}),
        (["algo=dqn", "algo.gamma=0.9"], {"algo": {"name": "dqn", "gamma": 0.9}}),
        (["executor=threads"], {"executor": {"name": "threads"}}),
        (["logger=tensorboard"], {"logger": {"names": ["tensorboard"]}}),
    ],
)
def test_words_are_read_as_in_training(run_dir, asked, words, changes):
    code = main(["resume", str(run_dir), *words, "-q"])

    assert 0 == code
    assert [changes] == asked


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["stop.env_steps"], "stop.env_steps: cannot be read: expected key=value"),
        (["~stop"], "~stop: expected one value for a setting"),
        (["seed=1,2"], "seed=1,2: expected one value for a setting"),
        (["--multirun"], "--multirun: no such flag"),
        (["exp=pong_ppo"], "exp=pong_ppo: a preset is for a new run"),
        (["logger=tensorbord"], "logger=tensorbord: Did you mean 'tensorboard'? Installed: "),
        (["env=moon"], "env=moon: Installed: "),
    ],
)
def test_what_is_no_setting_is_refused_in_one_line(run_dir, asked, words, message, capsys):
    code = main(["resume", str(run_dir), *words])

    assert 2 == code
    assert capsys.readouterr().err.startswith(f"rheos: {message}")
    assert [] == asked


@pytest.mark.parametrize("words", [["nowhere"], ["nowhere", "stop"]])
def test_a_folder_that_is_no_run_is_told_first(empty_folder, words, capsys):
    assert 2 == main(["resume", *words])
    assert "rheos: nowhere is no run: there is no such folder.\n" == capsys.readouterr().err


def test_the_run_itself_must_be_given(capsys):
    assert 2 == main(["resume"])
    assert "the following arguments are required: RUN" in capsys.readouterr().err


def test_an_interruption_is_told_by_the_exit_code(run_dir, monkeypatch):
    monkeypatch.setattr(
        "rheos.runs.resuming.resume_run",
        lambda run_dir, *others, **more: RunResult(state=RunState.INTERRUPTED, run_dir=run_dir),
    )

    assert 130 == main(["resume", str(run_dir)])
