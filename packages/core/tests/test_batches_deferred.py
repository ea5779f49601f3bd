"""Batches whose columns are elsewhere: read once, and not there before."""

from __future__ import annotations

import copy

import numpy as np

from rheos import Batch, BatchInfo
from rheos.executors.protocol import NOTHING, Call, Shared
from rheos.trees import decode, encode


class Elsewhere(Shared):
    """Counts how often it is fetched."""

    def __init__(self) -> None:
        self.fetched = 0

    def get(self):
        self.fetched += 1
        return {"rewards": np.arange(3.0)}


def test_columns_are_fetched_when_they_are_read_and_once():
    content = Elsewhere()
    batch = Batch(content, BatchInfo(env_steps=3))

    known = batch.info.env_steps, batch.axis, batch.is_deferred, content.fetched
    sums = [float(batch["rewards"].sum()) for _ in range(3)]

    assert (3, 0, True, 0) == known
    assert [3.0] * 3 == sums
    assert 1 == content.fetched
    assert batch.is_deferred  # who sends it on sends the reference


def test_what_is_saved_of_it_are_the_columns():
    batch = Batch(Elsewhere(), BatchInfo(env_steps=3))

    restored = decode(*encode(batch))

    assert not restored.is_deferred
    np.testing.assert_array_equal(restored["rewards"], np.arange(3.0))
    assert batch.info == restored.info


def test_what_was_fetched_does_not_travel_beside_its_reference():
    batch = Batch(Elsewhere(), BatchInfo(env_steps=3))
    assert "columns" not in vars(batch)
    batch["rewards"]
    assert "columns" in vars(batch)

    assert ["axis", "content", "info"] == sorted(vars(copy.copy(batch)))


def test_columns_that_are_added_are_added_to_those_that_were_fetched():
    batch = Batch(Elsewhere(), BatchInfo(env_steps=3), axis=1).with_columns(values=np.ones(3))

    assert ["rewards", "values"] == list(batch.columns)
    assert (False, 3, 1) == (batch.is_deferred, batch.info.env_steps, batch.axis)


def test_who_wants_to_know_that_a_call_has_finished_is_told_once_whenever_it_asks():
    call, told = Call("actor", "give", NOTHING, ()), []

    call.when_finished(lambda: told.append("before"))
    assert [] == told
    call.finish(7, None)
    call.when_finished(lambda: told.append("after"))

    assert ["before", "after"] == told
