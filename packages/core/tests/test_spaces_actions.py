"""Actions reach the environment in its own dtype and range, and come back."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from rheos.errors import SpaceError
from rheos.spaces import ActionAdapter
from rheos.spaces.tree import leaves


def test_discrete_actions_are_counted_from_start():
    adapter = ActionAdapter(spaces.Discrete(3, start=5))

    actions = adapter.decode(np.array([0, 1, 2], np.int32))

    assert ((), np.int32) == (adapter.shape, adapter.dtype)
    assert np.int64 == actions.dtype
    np.testing.assert_array_equal([5, 6, 7], actions)


def test_multi_discrete_actions_are_counted_from_start_in_the_shape_of_the_space():
    adapter = ActionAdapter(spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [-2, 10]]))

    actions = adapter.decode(np.array([[1, 2, 3, 4], [0, 0, 0, 0]], np.int32))

    assert ((4,), np.int32) == (adapter.shape, adapter.dtype)
    np.testing.assert_array_equal([[[1, 3], [1, 14]], [[0, 1], [-2, 10]]], actions)


def test_multi_binary_actions_are_bits_in_the_shape_of_the_space():
    adapter = ActionAdapter(spaces.MultiBinary((2, 2)))

    actions = adapter.decode(np.array([[1, 0, 0, 1]], np.int32))

    assert ((4,), np.int32) == (adapter.shape, adapter.dtype)
    assert np.int8 == actions.dtype
    np.testing.assert_array_equal([[[1, 0], [0, 1]]], actions)


def test_a_bounded_box_is_the_affine_image_of_minus_one_to_one_after_clipping():
    adapter = ActionAdapter(spaces.Box(0, 10, (1,)))

    actions = adapter.decode(np.array([[-7], [-1], [0], [0.5], [1], [7]], np.float32))

    assert ((1,), np.float32) == (adapter.shape, adapter.dtype)
    assert np.float32 == actions.dtype
    np.testing.assert_array_equal([[0], [0], [5], [7.5], [10], [10]], actions)


def test_each_dimension_is_treated_by_its_own_bounds():
    inf = np.inf
    low, high = np.array([-2, -inf, 3, -inf], np.float32), np.array([4, inf, inf, 5], np.float32)
    adapter = ActionAdapter(spaces.Box(low, high))

    actions = adapter.decode(np.array([[1, 50, 1, 1], [-9, -50, 8, 9]], np.float32))

    np.testing.assert_array_equal([-1, -inf, 3, -inf], adapter.low)
    np.testing.assert_array_equal([1, inf, inf, 5], adapter.high)
    np.testing.assert_array_equal([[4, 50, 3, 1], [-2, -50, 8, 5]], actions)


def test_an_unbounded_box_takes_actions_as_they_are():
    actions = ActionAdapter(spaces.Box(-np.inf, np.inf, (2, 1), np.float64)).decode(np.array([[3, -400]], np.float32))

    np.testing.assert_array_equal([[[3.0], [-400.0]]], actions)
    assert np.float64 == actions.dtype


def test_a_box_of_integers_gets_the_nearest_one():
    actions = ActionAdapter(spaces.Box(0, 4, (1,), np.int64)).decode(np.array([[-1], [0.1], [0.3], [1]], np.float32))

    np.testing.assert_array_equal([[0], [2], [3], [4]], actions)
    assert np.int64 == actions.dtype


def test_dict_and_tuple_are_decoded_leaf_by_leaf_in_the_order_of_their_parts():
    space = spaces.Dict(
        arm=spaces.Box(0, 10, (2,)),
        gear=spaces.Discrete(3, start=5),
        hands=spaces.Tuple([spaces.MultiBinary(2), spaces.Dict(finger=spaces.MultiDiscrete([2, 4], start=[1, 1]))]),
    )
    adapter = ActionAdapter(space)

    actions = adapter.decode(np.array([[-1, 9, 2, 0, 1, 1, 3]], np.float32))

    assert ((7,), np.float32) == (adapter.shape, adapter.dtype)
    assert [
        ("action['arm']", slice(0, 2)),
        ("action['gear']", slice(2, 3)),
        ("action['hands'][0]", slice(3, 5)),
        ("action['hands'][1]['finger']", slice(5, 7)),
    ] == [(part.leaf.path, part.place) for part in adapter.parts]
    np.testing.assert_array_equal([[0, 10]], actions["arm"])
    np.testing.assert_array_equal([7], actions["gear"])
    np.testing.assert_array_equal([[0, 1]], actions["hands"][0])
    np.testing.assert_array_equal([[2, 4]], actions["hands"][1]["finger"])
    assert [np.float32, np.int64, np.int8, np.int64] == [leaf.take(actions).dtype for leaf in leaves(space, "")]


def test_only_numbers_are_clipped_and_choices_have_no_bounds():
    adapter = ActionAdapter(spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 10, (1,)), spaces.MultiBinary(1)]))

    np.testing.assert_array_equal([-np.inf, -1, -np.inf], adapter.low)
    np.testing.assert_array_equal([np.inf, 1, np.inf], adapter.high)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_without_bounds_are_taken_as_they_are(dtype):
    adapter = ActionAdapter(spaces.Box(-np.inf, np.inf, (1,), dtype))  # Gymnasium gives it the limits of the dtype

    actions = adapter.decode(np.array([[-400], [0.4], [3]], np.float32))

    assert ([-np.inf], [np.inf]) == (adapter.low.tolist(), adapter.high.tolist())
    np.testing.assert_array_equal([[-400], [0], [3]], actions)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_integers_that_reach_to_the_limits_of_a_narrow_dtype_are_bounded_by_them(dtype):
    limits = np.iinfo(dtype)

    actions = ActionAdapter(spaces.Box(limits.min, limits.max, (1,), dtype)).decode(np.array([[-1], [1]], np.float32))

    np.testing.assert_array_equal([[limits.min], [limits.max]], actions)


@pytest.mark.parametrize("is_tree", [False, True])
def test_a_choice_of_a_narrow_dtype_is_counted_from_a_start_that_its_number_does_not_fit_beside(is_tree):
    choice = spaces.MultiDiscrete(np.array([100], np.int8), start=np.array([-100], np.int8), dtype=np.int8)
    encoded = np.arange(100)[:, None]
    adapter = ActionAdapter(spaces.Tuple([choice]) if is_tree else choice)

    decoded = adapter.decode(encoded.astype(adapter.dtype))

    leaf = decoded[0] if is_tree else decoded
    assert np.int8 == leaf.dtype
    np.testing.assert_array_equal(np.arange(-100, 0)[:, None], leaf)
    np.testing.assert_array_equal(encoded, adapter.encode(decoded))


def test_a_leaf_without_entries_takes_no_room():
    adapter = ActionAdapter(spaces.Dict(empty=spaces.Box(0, 1, (0,)), gear=spaces.Discrete(3)))

    decoded = adapter.decode(np.array([[1], [2]], np.float32))

    assert (2, 0) == decoded["empty"].shape
    np.testing.assert_array_equal([[1], [2]], adapter.encode(decoded))


def test_a_decoded_action_shares_no_memory_with_the_encoded_one():
    encoded = np.zeros((1, 2), np.float32)

    actions = ActionAdapter(spaces.Box(-np.inf, np.inf, (2,))).decode(encoded)

    assert not np.shares_memory(encoded, actions)


AWKWARD = [
    spaces.Box(0.1, 0.3, (3,)),
    spaces.Box(-1e-3, 7e7, (2,)),
    spaces.Box(0.1, 0.7, (3,), np.float64),
    spaces.Box(np.array([0.1, -np.inf, -5], np.float32), np.array([0.7, 0.3, np.inf], np.float32)),
    spaces.Box(1 / 3, 1 / 3, (2,)),
    spaces.Box(np.finfo(np.float64).min, np.finfo(np.float64).max, (1,), np.float64),
    spaces.Box(-3, 9, (2, 2), np.int8),
    spaces.Box(2**62, 2**62 + 5, (2,), np.int64),
    spaces.Box(-np.inf, np.inf, (2,), np.int64),
    spaces.Box(0, np.iinfo(np.uint64).max, (2,), np.uint64),
    spaces.Discrete(4, start=-2),
    spaces.Discrete(4, start=2**40),
    spaces.MultiDiscrete([4, 4], start=[-9, 9]),
    spaces.MultiBinary((2, 1)),
    spaces.Dict(a=spaces.Tuple([spaces.Box(0.1, 0.3, (1,)), spaces.Discrete(4)]), b=spaces.Box(0, 9, (0,))),
]


@pytest.mark.parametrize("space", AWKWARD, ids=str)
def test_every_decoded_action_is_inside_the_space(space):
    adapter = ActionAdapter(space)
    generator = np.random.default_rng(0)
    encoded = (generator.normal(size=(300, *adapter.shape)) * 3).astype(np.float32)
    most = 2 if isinstance(space, spaces.MultiBinary) else 4
    choices = generator.integers(0, most, encoded.shape)
    for part in adapter.parts:
        if not isinstance(part.leaf.space, spaces.Box):
            place = (..., part.place) if adapter.shape else ...
            encoded[place] = choices[place]

    actions = adapter.decode(encoded.astype(adapter.dtype))

    for action in iterate(batch_space(space, 300), actions):
        assert space.contains(action)


REFUSED = {
    "Text": spaces.Text(4),
    "Sequence": spaces.Sequence(spaces.Discrete(2)),
    "Graph": spaces.Graph(spaces.Box(0, 1, (2,)), None),
    "OneOf": spaces.OneOf([spaces.Discrete(2), spaces.Box(0, 1, (2,))]),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_fixed_number_of_entries_is_refused_with_its_path(kind):
    nested = spaces.Dict(arm=spaces.Discrete(2), leg=spaces.Tuple([spaces.Box(-1, 1), REFUSED[kind]]))

    for space, path in ((REFUSED[kind], "action"), (nested, r"action\['leg'\]\[1\]")):
        with pytest.raises(SpaceError, match=rf"^{path}: got {kind}\(.*, expected Box, .* Wrap the environment"):
            ActionAdapter(space)


@pytest.mark.parametrize(
    "space", [spaces.Box(-1, 1, (0,)), spaces.Box(-1, 1, (3, 0)), spaces.Tuple([]), spaces.Dict(a=spaces.Tuple([]))]
)
def test_actions_without_entries_are_refused(space):
    with pytest.raises(SpaceError, match=r"^action: got .*, which has no entries"):
        ActionAdapter(space)


def test_a_choice_that_float32_cannot_count_is_refused_inside_of_a_tree_only():
    huge = spaces.Discrete(2**24 + 1)

    with pytest.raises(SpaceError, match=r"^action\[1\]: got Discrete\(16777217\), expected at most 2\*\*24 values"):
        ActionAdapter(spaces.Tuple([spaces.Discrete(2), huge]))

    np.testing.assert_array_equal([2**24], ActionAdapter(huge).decode(np.array([2**24], np.int32)))
