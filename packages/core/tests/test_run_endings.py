"""A run's end: all loggers are closed and all listeners told, whatever one of them raises; the first error goes on."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import rheos.testing.toy
from rheos.plugins import hookimpl
from rheos.plugins.loading import load_plugins
from rheos.plugins.sources import Origin, plugin_sources
from rheos.plugins.specs import LoggerSpec
from rheos.runs.endings import afterwards, do_all
from rheos.runs.folder import RunFolder
from rheos.runs.status import RunState
from rheos.runs.training import train

RUN = Path("run")


class SpyLogger:
    """Remembers what it is told, and raises where it is asked to."""

    def __init__(self, fails_in=()):
        self.heard = []
        self._fails_in = fails_in

    def log(self, env_steps, row):
        self.heard.append(env_steps)
        if "log" in self._fails_in:
            raise OSError("no space left in log")

    def close(self):
        self.heard.append("closed")
        if "close" in self._fails_in:
            raise OSError("no space left in close")


class Listener:
    """An observer that remembers the state that the run ended in."""

    def __init__(self):
        self.ended = []

    @hookimpl
    def rheos_run_ended(self, run):
        self.ended.append(run.status.state)


@pytest.fixture
def run_with(tmp_path, monkeypatch):
    """Train the toy with some loggers; one that is an exception is raised by its factory."""
    monkeypatch.chdir(tmp_path)

    def run(*loggers, observers=(), **algo):
        def make(logger):
            def factory(run_dir):
                if isinstance(logger, Exception):
                    raise logger
                return logger

            return factory

        module = ModuleType("loggers_of_a_test")
        vars(module).update({f"make_{index}": make(logger) for index, logger in enumerate(loggers)})
        monkeypatch.setitem(sys.modules, module.__name__, module)
        specs = [
            LoggerSpec(name=f"spy{index}", summary="", factory=f"loggers_of_a_test:make_{index}")
            for index in range(len(loggers))
        ]
        plugin = SimpleNamespace(rheos_loggers=hookimpl(specname="rheos_loggers")(lambda: specs))
        sources = [
            *(source for source in plugin_sources() if source.origin.package == "rheos-core"),
            SimpleNamespace(origin=Origin("toy", "rheos-toy", "1"), load=lambda: rheos.testing.toy),
            SimpleNamespace(origin=Origin("spies", "spies", "1"), load=lambda: plugin),
        ]
        return train(
            {"name": "toy", **algo},
            env="CartPole-v1",
            backend="toy",
            run_dir=RUN,
            stop={"env_steps": 1500},
            logger={"every_steps": 1000},
            observers=observers,
            registry=load_plugins(sources),
        )

    return run


def test_a_logger_that_cannot_end_fails_the_run_and_keeps_nobody_from_ending(run_with):
    loggers, listener = [SpyLogger(), SpyLogger(["close"]), SpyLogger()], Listener()

    with pytest.raises(OSError, match="no space left in close"):
        run_with(*loggers, observers=[listener])

    assert [[1000, 1500, "closed"]] * 3 == [logger.heard for logger in loggers]
    status = RunFolder(RUN).read_status()
    assert (RunState.FAILED, "OSError: no space left in close") == (status.state, status.reason)
    assert [RunState.FAILED] == listener.ended


def test_a_logger_that_fails_after_the_run_failed_is_a_note_of_the_first_error(run_with):
    loggers, listener = [SpyLogger(["log", "close"]), SpyLogger()], Listener()

    with pytest.raises(ZeroDivisionError) as caught:
        run_with(*loggers, observers=[listener], fails_in_round=5)

    assert ["and then: OSError: no space left in log", "and then: OSError: no space left in close"] == [
        note for note in caught.value.__notes__ if note.startswith("and then")
    ]
    assert [[400, "closed"]] * 2 == [logger.heard for logger in loggers]
    assert RunFolder(RUN).read_status().reason.startswith("ZeroDivisionError: division by zero (in stage")
    assert [RunState.FAILED] == listener.ended


def test_a_row_reaches_the_other_loggers_also_where_one_fails(run_with):
    loggers = [SpyLogger(["log"]), SpyLogger()]

    with pytest.raises(OSError, match="no space left in log"):
        run_with(*loggers)

    assert [[1000, "closed"]] * 2 == [logger.heard for logger in loggers]


def test_a_status_that_cannot_be_written_hides_neither_the_error_nor_the_end(run_with, monkeypatch):
    def full(self, status):
        if status.state is not RunState.RUNNING:
            raise OSError("no space left")

    monkeypatch.setattr(RunFolder, "write_status", full)
    logger, listener = SpyLogger(), Listener()

    with pytest.raises(ZeroDivisionError) as caught:
        run_with(logger, observers=[listener], fails_in_round=5)

    assert "and then: OSError: no space left" == caught.value.__notes__[-1]
    assert "closed" == logger.heard[-1]
    assert [RunState.FAILED] == listener.ended


def test_loggers_that_were_made_before_one_that_cannot_be_are_closed_and_nothing_is_left(run_with, tmp_path):
    first, second = SpyLogger(["close"]), SpyLogger()

    with pytest.raises(ConnectionError) as caught:
        run_with(first, second, ConnectionError("no server"))

    assert [["closed"], ["closed"]] == [first.heard, second.heard]
    assert ["and then: OSError: no space left in close"] == caught.value.__notes__
    assert [] == list(tmp_path.iterdir())


def test_an_end_of_a_block_is_done_once_whether_it_fails_or_not():
    done = []

    with afterwards(lambda: done.append("good")):
        pass
    with pytest.raises(LookupError), afterwards(lambda: done.append("bad")):
        raise LookupError

    assert ["good", "bad"] == done


def test_an_interruption_of_one_thing_does_not_keep_the_others_from_being_done():
    done = []

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        do_all(interrupt, lambda: done.append("second"), interrupt, lambda: done.append("fourth"))

    assert ["second", "fourth"] == done
