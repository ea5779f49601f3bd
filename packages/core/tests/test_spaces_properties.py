"""What is encoded is decoded again, whatever the space: properties of the adapters."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rheos.spaces import ActionAdapter, ObservationAdapter
from rheos.spaces.tree import batched, leaves

SHAPES = hnp.array_shapes(min_dims=1, max_dims=2, max_side=3)
SEEDS = st.integers(0, 2**31 - 1)


@st.composite
def boxes(draw, dtypes=(np.float32, np.float64)):
    """Boxes of which each dimension has two bounds, one or none."""
    shape, dtype = draw(SHAPES), draw(st.sampled_from(dtypes))
    bounds = hnp.arrays(np.float32, shape, elements=st.floats(-100, 100, width=32))
    low = draw(bounds)
    high = low + np.abs(draw(bounds)) + np.float32(0.125)  # a range, so that there is something to scale
    low = np.where(draw(hnp.arrays(np.bool_, shape)), -np.inf, low)
    high = np.where(draw(hnp.arrays(np.bool_, shape)), np.inf, high)
    return spaces.Box(low.astype(dtype), high.astype(dtype), shape, dtype)


@st.composite
def integer_boxes(draw):
    shape, dtype = draw(SHAPES), draw(st.sampled_from([np.int8, np.int32, np.int64]))
    low = draw(hnp.arrays(dtype, shape, elements=st.integers(-100, 20)))
    high = low + draw(hnp.arrays(dtype, shape, elements=st.integers(0, 100)))
    return spaces.Box(low, high, shape, dtype)


@st.composite
def multi_discretes(draw):
    shape = draw(SHAPES)
    nvec = draw(hnp.arrays(np.int64, shape, elements=st.integers(1, 6)))
    return spaces.MultiDiscrete(nvec, start=draw(hnp.arrays(np.int64, shape, elements=st.integers(-9, 9))))


DISCRETES = st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 9), st.integers(-1000, 1000))
CHOICES = st.one_of(DISCRETES, multi_discretes(), SHAPES.map(spaces.MultiBinary))
LEAVES = st.one_of(boxes(), integer_boxes(), CHOICES)
KEYS = st.text("abc.", min_size=1, max_size=3)


def trees(leaf):
    """Dicts and Tuples of leaves, and of Dicts and Tuples."""
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.dictionaries(KEYS, inner, min_size=1, max_size=3).map(spaces.Dict),
            st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
        ),
        max_leaves=5,
    )


def samples(space, seed, size=4):
    space.seed(seed)
    return batched(space, [space.sample() for _ in range(size)])


def assert_equal_trees(space, expected, actual, rtol=0.0, atol=0.0):
    for leaf in leaves(space, "action"):
        np.testing.assert_allclose(leaf.take(actual), leaf.take(expected), rtol=rtol, atol=atol, err_msg=leaf.path)


@given(trees(st.one_of(integer_boxes(), CHOICES)), SEEDS)
def test_actions_of_integers_come_back_exactly(space, seed):
    adapter, actions = ActionAdapter(space), samples(space, seed)

    decoded = adapter.decode(adapter.encode(actions))

    assert_equal_trees(space, actions, decoded)
    for leaf in leaves(space, "action"):
        assert leaf.space.dtype == leaf.take(decoded).dtype


@given(trees(LEAVES), SEEDS)
def test_actions_of_any_space_come_back_and_are_inside_of_it(space, seed):
    adapter, actions = ActionAdapter(space), samples(space, seed)

    encoded = adapter.encode(actions)
    decoded = adapter.decode(encoded)

    assert ((4, *adapter.shape), adapter.dtype) == (encoded.shape, encoded.dtype)
    # encoded actions are float32: to 2**-23 of the number, or of half the range, which is at most 100 here
    assert_equal_trees(space, actions, decoded, rtol=1e-6, atol=1e-4)
    for single in iterate(batch_space(space, 4), decoded):
        assert space.contains(single)


@given(boxes(), SEEDS)
def test_encoded_numbers_come_back_where_nothing_is_clipped_and_lie_at_the_bound_where_it_is(space, seed):
    adapter = ActionAdapter(space)
    encoded = np.random.default_rng(seed).normal(scale=2, size=(4, *adapter.shape)).astype(np.float32)

    again = adapter.encode(adapter.decode(encoded))

    # the decoded number has float32's precision, of up to 200, in a range of down to 0.125: 200 * 2**-23 / 0.0625
    np.testing.assert_allclose(again, np.clip(encoded, adapter.low, adapter.high), atol=1e-3)


@given(trees(CHOICES), SEEDS)
def test_encoded_choices_come_back_exactly(space, seed):
    adapter = ActionAdapter(space)
    encoded = adapter.encode(samples(space, seed))

    np.testing.assert_array_equal(encoded, adapter.encode(adapter.decode(encoded)))


@given(trees(st.one_of(LEAVES, SHAPES.map(lambda shape: spaces.Box(0, 255, shape, np.uint8)))), SEEDS)
def test_nothing_of_an_observation_is_lost_and_none_in_the_space_is_a_fault(space, seed):
    adapter, observations = ObservationAdapter(space), samples(space, seed)

    columns = adapter.encode(observations)

    assert adapter.fault(columns) is None
    assert {name: (column.shape, column.dtype) for name, column in adapter.columns.items()} == {
        name: (column.shape[1:], column.dtype) for name, column in columns.items()
    }
    flat = columns.get("observations")
    images = iter([column for name, column in columns.items() if name != "observations"])
    is_image = isinstance(space, spaces.Box) and space.dtype == np.uint8
    if is_image:
        flat, images = None, iter([flat])
    start = 0
    for leaf in leaves(space, "observation"):
        given_values = np.asarray(leaf.take(observations)).reshape(4, -1)
        if leaf.space.dtype == np.uint8:
            np.testing.assert_array_equal(given_values, next(images).reshape(4, -1), err_msg=leaf.path)
            continue
        for values in numbers_of_each_entry(leaf.space, flat[:, start:], given_values.shape[1]):
            start += values.width
            np.testing.assert_array_equal(given_values[:, values.entry].astype(np.float32), values.read)
    assert start == (0 if flat is None else flat.shape[1])


class Read:
    """An entry of a leaf as it was read from its place in the flat column."""

    def __init__(self, entry, width, read):
        self.entry, self.width, self.read = entry, width, read


def numbers_of_each_entry(space, flat, size):
    """Read the entries of a leaf from where its place begins: numbers as they are, choices from their one-hots."""
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return [Read(entry, 1, flat[:, entry]) for entry in range(size)]
    sizes = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)
    starts = np.ravel(space.start)
    read, place = [], 0
    for entry, (width, first) in enumerate(zip(sizes.tolist(), starts.tolist(), strict=True)):
        one_hot = flat[:, place : place + width]
        np.testing.assert_array_equal(np.ones(4), one_hot.sum(axis=1))
        read.append(Read(entry, width, one_hot.argmax(axis=1) + first))
        place += width
    return read
