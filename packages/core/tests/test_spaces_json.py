"""Spaces survive the way through JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium import spaces

from rheos.errors import SpaceError
from rheos.spaces import ObservationAdapter, Spaces
from rheos.spaces.tree import leaves

ALL = [
    spaces.Box(-1, 1, (3,)),
    spaces.Box(0, 255, (84, 84, 4), np.uint8),
    spaces.Box(np.array([-np.inf, 0.1, -3], np.float32), np.array([np.inf, np.inf, 1 / 3], np.float32)),
    spaces.Box(0.1, 1 / 3, (2, 2), np.float64),
    spaces.Box(0, 1, ()),
    spaces.Box(-(2**62), 2**62, (1,), np.int64),
    spaces.Discrete(3, start=-5),
    spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [2, 3]]),
    spaces.MultiBinary((2, 3)),
    spaces.Dict(a=spaces.Tuple([spaces.Discrete(2), spaces.Dict(b=spaces.MultiBinary(2))])),
]


@pytest.mark.parametrize("space", ALL, ids=str)
def test_a_space_comes_back_equal(space):
    written = json.dumps(Spaces(space, spaces.Discrete(2)).to_json(), allow_nan=False)

    read = Spaces.from_json(json.loads(written))

    assert Spaces(space, spaces.Discrete(2)) == read
    assert space.dtype == read.observation.dtype


def test_the_keys_of_a_dict_keep_their_order_so_that_weights_still_fit():
    space = spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Discrete(3))])

    read = Spaces.from_json(Spaces(space, space).to_json())

    assert ["root['z']", "root['a']"] == [leaf.path for leaf in leaves(read.observation, "root")]


def test_an_image_takes_a_line_and_not_a_megabyte():
    assert len(json.dumps(Spaces(ALL[1], spaces.Discrete(2)).to_json())) < 300


def test_an_observation_is_encoded_alike_before_and_after():
    space = ALL[-1]
    space.seed(0)
    sample = space.sample()
    batch = {"a": (np.array([sample["a"][0]]), {"b": sample["a"][1]["b"][None]})}

    read = Spaces.from_json(Spaces(space, spaces.Discrete(2)).to_json()).observation

    before, after = ObservationAdapter(space).encode(batch), ObservationAdapter(read).encode(batch)
    assert before.keys() == after.keys()
    for name, column in before.items():
        np.testing.assert_array_equal(column, after[name])


def test_what_cannot_be_written_is_named_with_its_path():
    with pytest.raises(SpaceError, match=r"^action\['x'\]: got Text\("):
        Spaces(spaces.Discrete(2), spaces.Dict(x=spaces.Text(3))).to_json()
