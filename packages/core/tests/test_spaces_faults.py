"""Bad numbers are found in many rows at once, and told of the first row with their place."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from rheos.spaces import Fault, ObservationAdapter


def fault(space, batch, *, actions=None, bounds=True):
    adapter = ObservationAdapter(space, actions)
    return adapter.fault(adapter.encode(batch), bounds=bounds)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("bound", [1.0, math.inf])
@pytest.mark.parametrize("bounds", [True, False])
def test_a_number_that_is_not_finite_is_a_fault_whatever_the_bounds(value, bound, bounds):
    batch = np.zeros((3, 2), np.float32)
    batch[1, 1] = value

    found = fault(spaces.Box(-bound, bound, (2,)), batch, bounds=bounds)

    assert Fault(1, "observation", f"is {value} at [1], expected a finite number") == found


@pytest.mark.parametrize(
    ("space", "bad", "what"),
    [
        (spaces.Box(-1, 1, (2,)), 1.5, "is 1.5 at [1], expected a number from -1.0 to 1.0"),
        (spaces.Box(-1, 1, (2,), np.float64), -2, "is -2.0 at [1], expected a number from -1.0 to 1.0"),
        (spaces.Box(0, 9, (2,), np.int64), 10, "is 10.0 at [1], expected a number from 0.0 to 9.0"),
        (spaces.Box(0, 9, (2,), np.uint8), 10, "is 10 at [1], expected a number from 0 to 9"),
        (spaces.Box(0, np.inf, (2,)), -1, "is -1.0 at [1], expected a number from 0.0 to inf"),
        (spaces.MultiBinary(2), 2, "is 2.0 at [1], expected a number from 0.0 to 1.0"),
    ],
    ids=str,
)
def test_a_number_outside_its_space_is_a_fault_unless_bounds_do_not_count(space, bad, what):
    batch = np.zeros((3, 2), space.dtype)
    batch[2, 1] = bad

    assert Fault(2, "observation", f"{what} (env.check_bounds)") == fault(space, batch)
    assert fault(space, batch, bounds=False) is None


def test_the_place_is_that_in_the_shape_of_the_leaf():
    space = spaces.Dict(
        speed=spaces.Box(-1, 1, (2, 3)), camera=spaces.Box(0, 9, (2, 2), np.uint8), x=spaces.Box(-1, 1, ())
    )
    good = {
        "speed": np.zeros((2, 2, 3), np.float32),
        "camera": np.zeros((2, 2, 2), np.uint8),
        "x": np.zeros(2, np.float32),
    }
    told = {}
    for leaf, place, value in (("speed", (1, 1, 2), math.nan), ("camera", (1, 1, 0), 10), ("x", (1,), 2)):
        batch = {name: column.copy() for name, column in good.items()}
        batch[leaf][place] = value
        told[leaf] = fault(space, batch)

    assert fault(space, good) is None
    assert Fault(1, "observation['speed']", "is nan at [1, 2], expected a finite number") == told["speed"]
    assert told["camera"].what.startswith("is 10 at [1, 0], expected")
    assert told["x"].what.startswith("is 2.0, expected")


def test_of_several_faults_that_of_the_first_row_is_told():
    space = spaces.Dict(a=spaces.Box(-1, 1, (1,)), b=spaces.Box(-1, 1, (1,)))
    batch = {"a": np.float32([[0], [0], [9]]), "b": np.float32([[0], [9], [9]])}

    found = fault(space, batch)

    assert (1, "observation['b']") == (found.row, found.leaf)


def test_bounds_of_float64_are_rounded_as_observations_are():
    third = 1 / 3  # float32(1/3) > 1/3

    assert fault(spaces.Box(-third, third, (1,), np.float64), np.array([[third], [-third]])) is None


@pytest.mark.parametrize(
    ("actions", "mask", "row"),
    [
        (spaces.Discrete(3), [[0, 0, 1], [0, 0, 0]], 1),
        (spaces.MultiDiscrete([2, 1]), [[0, 1, 1], [1, 1, 0]], 1),
        (spaces.MultiDiscrete([2, 1]), [[0, 0, 1], [1, 1, 1]], 0),
    ],
)
@pytest.mark.parametrize("bounds", [True, False])
def test_a_mask_that_allows_nothing_for_a_choice_is_a_fault(actions, mask, row, bounds):
    space = spaces.Dict(action_mask=spaces.MultiBinary(3), x=spaces.Discrete(2))
    batch = {"action_mask": np.array(mask, np.int8), "x": np.zeros(2, np.int64)}

    found = fault(space, batch, actions=actions, bounds=bounds)

    assert Fault(row, "observation['action_mask']", "allows no action, expected at least one 1") == found


@given(st.lists(st.floats(width=32), min_size=4, max_size=4), st.floats(-5, 0, width=32), st.floats(0, 5, width=32))
def test_there_is_a_fault_exactly_where_the_space_does_not_contain_the_observation(values, low, high):
    space = spaces.Box(low, high, (2,))
    batch = np.array(values, np.float32).reshape(2, 2)

    found = fault(space, batch)

    bad = [row for row in range(2) if not (space.contains(batch[row]) and np.isfinite(batch[row]).all())]
    assert (bad[0] if bad else None) == (None if found is None else found.row)
