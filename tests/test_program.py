"""What is refused when a run is described, so that it leaves nothing behind and says nothing before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rheos.errors import ConfigError
from rheos.runs.training import train
from rheos_cli.main import main


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", [["train"], ["train", "-m"]], ids=" ".join)
@pytest.mark.parametrize("word", ["device=cuda:99", "device=meta", "device=nonsense", "backend.mode=graf"])
def test_what_the_backend_does_not_have_is_one_line_before_a_run_begins(command, word, tmp_path: Path, capsys):
    code = main([*command, "algo=ppo", "env=cartpole", word])

    out, err = capsys.readouterr()
    key, _, value = word.partition("=")
    assert (2, "", 1) == (code, out, err.count("\n"))
    assert f"{key}: " in err
    assert repr(value) in err
    assert [] == list(tmp_path.iterdir())


def test_in_python_it_is_the_same_error(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"^device: torch cannot use 'meta'"):
        train("ppo", env="CartPole-v1", device="meta")

    assert [] == list(tmp_path.iterdir())


def test_fragments_that_no_memory_holds_are_refused_by_the_setting(capsys):
    assert 2 == main(["train", "algo=ppo", "env=cartpole", "algo.rollout_steps=1e12"])
    assert capsys.readouterr().err.startswith("rheos: algo.rollout_steps: got 1000000000000.0 (float), expected")


def test_a_reader_of_the_progress_that_goes_away_does_not_end_the_run(tmp_path: Path):
    words = [
        "-m",
        "rheos_cli",
        "train",
        "algo=ppo",
        "env=cartpole",
        "logger=none",
        "stop.env_steps=3000",
        "run_dir=run",
    ]
    train = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert train.stdout is not None
    train.stdout.close()

    _, err = train.communicate(timeout=120)

    assert (0, b"") == (train.returncode, err)
    assert "done" == json.loads((tmp_path / "run" / "status.json").read_text())["state"]
