"""Observations of any space come out as a few columns: numbers together, bytes and masks apart."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from rheos.errors import ObservationOutside, SpaceError
from rheos.spaces import Column, ObservationAdapter
from rheos.spaces.tree import batched, rows


def numbers(space, batch):
    """The flat column, where it is the only one."""
    (column,) = ObservationAdapter(space).encode(batch).items()
    assert "observations" == column[0]
    return column[1]


def test_discrete_observations_are_one_hot_counted_from_start():
    encoded = numbers(spaces.Discrete(3, start=5), np.array([5, 6, 7]))

    np.testing.assert_array_equal(np.eye(3, dtype=np.float32), encoded)
    assert np.float32 == encoded.dtype


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int8, np.uint16])
def test_a_box_of_any_dtype_and_shape_but_bytes_is_flattened_to_float32_with_its_values(dtype):
    space = spaces.Box(0, 100, (2, 3), dtype)
    batch = np.arange(12, dtype=dtype).reshape(2, 2, 3)

    encoded = numbers(space, batch)

    assert {"observations": Column((6,), np.dtype(np.float32))} == ObservationAdapter(space).columns
    assert np.float32 == encoded.dtype
    np.testing.assert_array_equal(np.arange(12).reshape(2, 6), encoded)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_an_environment_may_give_another_dtype_than_its_space_says(dtype):
    encoded = numbers(spaces.Box(-9, 9, (2,), np.float64), np.array([[3, -2]], dtype))

    assert np.float32 == encoded.dtype
    np.testing.assert_array_equal([[3, -2]], encoded)


def test_flat_float32_is_not_copied():
    batch = np.zeros((2, 3), np.float32)

    assert np.shares_memory(batch, numbers(spaces.Box(-1, 1, (3,)), batch))


def test_a_box_without_dimensions_is_one_number():
    np.testing.assert_array_equal([[0.5], [1.0]], numbers(spaces.Box(0, 1, ()), np.array([0.5, 1.0])))


def test_dict_and_tuple_are_joined_leaf_by_leaf_in_their_own_order():
    space = spaces.Dict(
        {
            "b": spaces.Box(0, 9, (2,), np.int16),
            "a": spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3], start=[0, 4])]),
        }
    )
    single = {"a": (1, np.array([0, 1], np.int8), np.array([1, 6])), "b": np.array([7, 8], np.int16)}

    encoded = numbers(space, batched(space, [single]))

    # a: Discrete 1 of 2, MultiBinary, MultiDiscrete 1 of 2 and 6 - 4 of 3; then b: gymnasium sorts the keys of a dict
    np.testing.assert_array_equal([[0, 1, 0, 1, 0, 1, 0, 0, 1, 7, 8]], encoded)


@pytest.mark.parametrize("shape", [(4, 4, 3), (4, 4), (128,)])
def test_bytes_stay_bytes_in_their_own_shape_and_are_not_copied(shape):
    adapter = ObservationAdapter(spaces.Box(0, 255, shape, np.uint8))
    batch = np.full((2, *shape), 255, np.uint8)

    encoded = adapter.encode(batch)

    assert {"observations": Column(shape, np.dtype(np.uint8), 1 / 255)} == adapter.columns
    assert np.uint8 == encoded["observations"].dtype
    assert np.shares_memory(batch, encoded["observations"])
    np.testing.assert_array_equal(batch, encoded["observations"])


def test_bytes_that_reach_less_far_are_scaled_by_the_highest_of_them():
    assert 1 / 15 == ObservationAdapter(spaces.Box(0, 15, (9,), np.uint8)).columns["observations"].scale


def test_every_leaf_of_bytes_in_a_tree_is_a_column_named_by_its_keys():
    picture = spaces.Box(0, 255, (2, 2, 1), np.uint8)
    space = spaces.Dict(camera=picture, cameras=spaces.Tuple([picture, picture]), speed=spaces.Box(-1, 1, (2,)))
    adapter = ObservationAdapter(space)
    batch = {
        "camera": np.full((3, 2, 2, 1), 1, np.uint8),
        "cameras": (np.full((3, 2, 2, 1), 2, np.uint8), np.full((3, 2, 2, 1), 3, np.uint8)),
        "speed": np.full((3, 2), 0.5, np.float32),
    }

    encoded = adapter.encode(batch)

    assert {
        "observations": 0.5,
        "observations.camera": 1,
        "observations.cameras.0": 2,
        "observations.cameras.1": 3,
    } == {name: column.max() for name, column in encoded.items()}
    assert {name: (column.shape, column.dtype) for name, column in adapter.columns.items()} == {
        name: (column.shape[1:], column.dtype) for name, column in encoded.items()
    }


def test_keys_with_dots_still_give_every_leaf_a_column_of_its_own():
    byte = spaces.Box(0, 255, (1,), np.uint8)
    space = spaces.Dict({"a": spaces.Dict({"b": byte, "b_": byte}), "a.b": byte})
    batch = {"a": {"b": np.uint8([[1]]), "b_": np.uint8([[2]])}, "a.b": np.uint8([[3]])}

    encoded = ObservationAdapter(space).encode(batch)

    assert [1, 2, 3] == [column.item() for column in encoded.values()]


MASKS = {
    "MultiBinary": (spaces.MultiBinary(3), spaces.Discrete(3, start=5)),
    "Box of bytes": (spaces.Box(0, 1, (3,), np.uint8), spaces.Discrete(3)),
    "Box of floats": (spaces.Box(0, 1, (3,), np.float64), spaces.Discrete(3)),
    "Box of bools": (spaces.Box(0, 1, (3,), bool), spaces.Discrete(3)),
    "of several choices": (spaces.MultiBinary(5), spaces.MultiDiscrete([2, 3])),
    "of choices in a square": (spaces.MultiBinary(8), spaces.MultiDiscrete([[2, 2], [2, 2]])),
}


@pytest.mark.parametrize("case", MASKS.values(), ids=MASKS)
def test_an_action_mask_is_a_column_of_bools_and_no_observation(case):
    mask, actions = case
    adapter = ObservationAdapter(spaces.Dict(action_mask=mask, x=spaces.Box(0, 9, (2,))), actions)
    given = np.arange(mask.shape[0])[None] % 2

    encoded = adapter.encode({"action_mask": given.astype(mask.dtype), "x": np.float32([[7, 8]])})

    assert {"observations": (2,), "action_mask": mask.shape} == {n: c.shape for n, c in adapter.columns.items()}
    assert np.bool_ == encoded["action_mask"].dtype
    np.testing.assert_array_equal(given == 1, encoded["action_mask"])
    np.testing.assert_array_equal([[7, 8]], encoded["observations"])


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (spaces.Dict(action_mask=spaces.MultiBinary(3)), None),
        (spaces.Dict(action_mask=spaces.MultiBinary(3)), spaces.Box(-1, 1, (3,))),
        (spaces.Dict(action_mask=spaces.MultiBinary(3)), spaces.MultiBinary(3)),
        (spaces.Dict(x=spaces.Dict(action_mask=spaces.MultiBinary(3))), spaces.Discrete(3)),
    ],
    ids=["unknown actions", "a Box", "MultiBinary", "not at the root"],
)
def test_where_nothing_is_masked_a_mask_is_an_observation_like_others(space, actions):
    assert {"observations": (3,)} == {n: c.shape for n, c in ObservationAdapter(space, actions).columns.items()}


@pytest.mark.parametrize(
    ("mask", "actions", "expected"),
    [
        (spaces.MultiBinary(4), spaces.Discrete(3), 3),
        (spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3]), 5),
        (spaces.Discrete(3), spaces.Discrete(3), 3),
        (spaces.Dict(a=spaces.MultiBinary(3)), spaces.Discrete(3), None),
        (spaces.Text(3), spaces.Discrete(3), 3),
    ],
    ids=str,
)
def test_a_mask_of_another_size_or_kind_is_refused_by_name(mask, actions, expected):
    space = spaces.Dict(action_mask=mask, x=spaces.Discrete(2))
    if expected is None:  # a tree is no mask, so its leaves are observed
        assert {"observations": (5,)} == {n: c.shape for n, c in ObservationAdapter(space, actions).columns.items()}
        return

    with pytest.raises(SpaceError, match=rf"^observation\['action_mask'\]: got .*, expected MultiBinary\({expected}\)"):
        ObservationAdapter(space, actions)


SPACES = [
    spaces.Box(-1, 1, (3,)),
    spaces.Box(-1, 1, (3, 2)),
    spaces.Box(0, 255, (4, 4, 1), np.uint8),
    spaces.Discrete(4, start=-2),
    spaces.MultiDiscrete([[2, 3], [4, 5]]),
    spaces.MultiBinary((2, 2)),
    spaces.Dict(x=spaces.Tuple([spaces.Discrete(2), spaces.Dict(y=spaces.Box(0, 1, ()))]), z=spaces.MultiBinary(3)),
    spaces.Dict(action_mask=spaces.MultiBinary(3), camera=spaces.Box(0, 255, (2, 2), np.uint8), x=spaces.Discrete(2)),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_batch_is_encoded_as_its_rows_apart_and_into_any_row_of_a_buffer(space):
    adapter = ObservationAdapter(space, spaces.Discrete(3))
    batch = batch_space(space, 5)
    batch.seed(0)
    batch = batch.sample()
    buffer = {name: np.full((2, 5, *column.shape), 1, column.dtype) for name, column in adapter.columns.items()}

    adapter.encode(batch, {name: column[1] for name, column in buffer.items()})

    apart = [adapter.encode(rows(batch, np.arange(5) == row)) for row in range(5)]
    for name, column in buffer.items():
        np.testing.assert_array_equal(np.concatenate([row[name] for row in apart]), column[1])
        assert (column[0] == 1).all()


OUTSIDE = {
    "below": (spaces.Discrete(3, start=5), [6, 4], "is 4, expected an integer from 5 to 7"),
    "above": (spaces.Discrete(3, start=5), [6, 8], "is 8, expected an integer from 5 to 7"),
    "far away": (spaces.Discrete(3, start=5), [6, np.iinfo(np.int64).min], "is -9223372036854775808, "),
    "between": (spaces.Discrete(3), [1.0, 1.5], "is 1.5, expected an integer from 0 to 2"),
    "no number": (spaces.Discrete(3), [1.0, np.nan], "is nan, expected an integer from 0 to 2"),
    "one of several": (
        spaces.MultiDiscrete([2, 3], start=[0, 4]),
        [[1, 4], [1, 7]],
        r"is 7 at \[1\], expected an integer from 4 to 6",
    ),
}


@pytest.mark.parametrize("case", OUTSIDE.values(), ids=OUTSIDE)
def test_a_choice_that_the_space_has_not_is_no_other_one(case):
    space, values, what = case

    with pytest.raises(ObservationOutside, match=rf"^observation {what}") as caught:
        ObservationAdapter(space).encode(np.array(values))

    assert (1, "observation") == (caught.value.row, caught.value.leaf)


@pytest.mark.parametrize("value", [2, -1, 0.5, np.nan])
def test_a_mask_holds_nothing_but_0_and_1(value):
    space = spaces.Dict(action_mask=spaces.Box(0, 1, (2,)), x=spaces.Discrete(2))
    batch = {"action_mask": np.float32([[0, 1], [1, value]]), "x": np.array([0, 0])}

    with pytest.raises(
        ObservationOutside, match=rf"^observation\['action_mask'\] is {float(value)} at \[1\], expected 0 or 1"
    ) as caught:
        ObservationAdapter(space, spaces.Discrete(2)).encode(batch)

    assert 1 == caught.value.row


REFUSED = {
    "Text": spaces.Text(4),
    "Sequence": spaces.Sequence(spaces.Box(0, 1, (2,))),
    "Graph": spaces.Graph(spaces.Box(0, 1, (2,)), None),
    "OneOf": spaces.OneOf([spaces.Discrete(2), spaces.Box(0, 1, (2,))]),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_fixed_size_is_refused_with_the_path_of_the_leaf(kind):
    nested = spaces.Dict(a=spaces.Discrete(2), b=spaces.Tuple([spaces.Box(0, 1, (2,)), REFUSED[kind]]))

    for space, path in ((REFUSED[kind], "observation"), (nested, r"observation\['b'\]\[1\]")):
        with pytest.raises(SpaceError, match=rf"^{path}: got {kind}\(.* has no fixed number .* Wrap the environment"):
            ObservationAdapter(space)


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (spaces.Box(0, 1, (0,)), None),
        (spaces.Box(0, 1, (3, 0), np.uint8), None),
        (spaces.Dict(a=spaces.Box(0, 1, (0,))), None),
        (spaces.Tuple([]), None),
        (spaces.Dict(action_mask=spaces.MultiBinary(2)), spaces.Discrete(2)),
    ],
    ids=str,
)
def test_observations_without_entries_are_refused(space, actions):
    with pytest.raises(SpaceError, match=r"^observation: got .*, which has no entries"):
        ObservationAdapter(space, actions)


def test_a_leaf_without_entries_takes_no_room():
    space = spaces.Dict(empty=spaces.Box(0, 1, (0,)), full=spaces.Box(0, 9, (2,)))

    encoded = numbers(space, {"empty": np.zeros((1, 0), np.float32), "full": np.array([[3, 4]], np.float32)})

    np.testing.assert_array_equal([[3, 4]], encoded)
