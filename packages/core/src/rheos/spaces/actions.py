"""ActionAdapter: encoded actions, as policies give them, into the actions that environments take."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rheos.errors import SpaceError
from rheos.spaces.tree import leaves

__all__ = ["ActionAdapter"]


class ActionAdapter:
    """Decodes batches of actions into the dtype and range of the environment's space.

    Discrete: `[B]` int32 in [0, n), plus `start`. Box: `[B, size]` float32; where a dimension has two bounds,
    [-1, 1] is mapped to them affinely after clipping; where it has one, the action is clipped to it; where it
    has none, it is taken as it is.

    Args:
        space: the space of a single action.

    Raises:
        SpaceError: if the space is neither Discrete nor Box, or a Box without entries; the message names the leaf.

    Example:
        >>> ActionAdapter(spaces.Discrete(3, start=5)).decode(np.array([0, 2], np.int32))
        array([5, 7])
        >>> ActionAdapter(spaces.Box(0, 10, (1,))).decode(np.array([[-1.0], [0.5], [9.0]], np.float32)).ravel()
        array([ 0. ,  7.5, 10. ], dtype=float32)
    """

    num_values: int | None = None
    """How many values a Discrete action has; None where actions are not Discrete."""
    size: int | None = None
    """How many numbers a Box action has; None where actions are not a Box."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space
        if isinstance(space, spaces.Discrete):
            self.num_values = int(space.n)
            self._start = space.start
            self._dtype = np.dtype(space.dtype)
        elif isinstance(space, spaces.Box):
            self.size = int(np.prod(space.shape))
            self._box = _BoxMap(space)
        else:
            raise _refusal(space)
        if self.size == 0:
            raise SpaceError(f"action: got {space}, which has no entries: there is nothing to choose.")

    def decode(self, encoded: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Decode a batch of actions.

        Args:
            encoded: `[B]` int32 for Discrete, `[B, size]` float32 for Box.

        Returns:
            `[B, ...]` in the space's shape and dtype, always inside the space where `encoded` is finite.
        """
        if self.num_values is None:
            return self._box.decode(encoded)
        actions = encoded.astype(self._dtype)
        if self._start:
            actions += self._start
        return actions


def _refusal(space: spaces.Space[Any]) -> SpaceError:
    """Name the first leaf that is neither Discrete nor Box, and all of them where none is to blame alone."""
    parts = list(leaves(space, "action"))
    alien = next((part for part in parts if not isinstance(part.space, spaces.Discrete | spaces.Box)), None)
    path, got = ("action", space) if alien is None else (alien.path, alien.space)
    what = type(got).__name__ + (f" of {', '.join(part.path for part in parts)}" if alien is None and parts else "")
    return SpaceError(
        f"{path}: got {got}, expected Discrete or Box: {what} is not decoded. Wrap the environment to take one."
    )


class _BoxMap:
    """The map of each dimension of a Box: clip, scale, shift; identity where a dimension has no bound."""

    def __init__(self, space: spaces.Box) -> None:
        self._shape = space.shape
        self._dtype = np.dtype(space.dtype)
        self._low, self._high = space.low, space.high
        low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            half_range = (high - low) / 2
        has_both = np.isfinite(half_range)  # a range that float64 cannot hold counts as none
        self._scale = np.where(has_both, half_range, 1.0)
        self._shift = np.where(has_both, np.where(has_both, low, 0.0) + self._scale, 0.0)
        self._encoded_low = np.where(has_both, -1.0, low)
        self._encoded_high = np.where(has_both, 1.0, high)
        self._is_bounded = bool(np.any(has_both) or np.any(np.isfinite(low)) or np.any(np.isfinite(high)))
        self._is_integer = np.issubdtype(self._dtype, np.integer)

    def decode(self, encoded: npt.NDArray[Any]) -> npt.NDArray[Any]:
        shape = (len(encoded), *self._shape)
        if not self._is_bounded:
            return encoded.reshape(shape).astype(self._dtype)
        actions = np.clip(encoded, self._encoded_low, self._encoded_high) * self._scale + self._shift
        if self._is_integer:
            actions = np.rint(actions)
        # once more: rounding may lead out of the bounds by one unit in the last place
        inside: npt.NDArray[Any] = np.clip(actions.reshape(shape), self._low, self._high)
        return inside.astype(self._dtype)
