"""Trees: spaces, and the observations in them, down to what is no Dict and no Tuple."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

__all__ = ["Leaf", "batched", "leaves", "rows", "tree_of"]


class Leaf(NamedTuple):
    """A space that holds no other, and where it is."""

    path: str
    """As in an error message: `observation['camera'][0]`."""
    keys: tuple[str | int, ...]
    """What to index an observation or action with, one after the other, in order to get at the leaf."""
    space: spaces.Space[Any]

    def take(self, tree: Any) -> Any:
        """Return the leaf's part of an observation or action, single or batched."""
        for key in self.keys:
            tree = tree[key]
        return tree


def leaves(space: spaces.Space[Any], path: str, keys: tuple[str | int, ...] = ()) -> Iterator[Leaf]:
    """Yield the leaves of a space in the space's own order; `path` names the root.

    Example:
        >>> space = spaces.Dict({"b": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])})
        >>> [leaf.path for leaf in leaves(space, "observation")]
        ["observation['b'][0]", "observation['b'][1]"]
    """
    if isinstance(space, spaces.Dict):
        for key, child in space.spaces.items():
            yield from leaves(child, f"{path}[{key!r}]", (*keys, key))
    elif isinstance(space, spaces.Tuple):
        for index, child in enumerate(space.spaces):
            yield from leaves(child, f"{path}[{index}]", (*keys, index))
    else:
        yield Leaf(path, keys, space)


def tree_of(space: spaces.Space[Any], values: Iterator[Any]) -> Any:
    """Put one value for each leaf of a space, in the order of `leaves`, where the leaf is: the inverse of taking them.

    Example:
        >>> tree_of(spaces.Dict(a=spaces.Discrete(2), b=spaces.Tuple([spaces.Discrete(3)])), iter([1, 2]))
        {'a': 1, 'b': (2,)}
    """
    if isinstance(space, spaces.Dict):
        return {key: tree_of(child, values) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(tree_of(child, values) for child in space.spaces)
    return next(values)


def batched(space: spaces.Space[Any], singles: Sequence[Any]) -> Any:
    """Join single observations into a batch: an array `[B, ...]`, or a dict or tuple of such arrays.

    Example:
        >>> batched(spaces.Dict(a=spaces.Discrete(5)), [{"a": 3}, {"a": 4}])
        {'a': array([3, 4])}
    """
    empty: Any = create_empty_array(space, len(singles), fn=np.empty)
    return concatenate(space, singles, empty)


def rows(batch: Any, mask: npt.NDArray[np.bool_]) -> Any:
    """Copy the rows of a batch where `mask` is True."""
    if isinstance(batch, dict):
        return {key: rows(value, mask) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(rows(value, mask) for value in batch)
    return batch[mask]
