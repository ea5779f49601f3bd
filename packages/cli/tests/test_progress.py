"""What a person sees of a run: how it gets on, how it ended, where it lies and what to type next."""

from __future__ import annotations

import contextlib
import io
import os
import signal

import pytest
from rich.console import Console

from rheos.errors import PluginError
from rheos.plugins import hookimpl
from rheos.runs.training import train
from rheos.testing.toy import toy_registry
from rheos_cli.live_progress import LiveProgress
from rheos_cli.progress import PlainProgress, make_progress


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def watch(*, is_live=False, width=60, height=50, run_dir="run", algo=None, observers=(), stop=None, evaluation=None):
    """Train the toy and return what is shown of it."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=width, height=height, highlight=False, color_system=None)
    with contextlib.suppress(KeyboardInterrupt, ZeroDivisionError, PluginError):
        train(
            {"name": "toy", **(algo or {})},
            env="CartPole-v1",
            backend="toy",
            run_dir=run_dir,
            stop=stop or {"env_steps": 3000},
            eval=evaluation,
            logger={"every_steps": 1000},
            observers=[LiveProgress(console) if is_live else PlainProgress(output), *observers],
            registry=toy_registry(),
        )
    return output.getvalue()


def test_a_run_that_reaches_its_return_is_solved_and_the_last_line_says_what_to_type():
    *_, outcome, last = watch(stop={"episode_return": 15.0}).splitlines()

    assert outcome.startswith("Solved: mean return 15.")
    assert " over the last 100 episodes at 2,000 env steps (" in outcome
    assert "Run: run  next: rheos eval run" == last


def test_a_run_that_ends_otherwise_is_done_and_says_why():
    *_, outcome, _ = watch(stop={"env_steps": 500}).splitlines()

    assert outcome.startswith("Done: mean return ")
    assert " over 50 episodes at 500 env steps (" in outcome
    assert outcome.endswith("; stop.env_steps=500 reached.")


def test_a_run_that_fails_says_so_with_its_cause():
    *_, outcome, last = watch(algo={"fails_in_round": 3}).splitlines()

    assert outcome.startswith("Failed at 200 env steps (")
    assert "): ZeroDivisionError: division by zero (in stage 3" in outcome
    assert "Run: run" == last  # no weights were saved: nothing to evaluate


def test_a_run_that_is_interrupted_says_so():
    class Interrupt:
        @hookimpl
        def rheos_report(self, run, row):
            signal.raise_signal(signal.SIGINT)

    *_, outcome, last = watch(observers=[Interrupt()]).splitlines()

    assert outcome.startswith("Interrupted at 1,000 env steps (")
    assert last.endswith("next: rheos resume run")


def test_without_a_terminal_a_run_is_a_few_plain_lines():
    text = watch()

    first, second, *_ = text.splitlines()
    assert "toy on CartPole-v1, seed 0 -> run" == first
    assert second.split()[:4] == ["1,000", "env", "steps", "return"]
    assert "\x1b" not in text
    assert 4 == len(text.splitlines())  # a line every five seconds, and this took none


def test_every_evaluation_has_a_line_of_its_own():
    lines = watch(evaluation={"every_steps": 1000, "episodes": 2}).splitlines()

    evaluations = [line for line in lines if "eval return" in line]
    assert ["1,000", "2,000", "3,000"] == [line.split()[0] for line in evaluations]


def test_on_a_terminal_there_is_a_table_which_stays_above_how_the_run_ended():
    text = watch(is_live=True, width=80)

    first, *_, outcome, last = text.splitlines()
    table = text[text.rindex("╭") :]
    assert "toy on CartPole-v1, seed 0 -> run" == first.split("\x1b")[0]
    assert "3,000 of 3,000 env steps" in table
    assert "100%" in table
    assert "toy_loss" in table
    assert table.index("╯") < table.index("Done: mean return")
    assert outcome.removeprefix("\x1b[?25h").startswith("Done: ")
    assert "Run: run  next: rheos eval run" == last


def test_a_terminal_that_never_saw_a_row_shows_no_table_at_the_end():
    text = watch(is_live=True, algo={"fails_in_round": 1})

    assert "Failed at 0 env steps" in text
    assert "╭" not in text[text.rindex("Failed") :]


@pytest.mark.parametrize(
    ("is_plain", "is_terminal", "term", "kind"),
    [
        (False, True, "xterm-256color", LiveProgress),
        (True, True, "xterm-256color", PlainProgress),
        (False, False, "xterm-256color", PlainProgress),
        (False, True, "dumb", PlainProgress),
    ],
)
def test_a_table_is_only_for_a_terminal_that_can_show_it(is_plain, is_terminal, term, kind, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    monkeypatch.setenv("TERM", term)

    assert kind is type(make_progress(is_plain=is_plain))


def test_a_run_goes_on_when_the_reader_of_its_lines_has_gone(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        result = train(
            "toy",
            env="CartPole-v1",
            backend="toy",
            run_dir="run",
            stop={"env_steps": 500},
            observers=[PlainProgress(output)],
            registry=toy_registry(),
        )

    assert 500 == result.env_steps


def test_a_long_path_stays_in_one_piece_so_that_it_can_be_copied():
    run_dir = "a-folder/with-quite-a-long-name/so-that-it-does-not-fit/into-one-line-of-the-terminal"

    *_, last = watch(is_live=True, width=40, run_dir=run_dir).splitlines()

    assert f"Run: {run_dir}  next: rheos eval {run_dir}" == last


def test_a_path_with_a_blank_is_quoted_for_the_shell():
    assert watch(run_dir="my run").splitlines()[-1].endswith("next: rheos eval 'my run'")


def test_a_run_that_never_began_says_nothing_at_its_end(monkeypatch):
    def refuse(self, *arguments):
        raise PluginError("the learner cannot be made")

    monkeypatch.setattr("rheos.testing.toy.ToyLearner.__init__", refuse)

    assert ["toy on CartPole-v1, seed 0 -> run"] == watch().splitlines()
