"""`rheos graph`: the flow of an installed algorithm, in two forms; no actor is started, nothing is written."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rheos.plugins import Kind, load_registry
from rheos_cli.main import main


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def test_both_forms_are_printed_and_no_actor_is_started(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr("rheos_ppo.roles.make_ppo_worker", lambda *_: pytest.fail("a worker was made"))
    monkeypatch.setattr("rheos_ppo.roles.make_ppo_learner", lambda *_: pytest.fail("a learner was made"))
    threads = threading.active_count()

    code = main(["graph", "algo=ppo", "executor.workers=3"])

    text, _, drawing = capsys.readouterr().out.partition("\n\n")
    assert 0 == code
    assert ["from_actors", "gather_sync", "ask", "tell"] == [
        verb
        for line in text.splitlines()
        for verb in ("from_actors", "gather_sync", "ask", "tell")
        if line.split()[1].startswith(verb)
    ]
    assert drawing.startswith("flowchart")
    assert "rollout-2" in drawing
    assert (threads, []) == (threading.active_count(), list(tmp_path.iterdir()))


@pytest.mark.parametrize(("form", "begins"), [("text", "  1  from_actors"), ("mermaid", "flowchart")])
def test_one_form_can_be_asked_for(form: str, begins: str, capsys):
    main(["graph", "--format", form, "algo=ppo"])

    assert capsys.readouterr().out.startswith(begins)


def test_mistakes_are_those_of_train(capsys):
    installed = ", ".join(load_registry().names(Kind.ALGORITHM))

    assert 2 == main(["graph", "algo=pppo"])
    assert f"rheos: No algorithm 'pppo'. Did you mean 'ppo'? Installed: {installed}.\n" == capsys.readouterr().err
    assert 2 == main(["graph", "algo=ppo", "algo.lr=1"])
    assert "Did you mean 'algo.learning_rate'?" in capsys.readouterr().err
    assert 2 == main(["graph", "algo=ppo", "env=gym", "env.id=CartPol-v1"])
    assert "Did you mean 'CartPole-v1'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("flow.png", b"\x89PNG"),
        ("flow.SVG", b"<?xml"),
        ("flow.pdf", b"%PDF"),
        ("flow.mmd", b"flowchart"),
        ("flow.txt", b"  1  from_actors"),
    ],
)
def test_it_is_written_as_its_ending_says(name: str, begins: bytes, tmp_path: Path, capsys):
    code = main(["graph", "algo=ppo", "executor.workers=3", "-o", name])

    assert (0, f"{name}\n") == (code, capsys.readouterr().out)
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert [name] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flow.jpg", "-o flow.jpg: got '.jpg', expected one of .png, .svg, .pdf, .mmd, .txt."),
        ("flow", "-o flow: got no ending, expected one of .png, .svg, .pdf, .mmd, .txt."),
        ("nowhere/flow.png", "-o nowhere/flow.png: there is no folder nowhere: make it first."),
        ("taken.png", "-o taken.png: it cannot be written: [Errno 21] Is a directory: 'taken.png'"),
        ("taken.mmd", "-o taken.mmd: it cannot be written: [Errno 21] Is a directory: 'taken.mmd'"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(name: str, message: str, tmp_path: Path, capsys):
    (tmp_path / "taken.png").mkdir()
    (tmp_path / "taken.mmd").mkdir()

    code = main(["graph", "algo=ppo", "-o", name])

    assert (2, f"rheos: {message}\n") == (code, capsys.readouterr().err)
