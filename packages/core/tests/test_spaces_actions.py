"""Actions reach the environment in its own dtype and range."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from rheos.errors import SpaceError
from rheos.spaces import ActionAdapter


def test_discrete_actions_are_counted_from_start():
    adapter = ActionAdapter(spaces.Discrete(3, start=5))

    actions = adapter.decode(np.array([0, 1, 2], np.int32))

    assert (adapter.num_values, adapter.size) == (3, None)
    assert np.int64 == actions.dtype
    np.testing.assert_array_equal([5, 6, 7], actions)


def test_a_bounded_box_is_the_affine_image_of_minus_one_to_one_after_clipping():
    adapter = ActionAdapter(spaces.Box(0, 10, (1,)))

    actions = adapter.decode(np.array([[-7], [-1], [0], [0.5], [1], [7]], np.float32))

    assert (adapter.num_values, adapter.size) == (None, 1)
    assert np.float32 == actions.dtype
    np.testing.assert_array_equal([[0], [0], [5], [7.5], [10], [10]], actions)


def test_each_dimension_is_treated_by_its_own_bounds():
    inf = np.inf
    low, high = np.array([-2, -inf, 3, -inf], np.float32), np.array([4, inf, inf, 5], np.float32)
    adapter = ActionAdapter(spaces.Box(low, high))

    actions = adapter.decode(np.array([[1, 50, 1, 1], [-9, -50, 8, 9]], np.float32))

    np.testing.assert_array_equal([[4, 50, 3, 1], [-2, -50, 8, 5]], actions)


def test_an_unbounded_box_takes_actions_as_they_are():
    actions = ActionAdapter(spaces.Box(-np.inf, np.inf, (2, 1), np.float64)).decode(np.array([[3, -400]], np.float32))

    np.testing.assert_array_equal([[[3.0], [-400.0]]], actions)
    assert np.float64 == actions.dtype


def test_a_box_of_integers_gets_the_nearest_one():
    actions = ActionAdapter(spaces.Box(0, 4, (1,), np.int64)).decode(np.array([[-1], [0.1], [0.3], [1]], np.float32))

    np.testing.assert_array_equal([[0], [2], [3], [4]], actions)
    assert np.int64 == actions.dtype


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
    spaces.Discrete(4, start=-2),
]


@pytest.mark.parametrize("space", AWKWARD, ids=str)
def test_every_decoded_action_is_inside_the_space(space):
    adapter = ActionAdapter(space)
    generator = np.random.default_rng(0)
    encoded = generator.integers(0, 4, 300).astype(np.int32)
    if adapter.size is not None:
        encoded = (generator.normal(size=(300, adapter.size)) * 3).astype(np.float32)

    actions = adapter.decode(encoded)

    assert all(space.contains(action) for action in actions)


@pytest.mark.parametrize(
    "space",
    [spaces.MultiBinary(3), spaces.Dict(a=spaces.Discrete(2)), spaces.Text(4), spaces.Tuple([])],
    ids=str,
)
def test_other_actions_are_refused_at_construction(space):
    with pytest.raises(SpaceError, match=r"^action: got .*, expected Discrete or Box"):
        ActionAdapter(space)


def test_a_refused_composite_names_the_leaf_and_the_reason():
    space = spaces.Dict(arm=spaces.Discrete(2), leg=spaces.Tuple([spaces.Box(-1, 1), spaces.MultiBinary(3)]))

    with pytest.raises(
        SpaceError, match=r"^action\['leg'\]\[1\]: got MultiBinary\(3\), expected .*: MultiBinary is not decoded"
    ):
        ActionAdapter(space)


def test_a_composite_of_leaves_that_could_stand_alone_names_all_of_them():
    space = spaces.Dict(arm=spaces.Discrete(2), leg=spaces.Box(-1, 1))

    with pytest.raises(
        SpaceError, match=r"^action: got Dict\(.*: Dict of action\['arm'\], action\['leg'\] is not decoded"
    ):
        ActionAdapter(space)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_actions_without_entries_are_refused(shape):
    with pytest.raises(SpaceError, match=r"^action: got Box\(.*, which has no entries"):
        ActionAdapter(spaces.Box(-1, 1, shape))
