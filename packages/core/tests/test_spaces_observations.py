"""Observations of any space come out as flat float32, the same numbers in a known order."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from rheos.errors import SpaceError
from rheos.spaces import ObservationAdapter
from rheos.spaces.tree import batched, rows


def test_discrete_observations_are_one_hot_counted_from_start():
    encoded = ObservationAdapter(spaces.Discrete(3, start=5)).encode(np.array([5, 6, 7]))

    np.testing.assert_array_equal(np.eye(3, dtype=np.float32), encoded)
    assert np.float32 == encoded.dtype


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, np.int64])
def test_a_box_of_any_dtype_and_shape_is_flattened_to_float32_with_its_values(dtype):
    adapter = ObservationAdapter(spaces.Box(0, 200, (2, 3), dtype))
    batch = np.arange(12, dtype=dtype).reshape(2, 2, 3)

    encoded = adapter.encode(batch)

    assert 6 == adapter.size
    assert np.float32 == encoded.dtype
    np.testing.assert_array_equal(np.arange(12).reshape(2, 6), encoded)


def test_an_environment_may_give_another_float_type_than_its_space_says():
    adapter = ObservationAdapter(spaces.Box(-1, 1, (2,), np.float64))

    encoded = adapter.encode(np.array([[0.5, -0.5]], np.float32))

    np.testing.assert_array_equal(np.array([[0.5, -0.5]], np.float32), encoded)


def test_flat_float32_is_not_copied():
    batch = np.zeros((2, 3), np.float32)

    assert ObservationAdapter(spaces.Box(-1, 1, (3,))).encode(batch) is batch


def test_a_flat_float32_space_casts_what_is_not_float32():
    encoded = ObservationAdapter(spaces.Box(-1, 1, (3,))).encode(np.zeros((2, 3), np.float64))

    assert np.float32 == encoded.dtype


def test_a_box_without_dimensions_is_one_number():
    np.testing.assert_array_equal([[0.5], [1.0]], ObservationAdapter(spaces.Box(0, 1, ())).encode(np.array([0.5, 1.0])))


def test_dict_and_tuple_are_joined_leaf_by_leaf_in_their_own_order():
    space = spaces.Dict(
        {
            "b": spaces.Box(0, 9, (2,), np.uint8),
            "a": spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3], start=[0, 4])]),
        }
    )
    single = {"a": (1, np.array([0, 1], np.int8), np.array([1, 6])), "b": np.array([7, 8], np.uint8)}

    encoded = ObservationAdapter(space).encode(batched(space, [single]))

    # a: Discrete 1 of 2, MultiBinary, MultiDiscrete 1 of 2 and 6 - 4 of 3; then b: gymnasium sorts the keys of a dict
    np.testing.assert_array_equal([[0, 1, 0, 1, 0, 1, 0, 0, 1, 7, 8]], encoded)


SPACES = [
    spaces.Box(-1, 1, (3,)),
    spaces.Box(0, 255, (4, 4, 1), np.uint8),
    spaces.Discrete(4, start=-2),
    spaces.MultiDiscrete([[2, 3], [4, 5]]),
    spaces.MultiBinary((2, 2)),
    spaces.Dict(x=spaces.Tuple([spaces.Discrete(2), spaces.Dict(y=spaces.Box(0, 1, ()))]), z=spaces.MultiBinary(3)),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_batch_is_encoded_as_its_rows_apart_and_into_any_row_of_a_buffer(space):
    adapter = ObservationAdapter(space)
    batch = batch_space(space, 5)
    batch.seed(0)
    batch = batch.sample()
    buffer = np.full((2, 5, adapter.size), np.nan, np.float32)

    adapter.encode(batch, buffer[1])

    apart = [adapter.encode(rows(batch, np.arange(5) == row))[0] for row in range(5)]
    np.testing.assert_array_equal(np.stack(apart), buffer[1])
    assert np.isnan(buffer[0]).all()


def test_what_has_no_fixed_size_is_refused_with_the_path_of_the_leaf():
    space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Tuple([spaces.Box(0, 1, (2,)), spaces.Text(5)]))

    with pytest.raises(SpaceError, match=r"^observation\['b'\]\[1\]: got Text\(.* has no fixed number"):
        ObservationAdapter(space)


def test_a_sequence_of_boxes_is_refused():
    with pytest.raises(SpaceError, match=r"^observation: got Sequence\("):
        ObservationAdapter(spaces.Sequence(spaces.Box(0, 1, (2,))))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 1, (0,)),
        spaces.Box(0, 1, (3, 0), np.uint8),
        spaces.Dict(a=spaces.Box(0, 1, (0,))),
        spaces.Tuple([]),
    ],
    ids=str,
)
def test_observations_without_entries_are_refused(space):
    with pytest.raises(SpaceError, match=r"^observation: got .*, which has no entries"):
        ObservationAdapter(space)


def test_a_leaf_without_entries_takes_no_columns():
    adapter = ObservationAdapter(spaces.Dict(empty=spaces.Box(0, 1, (0,)), full=spaces.Box(0, 9, (2,))))

    encoded = adapter.encode({"empty": np.zeros((1, 0), np.float32), "full": np.array([[3, 4]], np.float32)})

    np.testing.assert_array_equal([[3, 4]], encoded)
