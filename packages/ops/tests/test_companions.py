"""Processes that work with a program and end with it: what they say of each other's end, and that none is left."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from textwrap import dedent

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

PROGRAM = """
import os, signal, sys, time
from rheos_ops.companions import Companions

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell's script runs in its background

def echo(pipe, rank):
    while True:
        pipe.send((rank, os.getpid(), pipe.recv()))

def fail(pipe, rank):
    pipe.send(rank)
    if rank == 2:
        raise ZeroDivisionError("division by zero")
    pipe.recv()

def leave(pipe, rank):
    pipe.send(rank)
    if rank == 1:
        sys.exit(3)
    pipe.recv()

def told_by(companions, action):
    try:
        action()
        companions.receive()
    except ConnectionError:
        return companions.failure()

def print(*words):  # in one piece, since it is called by several threads
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def ended(): print("ended")

"""
GUARD = 'if __name__ == "__main__":\n'


@pytest.fixture
def start(tmp_path):
    """Start a program that has companions; they share its standard output, which is read to the end of all of them."""
    started = []

    def start(text, *, guard=GUARD):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM + guard + "".join(f"    {line}\n" for line in dedent(text).strip().splitlines()))
        process = subprocess.Popen(
            [sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):  # all have ended
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def output_of(process, timeout_s=20.0):
    """Return what a program and its companions have printed when the last of them has ended."""
    out, errors = process.communicate(timeout=timeout_s)
    return out.splitlines(), errors


def test_each_gets_every_message_and_answers(start):
    program = start("""
        companions = Companions("learner", 2, echo, on_end=ended)
        for message in ("one", {"two": 2}):
            companions.send(message)
            print([(rank, message) for rank, _, message in companions.receive()])
        companions.check()
        companions.close()
        companions.close()
    """)

    assert (["[(1, 'one'), (2, 'one')]", "[(1, {'two': 2}), (2, {'two': 2})]"], "") == output_of(program)


def test_one_that_raises_is_named_with_its_error_and_its_trace(start):
    program = start("""
        companions = Companions("learner", 2, fail, on_end=ended)
        error = told_by(companions, companions.receive)
        print(error)
        print("in fail" in error.__notes__[0])
    """)

    message = "learner: process 3 of 3 failed: ZeroDivisionError: division by zero"
    out, errors = output_of(program)
    assert ["True", "ended", message] == sorted(out)
    assert "" == errors


def test_one_that_exits_is_named_with_its_code(start):
    program = start("""
        companions = Companions("learner", 2, leave, on_end=ended)
        print(told_by(companions, companions.receive))
    """)

    out, errors = output_of(program)
    assert ["ended", "learner: process 2 of 3 failed: SystemExit: 3"] == sorted(out)
    assert "" == errors


def test_one_that_is_killed_is_told_of_at_once_and_takes_the_others_along(start):
    program = start("""
        companions = Companions("learner", 2, echo, on_end=ended)
        companions.send(None)
        (_, _, _), (_, second, _) = companions.receive()
        begin = time.monotonic()
        print(told_by(companions, lambda: os.kill(second, signal.SIGKILL)))
        print(time.monotonic() - begin < 5.0)
        try:
            companions.check()
        except ConnectionError:
            print("not complete")
    """)

    out, errors = output_of(program)
    assert ["True", "ended", "learner: process 3 of 3 was killed by SIGKILL.", "not complete"] == sorted(out)
    assert "" == errors


def test_they_end_with_a_program_that_is_killed(start):
    program = start("""
        companions = Companions("learner", 2, echo, on_end=ended)
        companions.send(None)
        companions.receive()
        print("ready")
        time.sleep(60)
    """)
    assert "ready\n" == program.stdout.readline()

    program.kill()

    assert ([], "") == output_of(program, 5.0)


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors of processes")
def test_they_end_with_a_program_that_is_killed_also_where_it_has_forked(start):
    program = start("""
        companions = Companions("learner", 1, echo, on_end=ended)
        companions.send(None)
        ((_, pid, _),) = companions.receive()
        if os.fork() == 0:  # it holds all that the program had open
            time.sleep(10)
            os._exit(0)
        print(pid)
        time.sleep(60)
    """)
    ended = select.poll()
    ended.register(os.pidfd_open(int(program.stdout.readline())), select.POLLIN)

    program.kill()

    assert ended.poll(5000)


@pytest.mark.parametrize("ends", ["", "del companions", "sys.exit(0)", "raise SystemExit"])
def test_they_end_with_a_program_that_forgets_them(start, ends):
    program = start(f"""
        companions = Companions("learner", 1, echo, on_end=ended)
        companions.send(None)
        companions.receive()
        {ends}
    """)

    assert ([], "") == output_of(program, 5.0)
    assert 0 == program.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_terminal_sends_to_all_processes_is_left_to_the_first_one(start, number):
    program = start("""
        def asked(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGTERM, asked)
        companions = Companions("learner", 1, echo, on_end=ended)
        companions.send(None)
        companions.receive()
        try:
            print("ready")
            time.sleep(60)
        except KeyboardInterrupt:
            companions.send("still there?")
            print([message for _, _, message in companions.receive()])
    """)
    assert "ready\n" == program.stdout.readline()

    subprocess.run(["kill", f"-{number}", "--", f"-{program.pid}"], check=True)

    assert (["['still there?']"], "") == output_of(program)


def test_ctrl_c_while_they_start_shows_no_trace_of_theirs(start):
    program = start("""
        try:
            companions = Companions("learner", 3, echo, on_end=ended)
            print("started")
            companions.send(None)
            companions.receive()
            time.sleep(60)
        except KeyboardInterrupt:
            pass
    """)
    assert "started\n" == program.stdout.readline()  # they are importing now

    subprocess.run(["kill", "-INT", "--", f"-{program.pid}"], check=True)

    assert ([], "") == output_of(program)


def test_a_program_without_a_guard_is_told_what_it_needs(start):
    program = start(
        """
        companions = Companions("learner", 1, echo, on_end=ended)
        print(told_by(companions, lambda: companions.send(None)))
        """,
        guard="if True:\n",
    )

    out, errors = output_of(program)
    assert "process 2 of 2 ended with exit code 1: a program that trains needs `if __name__ ==" in "\n".join(out)
    assert "bootstrapping phase" in errors  # Python's own words
