"""distribution_for: which distribution fits which action space, in the layout of the ActionAdapter."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import SpaceError
from rheos.spaces import ActionAdapter
from rheos_ops.distributions import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
    Product,
    SquashedGaussian,
    distribution_for,
)

BOX = spaces.Box(-2.0, 2.0, (2, 3))
TREE = spaces.Dict(
    gear=spaces.Discrete(3, start=-1),
    wheels=spaces.Tuple([BOX, spaces.MultiDiscrete([2, 4])]),
    lights=spaces.MultiBinary(2),
)
EXPECTED = [
    (spaces.Discrete(3, start=5), Categorical(3)),
    (spaces.MultiDiscrete([2, 4]), MultiCategorical((2, 4))),
    (spaces.MultiDiscrete(np.array([[2, 4], [3, 3]])), MultiCategorical((2, 4, 3, 3))),
    (spaces.MultiBinary(4), Bernoulli(4)),
    (spaces.MultiBinary([2, 3]), Bernoulli(6)),
    (BOX, DiagonalGaussian(6)),
    (spaces.Box(-np.inf, np.inf, (2,)), DiagonalGaussian(2)),
    (spaces.Tuple([spaces.Discrete(2)]), Product((Categorical(2),))),
]


@pytest.mark.parametrize(("space", "expected"), EXPECTED, ids=lambda given: type(given).__name__)
def test_each_space_has_its_distribution(space, expected):
    assert expected == distribution_for(ActionAdapter(space))


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("space", [*(space for space, _ in EXPECTED[:6]), TREE], ids=lambda space: type(space).__name__)
def test_what_is_sampled_decodes_to_actions_of_the_space(space, squash):
    adapter = ActionAdapter(space)
    distribution, generator = distribution_for(adapter, squash=squash), np.random.default_rng(0)
    params = generator.standard_normal((20, distribution.num_outputs + distribution.num_log_stds)).astype(np.float32)

    encoded = distribution.sample(xp, params, distribution.draw_noise(generator, 20))

    assert (20, *adapter.shape) == encoded.shape
    assert adapter.dtype == encoded.dtype
    decoded = adapter.decode(encoded)
    for row in range(20):
        assert space.contains(_row(decoded, row))


def _row(tree, row):
    if isinstance(tree, dict):
        return {key: _row(value, row) for key, value in tree.items()}
    return tuple(_row(value, row) for value in tree) if isinstance(tree, tuple) else tree[row]


def test_the_parts_of_a_tree_lie_where_the_adapter_has_them():
    adapter = ActionAdapter(TREE)

    product = distribution_for(adapter)

    sizes = [int(np.prod(part.action_shape)) for part in product.parts]
    ends = np.cumsum(sizes).tolist()
    expected = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    assert expected == [part.place for part in adapter.parts]


def test_squashing_is_for_boxes_and_leaves_the_rest_as_it_is():
    assert SquashedGaussian(6) == distribution_for(ActionAdapter(BOX), squash=True)
    assert Categorical(3) == distribution_for(ActionAdapter(spaces.Discrete(3)), squash=True)
    both = spaces.Tuple([BOX, spaces.Discrete(2)])
    assert Product((SquashedGaussian(6), Categorical(2))) == distribution_for(ActionAdapter(both), squash=True)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(-np.inf, np.inf, (2,)), r"action\[0\]: got bounds -inf and inf, expected two finite ones"),
        (
            spaces.Box(np.float32([[0, 0], [0, 0]]), np.float32([[1, 1], [np.inf, 1]])),
            r"action\[1, 0\]: got bounds 0.0 and inf",
        ),
        (spaces.Dict(steer=spaces.Box(-np.inf, 0.0, (1,))), r"action\['steer'\]\[0\]: got bounds -inf and 0.0"),
        (spaces.Box(-1.7e308, 1.7e308, (1,), np.float64), r"action\[0\]: got bounds -1.7e\+308 and 1.7e\+308"),
    ],
    ids=["no bounds", "one bound", "in a tree", "a range beyond float64"],
)
def test_squashing_needs_two_bounds_and_the_message_names_the_entry(space, message):
    with pytest.raises(SpaceError, match=message):
        distribution_for(ActionAdapter(space), squash=True)


def test_a_box_of_one_number_without_axes_is_named_without_an_index():
    with pytest.raises(SpaceError, match=r"action: got bounds 0.0 and inf"):
        distribution_for(ActionAdapter(spaces.Box(0.0, np.inf, ())), squash=True)
