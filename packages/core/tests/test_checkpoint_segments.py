"""Segments: large parts of an actor's state are written once, shared by checkpoints, and given back as they were."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from rheos import from_actors, run
from rheos.errors import RheosError, RheosWarning, TreeError
from rheos.runs.checkpoint_states import read_state
from rheos.runs.checkpoints import load_checkpoint, save_checkpoint
from rheos.runs.flow_state import FlowState
from rheos.runs.segments import SegmentWriter
from rheos.scheduler.recovery import FailurePolicy
from rheos.streams.actors import Actor, ActorGroup
from rheos.testing import toy as toy_module
from rheos.testing.toy import ToyLearner

RUN = Path("run")
ASKED: list[str] = []
"""Which segments stores were asked for."""


class Store:
    """Keeps a row of everything it is sent, the newest eight or so; pairs that are complete are segments."""

    def __init__(self, index=0):
        self.count, self.rows = 0, {}

    def add(self, item):
        self.rows[self.count] = np.array([self.count, self.count**2], np.uint8)
        self.count += 1
        if len(self.rows) > 8:
            del self.rows[min(self.rows)], self.rows[min(self.rows)]
        return item

    def segments(self):
        return tuple(self.name_of(first) for first in range(min(self.rows, default=0), self.count - 1, 2))

    def name_of(self, first):
        return f"rows-{first}"

    def segment(self, name):
        ASKED.append(name)
        first = int(name.partition("-")[2])
        columns = np.stack([self.rows[first], self.rows[first + 1]], axis=1)
        return {"rows": columns.T, "first": np.array(first)}  # one is no plain row of memory, and one has no axis

    def load_segment(self, segment):
        name, columns = segment
        assert self.name_of(int(columns["first"])) == name
        self.rows |= {int(columns["first"]) + index: row for index, row in enumerate(columns["rows"])}

    def state_dict(self):
        return {"count": self.count, "newest": self.rows[self.count - 1] if self.count % 2 else None}

    def load_state_dict(self, state):
        self.count, self.rows = state["count"], {}
        if state["newest"] is not None:
            self.rows[self.count - 1] = state["newest"]


@pytest.fixture
def with_store(monkeypatch):
    """Put a store into the flow of the toy, and return what makes another kind of one do so."""
    toy_flow = toy_module.toy_flow

    def put(kind):
        store = Actor("store", kind)
        monkeypatch.setattr(toy_module, "toy_flow", lambda roles, config: toy_flow(roles, config).ask(store, Store.add))

    put(Store)
    ASKED.clear()
    return put


def checkpoint(env_steps, run_dir="run"):
    return Path(run_dir, "checkpoints", str(env_steps))


def segment_files(env_steps):
    return {path.stem: path for path in checkpoint(env_steps).glob("segments/store/*")}


def inodes(env_steps):
    return {name: path.stat().st_ino for name, path in segment_files(env_steps).items()}


def contents(env_steps, run_dir="run"):
    path = checkpoint(env_steps, run_dir)
    state = read_state(path, load_checkpoint(path).manifest)
    names = state.segments.checksums["store"]
    return state.part("actors")["store"], {name: state.segments.read("store", name)["rows"].tolist() for name in names}


def test_a_segment_is_written_once_and_shared_by_the_checkpoints_that_have_it(runs, with_store):
    runs.train(stop=900)

    assert ["rows-0", "rows-2", "rows-4", "rows-6"] == ASKED  # each of them once
    assert {"rows-0"} == set(inodes(300))
    assert {"rows-0", "rows-2", "rows-4"} == set(inodes(600))
    assert {"rows-2", "rows-4", "rows-6"} == set(inodes(900))
    assert inodes(300)["rows-0"] == inodes(600)["rows-0"]
    assert {inodes(600)[name] for name in ("rows-2", "rows-4")} == {inodes(900)[name] for name in ("rows-2", "rows-4")}
    assert not (RUN / "checkpoints" / ".segments.tmp").exists()


def test_a_run_that_goes_on_gives_back_every_segment_as_it_was(runs, with_store):
    runs.train("uncut", stop=1200)
    runs.cut(at=1000)
    ASKED.clear()

    runs.resume(stop={"env_steps": 1200})

    assert contents(1200, "uncut") == contents(1200)
    assert ["rows-8", "rows-10"] == ASKED  # what it was given is not asked for again


def test_a_segment_with_a_new_name_is_written_and_the_old_name_is_gone(runs, with_store):
    class Renaming(Store):
        def name_of(self, first):
            return f"rows-{first}" if self.count < 5 else f"final-{first}"

    with_store(Renaming)

    runs.train(stop=600)

    assert {"rows-0"} == set(segment_files(300))
    assert {"final-0", "final-2", "final-4"} == set(segment_files(600))


def test_where_a_file_system_has_no_hard_links_the_files_are_copied(runs, with_store, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)

    runs.train(stop=900)

    assert ["rows-0", "rows-2", "rows-4", "rows-6"] == ASKED
    assert inodes(600)["rows-2"] != inodes(900)["rows-2"]
    assert segment_files(600)["rows-2"].read_bytes() == segment_files(900)["rows-2"].read_bytes()
    assert 1000 == runs.resume(stop={"env_steps": 1000}).env_steps


def test_a_file_that_somebody_removed_is_written_anew(runs, with_store):
    class Removing:
        @toy_module.hookimpl
        def rheos_checkpoint_saved(self, path):
            if path.name == "300":
                segment_files(300)["rows-0"].unlink()

    runs.train(stop=600, observers=[Removing()])

    assert ["rows-0", "rows-0", "rows-2", "rows-4"] == ASKED


def torn(path):
    data = path.read_bytes()
    path.write_bytes(data[:-1])


def changed(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (torn, "does not have the checksum of its manifest"),
        (changed, "does not have the checksum of its manifest"),
        (Path.unlink, "is missing"),
    ],
)
def test_a_checkpoint_with_a_spoilt_segment_is_passed_over_and_its_steps_are_done_again(runs, with_store, spoil, what):
    runs.train("uncut", stop=1200)
    runs.train(stop=900)
    spoil(segment_files(900)["rows-6"])

    with pytest.warns(RheosWarning) as caught:
        runs.resume(stop={"env_steps": 1200})

    text = f"passed over: run/checkpoints/900 is a torn checkpoint: segment rows-6 of store {what}."
    assert [text] == [str(warning.message) for warning in caught]
    assert contents(1200, "uncut") == contents(1200)


@pytest.mark.parametrize("segments", [[], {"store": 1}, {"store": {"../../weights": "0"}}, {"store": {"rows-0": 0}}])
def test_a_manifest_whose_segments_are_none_is_refused(runs, with_store, segments):
    runs.train(stop=300)
    saved = load_checkpoint(checkpoint(300))

    with pytest.raises(RheosError, match=r"300 is a broken checkpoint: its manifest\.json has no usable segments\.$"):
        read_state(saved.path, {**saved.manifest, "segments": segments})


KILLED = """
import os, signal, sys
sys.path.insert(0, {folder!r})
import test_checkpoint_segments as here
from conftest import Runs
from rheos.testing import toy

calls = 0

def dying(function):
    def call(*arguments):
        global calls
        calls += here.checkpoint(300).exists()
        if calls == {number}:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return call

os.{place} = dying(os.{place})
flow, store = toy.toy_flow, here.Actor("store", here.Store)
toy.toy_flow = lambda roles, config: flow(roles, config).ask(store, here.Store.add)
Runs().train()
"""


@pytest.mark.parametrize(("place", "number"), [("link", 1), ("fsync", 4), ("rename", 1), ("rename", 2)])
def test_a_run_that_is_killed_in_a_checkpoint_leaves_nothing_half(runs, with_store, place, number):
    runs.train("uncut", stop=1200)
    code = KILLED.format(folder=str(Path(__file__).parent), place=place, number=number)

    killed = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)

    assert -signal.SIGKILL == killed.returncode
    runs.resume(stop={"env_steps": 1200})
    assert contents(1200, "uncut") == contents(1200)
    assert all(name.isdigit() for name in os.listdir(RUN / "checkpoints"))


def test_segments_that_cannot_be_written_end_the_run_with_its_weights_saved(runs, with_store, monkeypatch):
    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("rheos.runs.segments.write_synced", full)
        with pytest.raises(
            RheosError, match=r"^segment rows-0 of store cannot be written .* \(No space left on device\)"
        ):
            runs.train()

    assert [300] == runs.saved()
    assert "holds weights, but no state to go on from: RheosError: segment rows-0 of store" in runs.refusal()


def test_a_checkpoint_of_weights_only_has_no_segments(runs, with_store, monkeypatch):
    monkeypatch.delattr(ToyLearner, "state_dict")

    with pytest.warns(RheosWarning, match="cannot be resumed"):
        runs.train(stop=600)

    assert {} == segment_files(300) | segment_files(600)
    assert "segments" not in load_checkpoint(checkpoint(600)).manifest


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("../weights",), "segments\\(\\) has '../weights', which is a file's name"),
        (("",), "has '', which is a file's name"),
        ((3,), "has 3, which is a file's name"),
        (("a", "a"), "has a name twice: got a, a"),
    ],
)
def test_names_that_no_file_can_have_are_refused(runs, with_store, names, text):
    class Misnaming(Store):
        def segments(self):
            return names

    with_store(Misnaming)

    with pytest.raises(TreeError, match=rf"^store cannot be saved: .*{text}"):
        runs.train()


@pytest.mark.parametrize(
    ("array", "text"),
    [([1, 2], "got list"), (np.array([None]), "got an array of object"), (np.array(["a"]), "got an array of <U1")],
)
def test_what_is_no_array_of_numbers_is_refused(runs, with_store, array, text):
    class Odd(Store):
        def segment(self, name):
            return {"rows": array}

    with_store(Odd)

    with pytest.raises(
        TreeError, match=rf"^store cannot be saved: 'rows' of segment rows-0: {text}, expected an array"
    ):
        runs.train()


# sources that are made anew


class Source(Store):
    """Gives the number of what it has given; the second one fails once, where it is told to."""

    def __init__(self, fails_in, index):
        super().__init__()
        self.fails_in = fails_in if index == 1 else None
        self.offset = 0 if index == 0 else 100 * len(MADE)
        MADE.append(index)

    def give(self):
        if self.fails_in == self.count:
            raise ZeroDivisionError
        self.add(None)
        self.rows[self.count - 1] = self.rows[self.count - 1] + np.uint8(self.offset)
        return self.count

    def segment(self, name):
        if self.fails_in == name:
            raise ZeroDivisionError
        return super().segment(name)


MADE: list[int] = []


def flow_of(fails_in):
    MADE.clear()
    ASKED.clear()
    sources = ActorGroup("store", 2, partial(Source, fails_in))
    return sources, from_actors(sources, Source.give).gather_sync()


def save(flow_state, folder, env_steps):
    state = flow_state.take()
    part = {"name": "x"}
    manifest = {"contract": 1, "algo": part, "env": part, "backend": part, "spaces": {}, "env_steps": env_steps}
    save_checkpoint(folder, {}, manifest, flow_state.encode(state, None))
    return state


def test_an_actor_that_was_made_anew_may_give_an_old_name_to_something_else(tmp_path, warned):
    sources, stream = flow_of(fails_in=3)
    with run(stream, failures=FailurePolicy(1, 0.0)) as flow:
        flow_state = FlowState(flow, stream, sources[0], restarts_sources=True, segments=SegmentWriter(tmp_path))
        list(islice(flow, 2))
        save(flow_state, tmp_path, 2)
        list(islice(flow, 4))
        save(flow_state, tmp_path, 6)

    manifests = [load_checkpoint(tmp_path / name).manifest["segments"] for name in ("2", "6")]
    assert 1 == len(warned)
    assert manifests[0]["store-0"]["rows-0"] == manifests[1]["store-0"]["rows-0"]
    assert manifests[0]["store-1"]["rows-0"] != manifests[1]["store-1"]["rows-0"]


def test_a_source_that_fails_while_it_is_asked_for_a_segment_is_left_out(tmp_path):
    sources, stream = flow_of(fails_in="rows-2")
    with run(stream, failures=FailurePolicy(1, 0.0)) as flow:
        flow_state = FlowState(flow, stream, sources[0], restarts_sources=True, segments=SegmentWriter(tmp_path))
        list(islice(flow, 4))

        state = save(flow_state, tmp_path, 4)

    assert state["actors"]["store-1"] is None
    assert ["store-0"] == os.listdir(tmp_path / "4" / "segments")


def test_a_source_that_fails_while_it_is_asked_for_a_segment_ends_a_run_that_makes_none_anew(tmp_path):
    sources, stream = flow_of(fails_in="rows-2")
    with run(stream) as flow:
        flow_state = FlowState(flow, stream, sources[0], segments=SegmentWriter(tmp_path))
        list(islice(flow, 4))

        with pytest.raises(ZeroDivisionError):
            flow_state.take()
