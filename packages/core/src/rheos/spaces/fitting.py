"""ObservationCheck: whether an observation fits its space, so that NumPy does not bend it until it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rheos.errors import ShapeError
from rheos.spaces.tree import Leaf, leaves

__all__ = ["ARRAY_SPACES", "ObservationCheck"]

ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""The spaces whose members are arrays or numbers of one shape and dtype."""


class ObservationCheck:
    """Refuses observations that NumPy would broadcast, truncate or wrap in order to write them into a batch.

    A narrower float is taken, as it is in a batch of Gymnasium's. The bounds of the space are not looked at. Nearly
    free where the observation is an array of just the shape and dtype of its space.

    Args:
        space: the space of a single observation.
        num_envs: B, the first axis of every leaf, where batches are given; None: single observations are.

    Example:
        >>> check = ObservationCheck(spaces.Box(0, 255, (2,), np.uint8))
        >>> check(np.array([7, 255], np.uint16))
        >>> check(np.array([7, 300], np.uint16))
        Traceback (most recent call last):
        OverflowError: the observation holds 7 to 300, its space's dtype uint8 only 0 to 255.
    """

    def __init__(self, space: spaces.Space[Any], num_envs: int | None = None) -> None:
        leading = () if num_envs is None else (num_envs,)
        self._leaves = [
            _LeafCheck(leaf, leading) for leaf in leaves(space, "observation") if isinstance(leaf.space, ARRAY_SPACES)
        ]
        is_array = isinstance(space, ARRAY_SPACES)
        self._shape = (*leading, *(space.shape or ())) if is_array else None
        self._dtype = space.dtype

    def __call__(self, observation: Any) -> None:
        """Return if the observation, or batch of them, fits.

        Raises:
            ShapeError: if it, or a leaf of it, has another shape than its space.
            TypeError: if it lacks a leaf, or its dtype is of another kind, such as floats where the space has integers.
            OverflowError: if it has integers that the dtype of the space does not hold.
        """
        shape = self._shape
        if shape is not None and getattr(observation, "shape", None) == shape and observation.dtype is self._dtype:
            return
        for check in self._leaves:
            check(observation)


class _LeafCheck:
    def __init__(self, leaf: Leaf, leading: tuple[int, ...]) -> None:
        self._leaf = leaf
        self._shape, self._dtype = (*leading, *(leaf.space.shape or ())), np.dtype(leaf.space.dtype)
        self._holds = {self._dtype}  # every value of these

    def __call__(self, observation: Any) -> None:
        array = self._array(observation)
        if array.shape != self._shape:
            raise ShapeError(f"the {self._leaf.path} has shape {array.shape}, its space {self._shape}.")
        if array.dtype in self._holds:
            return
        if not np.can_cast(array.dtype, self._dtype, "same_kind"):
            raise TypeError(
                f"the {self._leaf.path} has dtype {array.dtype}, its space {self._dtype}, which cannot hold it: "
                "cast it in the environment, or mend the space."
            )
        if self._dtype.kind not in "iu" or np.can_cast(array.dtype, self._dtype, "safe"):
            self._holds.add(array.dtype)
        elif array.size:
            limits, least, most = np.iinfo(self._dtype.name), array.min(), array.max()
            if least < limits.min or most > limits.max:
                raise OverflowError(
                    f"the {self._leaf.path} holds {least} to {most}, its space's dtype {self._dtype} only "
                    f"{limits.min} to {limits.max}."
                )

    def _array(self, observation: Any) -> npt.NDArray[Any]:
        try:
            part = self._leaf.take(observation)
        except (LookupError, TypeError):
            raise TypeError(f"the observation is a {type(observation).__name__} without {self._leaf.path}.") from None
        try:
            return np.asarray(part)
        except ValueError as error:  # nested lists of different lengths
            raise ShapeError(f"the {self._leaf.path} is no array of shape {self._shape}: {error}") from None
