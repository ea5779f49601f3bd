"""distribution_for: the distribution that fits an action space."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rheos.errors import SpaceError
from rheos.spaces import ActionAdapter
from rheos.spaces.tree import Leaf
from rheos_ops.distributions.bernoulli import Bernoulli
from rheos_ops.distributions.categorical import Categorical, MultiCategorical
from rheos_ops.distributions.gaussian import DiagonalGaussian, SquashedGaussian
from rheos_ops.distributions.product import Product
from rheos_ops.distributions.protocol import Distribution

__all__ = ["distribution_for"]


def distribution_for(actions: ActionAdapter, *, squash: bool = False) -> Distribution:
    """Return a distribution over the encoded actions of a space.

    `Categorical` for Discrete, `MultiCategorical` for MultiDiscrete, `Bernoulli` for MultiBinary, a Gaussian for Box,
    and their `Product` for a Dict or Tuple.

    Args:
        actions: the adapter that decodes what the distribution gives.
        squash: whether Boxes get a `SquashedGaussian`, not a `DiagonalGaussian`.

    Raises:
        SpaceError: if a dimension of a Box has no two bounds to squash actions into; the message names the leaf.

    Example:
        >>> distribution_for(ActionAdapter(spaces.Discrete(3, start=5)))
        Categorical(num_values=3)
        >>> distribution_for(ActionAdapter(spaces.Box(-2.0, 2.0, (4,))), squash=True)
        SquashedGaussian(size=4)
    """
    parts = tuple(_distribution_of(part.leaf, squash=squash) for part in actions.parts)
    return Product(parts) if actions.is_tree else parts[0]


def _distribution_of(leaf: Leaf, *, squash: bool) -> Distribution:
    match leaf.space:
        case spaces.Discrete():
            return Categorical(int(leaf.space.n))
        case spaces.MultiDiscrete():
            return MultiCategorical(tuple(int(n) for n in leaf.space.nvec.ravel()))
        case spaces.MultiBinary():
            return Bernoulli(int(np.prod(leaf.space.shape)))
        case spaces.Box():
            size = int(np.prod(leaf.space.shape))
            if not squash:
                return DiagonalGaussian(size)
            _require_two_bounds(leaf.path, leaf.space)
            return SquashedGaussian(size)
    raise SpaceError(f"{leaf.path}: got {leaf.space}, expected Discrete, MultiDiscrete, MultiBinary or Box.")


def _require_two_bounds(path: str, space: spaces.Box) -> None:
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        is_open = ~np.isfinite((high - low) / 2)  # a range that float64 cannot hold counts as none
    if is_open.any():
        first = int(np.flatnonzero(is_open)[0])
        index = [int(axis) for axis in np.unravel_index(first, space.shape)]
        raise SpaceError(
            f"{path}{index or ''}: got bounds {low[first]} and {high[first]}, expected two finite ones: squashed"
            " actions fill the range between them. Do not squash, or wrap the environment so that it has bounds."
        )
