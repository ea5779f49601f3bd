"""A run's folder is written by one run at a time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from rheos.errors import RheosWarning, RunFolderError
from rheos.plugins import hookimpl
from rheos.runs import locks
from rheos.runs.folder import RunFolder
from rheos.runs.locks import RunLock


def test_a_run_that_another_process_writes_is_refused(runs):
    runs.train(stop=300)
    script = textwrap.dedent("""
        import sys
        from rheos.runs.folder import RunFolder
        from rheos.runs.locks import RunLock
        with RunLock(RunFolder(__import__("pathlib").Path("run")).lock_path):
            print("held", flush=True)
            sys.stdin.read()
    """)
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert "held" == holder.stdout.readline().strip()

        refused = runs.refusal(stop={"env_steps": 600})

        assert f"run is being written by process {holder.pid} on " in refused
        holder.kill()
    assert 600 == runs.resume(stop={"env_steps": 600}).env_steps  # the lock ended with its process


def test_a_run_is_locked_while_it_goes_on_also_against_its_own_process(runs):
    refused = []

    class Meddler:
        @hookimpl
        def rheos_report(self):
            refused.append(runs.refusal())

    runs.train(stop=200, observers=[Meddler()])

    assert ["run is being written by a run of this very process."] == refused
    with RunLock(RunFolder(Path("run")).lock_path):
        pass


def test_of_two_threads_of_one_process_one_writes_a_run(tmp_path):
    barrier, refused = threading.Barrier(8), []

    def enter():
        barrier.wait(10)
        try:
            with RunLock(tmp_path / ".lock"):
                barrier.wait(10)
        except RunFolderError as error:
            refused.append(str(error))
            barrier.wait(10)

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert 7 == len(refused)
    assert {f"{tmp_path} is being written by a run of this very process."} == set(refused)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_warned_of_and_the_run_goes_on(tmp_path, monkeypatch, number):
    def no_lock(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(locks, "_lock", no_lock)

    with (
        pytest.warns(RheosWarning, match=f"cannot be locked: {os.strerror(number)}"),
        RunLock(tmp_path / ".lock"),
        pytest.raises(RunFolderError, match="this very process"),
        RunLock(tmp_path / ".lock"),
    ):
        pass


@pytest.mark.parametrize("number", [errno.EACCES, errno.EAGAIN])
def test_a_lock_that_is_held_is_told_by_both_of_its_errors(tmp_path, monkeypatch, number):
    def held(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(locks, "_lock", held)
    with pytest.raises(RunFolderError, match="is being written by another process"), RunLock(tmp_path / ".lock"):
        pass
    monkeypatch.undo()

    with RunLock(tmp_path / ".lock"):  # it was given back
        assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on ")


def test_a_folder_that_is_not_there_cannot_be_locked_and_is_not_held_afterwards(tmp_path):
    path = tmp_path / "gone" / ".lock"

    for _ in range(2):
        with pytest.raises(RunFolderError, match="cannot be written: No such file"), RunLock(path):
            pass
