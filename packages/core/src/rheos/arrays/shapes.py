"""Checks of static shapes: cheap, and the same on every framework."""

from __future__ import annotations

from collections.abc import Sequence

from rheos.arrays.namespace import Array
from rheos.errors import ShapeError

__all__ = ["are_alike", "check_same_shape"]


def check_same_shape(takes: str, **arrays: Array) -> None:
    """Require the shape of the first array of all the others.

    Args:
        takes: how the message ends: who takes what, e.g. "f takes time-major arrays [T, B] of one shape".
        arrays: by the names that the message shows.

    Raises:
        ShapeError: naming the first array that differs.

    Example:
        >>> import numpy as np
        >>> check_same_shape("f takes arrays of one shape", rewards=np.zeros((7, 3)), values=np.zeros((3, 7)))
        Traceback (most recent call last):
        rheos.errors.ShapeError: `values` has shape (3, 7), `rewards` has (7, 3): f takes arrays of one shape.
    """
    (first, *others) = arrays.items()
    for name, array in others:
        if not are_alike(array.shape, first[1].shape):
            raise ShapeError(
                f"`{name}` has shape {tuple(array.shape)}, `{first[0]}` has {tuple(first[1].shape)}: {takes}."
            )


def are_alike(shape: Sequence[int | None], other: Sequence[int | None]) -> bool:
    """Return whether two shapes may be the same; a length that a graph leaves open, None, may be any.

    Example:
        >>> are_alike((None, 3), (7, 3)), are_alike((None, 3), (7, 4)), are_alike((7,), (7, 1))
        (True, False, False)
    """
    return len(shape) == len(other) and all(
        None in (length, expected) or length == expected for length, expected in zip(shape, other, strict=True)
    )
