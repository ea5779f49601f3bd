"""A replay that was saved as a state and segments goes on as if it had not been; a segment never changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos import Batch, BatchInfo, NotReady
from rheos.errors import TreeError
from rheos.executors.host import freeze
from rheos.trees import decode, encode
from rheos_ops.replay import storage as module
from rheos_ops.replay.shard import ReplayShard
from rheos_ops.replay.storage import Storage


class Learned(NamedTuple):
    rows: dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    """16 MiB are of many rows; 500 bytes show the same with few."""
    monkeypatch.setattr(module, "_SEGMENT_BYTES", 500)


def shard_of(exponent, **settings):
    return ReplayShard(
        **{"name": "replay-1", "seed": 3, "capacity": 60, "learning_starts": 5, "batch_size": 16, **settings},
        priority_exponent=exponent,
        importance_exponent=0.4,
    )


def batch_of(lengths, generator):
    """Episodes of stacked images and a number."""
    parts = []
    for length in lengths:
        film = generator.integers(0, 256, (length + 1, 3, 3), np.uint8)
        stacks = np.stack([film[start : start + 2] for start in range(length)])
        steps = [min(2, length - 1 - row) for row in range(length)]
        parts.append((stacks, np.array(steps, np.int32)))
    images, num_steps = (np.concatenate(part) for part in zip(*parts, strict=True))
    columns = {"observations": images, "num_steps": num_steps, "rewards": generator.normal(size=len(num_steps))}
    return Batch(columns, BatchInfo(env_steps=len(num_steps), version_mean=float(generator.random())))


def through_a_file(state):
    """What is left of a state when it has been in a file."""
    return decode(*encode(state))


def carried_over(shard, exponent, **settings):
    """Another shard with the state and the segments of one."""
    other = shard_of(exponent, **settings)
    other.load_state_dict(through_a_file(shard.state_dict()))
    for name in shard.segments():
        other.load_segment((name, freeze(through_a_file(shard.segment(name)))))
    return other


def step(shards, lengths, seed):
    """Do the same with each of two shards, and check that they answer alike."""
    samples = []
    for shard in shards:
        generator = np.random.default_rng(seed)
        if lengths:
            shard.add(batch_of(lengths, generator))
        for _ in range(2):
            samples.append(shard.sample())
            if isinstance(samples[-1], Batch):
                ids = samples[-1]["ids"]
                shard.update_priorities(Learned({"ids": ids, "priorities": generator.random(len(ids))}))
    for sample, other in zip(samples[:2], samples[2:], strict=True):
        if isinstance(sample, NotReady):
            assert sample == other
            continue
        assert sample.info == other.info
        assert list(sample.columns) == list(other.columns)
        for name, column in sample.columns.items():
            np.testing.assert_array_equal(column, other[name])


lengths = st.lists(st.integers(1, 12), max_size=4)


@pytest.mark.parametrize("exponent", [0.0, 0.7], ids=["uniform", "prioritised"])
@given(before=st.lists(lengths, max_size=8), after=st.lists(lengths, min_size=1, max_size=5), seed=st.integers(0, 99))
def test_a_shard_that_was_saved_goes_on_exactly_as_the_one_that_was_not(exponent, before, after, seed):
    shard = shard_of(exponent)
    for number, batch in enumerate(before):
        step([shard, carried_over(shard, exponent)], batch, seed + number)

    other = carried_over(shard, exponent)

    for number, batch in enumerate(after):
        step([shard, other], batch, seed + 1_000 + number)
    assert encode(shard.state_dict())[0] == encode(other.state_dict())[0]
    assert shard.segments() == other.segments()


@given(st.lists(st.integers(1, 12), min_size=1, max_size=20), st.integers(12, 60))
def test_segments_are_everything_that_is_there_and_never_change_once_named(batches, capacity):
    storage, seen, came = Storage(capacity), {}, []
    generator = np.random.default_rng(capacity)
    for count in batches:
        columns = {
            "rewards": generator.normal(size=(count, 5)),
            "images": generator.integers(0, 9, (count, 2, 3, 3), np.uint8),
        }
        storage.add(columns)
        came.extend(columns["rewards"])

        ids = []
        for name in storage.segments():
            found = storage.segment(name)
            kind, start, stop = name.split("-")
            assert sum(column.nbytes for column in found.values()) <= 500
            if kind == "rows":
                ids.extend(range(int(start), int(stop)))
                np.testing.assert_array_equal(came[int(start) : int(stop)], found["rewards"])
            for column, values in found.items():
                np.testing.assert_array_equal(seen.setdefault((name, column), values), values)
        assert list(range(storage.oldest, storage.end)) == ids


def test_segments_that_are_whole_keep_their_names():
    storage = Storage(100)
    row = {"rewards": np.zeros((1, 10))}  # 80 bytes: 4 rows are the largest power of two in 500
    names = [storage.add(row) and storage.segments() for _ in range(106)]

    assert ("rows-0-1",) == names[0]
    assert ("rows-0-4", "rows-4-7") == names[6]
    assert ("rows-4-8", "rows-8-12") == names[103][:2]
    assert ("rows-6-8", "rows-8-12") == names[105][:2]
    assert "rows-104-106" == names[105][-1]


def test_an_empty_storage_has_no_segments():
    storage = Storage(10)
    storage.load_state_dict(through_a_file(Storage(10).state_dict()))

    assert () == storage.segments()
    storage.add({"rewards": np.zeros(3)})
    assert ("rows-0-3",) == storage.segments()


def saved():
    shard = shard_of(0.7)
    shard.add(batch_of([12, 12], np.random.default_rng(0)))
    return shard


def test_nothing_is_done_before_all_segments_came():
    shard, other = saved(), shard_of(0.7)
    other.load_state_dict(shard.state_dict())
    first, *_ = names = shard.segments()
    other.load_segment((first, shard.segment(first)))

    for act in (other.sample, lambda: other.add(batch_of([3], np.random.default_rng(0))), lambda: other.segment(first)):
        with pytest.raises(TreeError, match=rf"^{len(names) - 1} segments of the replay were not loaded: "):
            act()


def test_segments_that_do_not_belong_to_the_state_are_refused():
    shard, other = saved(), shard_of(0.7)
    name = shard.segments()[0]
    with pytest.raises(TreeError, match=rf"^segment '{name}' does not belong to the state that was loaded, or came"):
        other.load_segment((name, shard.segment(name)))

    other.load_state_dict(shard.state_dict())
    with pytest.raises(TreeError, match=rf"^segment '{name}' has other columns than the state says"):
        other.load_segment((name, {"rewards": np.zeros(4)}))
    shorter = {column: values[:-1] for column, values in shard.segment(name).items()}
    with pytest.raises(TreeError, match=rf"^segment '{name}' has other columns than the state says"):
        other.load_segment((name, shorter))
    with pytest.raises(TreeError, match=r"^There is no segment 'rows-0-99': name one of `segments\(\)`\.$"):
        shard.segment("rows-0-99")


def test_a_state_of_another_capacity_is_refused():
    message = r"^capacity: the replay that was saved has 60 rows and capacity_bytes=None, this one 60 and 9000"
    with pytest.raises(TreeError, match=message):
        shard_of(0.7, capacity_bytes=9_000).load_state_dict(saved().state_dict())


def test_a_segment_is_a_copy():
    shard = saved()
    given = [freeze(shard.segment(name)) for name in shard.segments()]
    before = [{name: array.copy() for name, array in segment.items()} for segment in given]

    for _ in range(9):
        shard.add(batch_of([12, 12], np.random.default_rng(0)))  # into the same places, which stay writable

    for segment, kept in zip(given, before, strict=True):
        for name, array in kept.items():
            np.testing.assert_array_equal(array, segment[name])
