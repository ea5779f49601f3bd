"""Storage: rows by absolute id, as a list of all rows has them, in rows and in bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.errors import ShapeError
from rheos_ops.replay.storage import Storage

counts = st.lists(st.integers(0, 12), max_size=12)


def rows(start, count):
    """Rows that say their number, in several dtypes and shapes."""
    numbers = np.arange(start, start + count)
    return {
        "observations": np.stack([numbers, -numbers], axis=1).astype(np.float32),
        "actions": numbers.astype(np.int32),
        "flags": numbers % 3 == 0,
    }


@given(counts, st.integers(12, 40))
def test_rows_are_those_of_a_list_of_the_newest(batches, capacity):
    storage, oldest, end = Storage(capacity), 0, 0

    for count in batches:
        ids, ended = storage.add(rows(end, count))

        assert list(range(end, end + count)) == ids.tolist()
        end += count
        assert range(oldest, max(end - capacity, 0)) == ended
        oldest = max(end - capacity, 0)
        assert (oldest, end) == (storage.oldest, storage.end)

    if end:
        ids = np.random.default_rng(end).integers(oldest, end, 50)
        found, expected = storage.gather(ids), rows(0, end)
        assert expected.keys() == found.keys()
        for name, column in found.items():
            np.testing.assert_array_equal(expected[name][ids], column)
            assert expected[name].dtype == column.dtype


def test_what_is_gathered_is_no_view_of_what_is_kept():
    storage = Storage(10)
    storage.add(rows(0, 10))
    found = storage.gather(np.arange(10))
    for column in found.values():
        column.flags.writeable = False
        assert column.base is None

    storage.add(rows(10, 10))

    np.testing.assert_array_equal(rows(0, 10)["actions"], found["actions"])


def test_rows_are_kept_as_copies():
    columns = rows(0, 4)
    storage = Storage(10)
    storage.add(columns)

    columns["actions"][:] = -1

    assert [0, 1, 2, 3] == storage.gather(np.arange(4), ["actions"])["actions"].tolist()


@given(st.integers(1, 2_000))
def test_rows_are_as_many_as_fit_into_both_capacities(capacity_bytes):
    row_bytes = 2 * 4 + 4 + 1 + 10
    storage = Storage(50, capacity_bytes + row_bytes, overhead_bytes=10)

    storage.add(rows(0, 1))

    fit = min((capacity_bytes + row_bytes) // row_bytes, 50)
    assert fit == storage.capacity
    assert storage.nbytes == fit * (row_bytes - 10)


def test_ids_that_are_not_there_are_refused():
    storage = Storage(4)
    storage.add(rows(0, 4))
    storage.add(rows(4, 2))

    for ids in ([1], [2, 6], [-1]):
        with pytest.raises(ValueError, match=rf"^ids: got {min(ids)} to {max(ids)}, expected 2 to 5\.$"):
            storage.gather(np.array(ids))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"actions": np.zeros(2, np.int32)},
            r"the columns actions, expected actions, flags, observations",
        ),
        (
            rows(0, 2) | {"actions": np.zeros(2)},
            r"`actions` as float64 \[\], expected int32 \[\]",
        ),
        (
            rows(0, 2) | {"observations": np.zeros((2, 3), np.float32)},
            r"`observations` as float32 \[3\], expected float32 \[2\]",
        ),
    ],
)
def test_rows_of_another_kind_are_refused_in_one_line(columns, message):
    storage = Storage(10)
    storage.add(rows(0, 2))

    with pytest.raises(ShapeError, match=rf"^replay got {message}: the rows of a replay are all of one kind\.$"):
        storage.add(columns)

    assert storage.end == 2


def test_columns_of_several_lengths_are_refused():
    with pytest.raises(
        ShapeError, match=r"^replay got columns of \[2, 3\] rows, expected one number for all of them\.$"
    ):
        Storage(10).add(rows(0, 2) | {"actions": np.zeros(3, np.int32)})


def test_a_batch_that_there_is_no_room_for_is_refused_and_changes_nothing():
    storage = Storage(4)

    with pytest.raises(ShapeError, match=r"^replay got a batch of 5 rows, which holds 4 rows: raise the capacity of"):
        storage.add(rows(0, 5))
    with pytest.raises(
        ShapeError, match=r"which holds 1 rows \(capacity_bytes=20\): raise the capacity of the replay or"
    ):
        Storage(100, 20).add(rows(0, 2))

    assert not storage.is_allocated
    storage.add(rows(0, 4))
    assert storage.end == 4


@pytest.mark.parametrize("capacities", [(0, None), (10, 0)])
def test_capacities_below_one_are_refused(capacities):
    with pytest.raises(ValueError, match=r"^capacity\w*: got 0, expected at least 1\.$"):
        Storage(*capacities)
