"""ActionAdapter: encoded actions, as policies give them, into the actions that environments take, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rheos.errors import SpaceError
from rheos.spaces.tree import Leaf, leaves, tree_of

__all__ = ["ActionAdapter", "ActionPart"]

_Array = npt.NDArray[Any]
_MOST_VALUES = 2**24
"""Up to here every integer is exact in float32."""
_WIDE_INTEGERS = tuple(np.dtype(kind) for kind in (np.int32, np.int64, np.uint32, np.uint64))


class ActionPart(NamedTuple):
    """A leaf of an action space, and its place in the encoded actions."""

    leaf: Leaf
    place: slice
    """Of the last axis; of a single Discrete, which has no axis, the whole."""


class ActionAdapter:
    """Decodes batches of actions into the dtype and range of the environment's space, and encodes them back.

    Discrete: `[B]` int32 in [0, n), plus `start`. MultiDiscrete: `[B, k]` int32, plus `start`. MultiBinary: `[B, k]`
    int32, 0 or 1. Box: `[B, size]` float32; where a dimension has two bounds, [-1, 1] is mapped to them affinely after
    clipping; where it has one, the action is clipped to it; where it has none, it is taken as it is. Dict and Tuple:
    `[B, total]` float32, leaf after leaf, in which integers are exact.

    Args:
        space: the space of a single action.

    Raises:
        SpaceError: if a leaf is none of these, which the message names, or if there is nothing to choose.

    Example:
        >>> ActionAdapter(spaces.Discrete(3, start=5)).decode(np.array([0, 2], np.int32))
        array([5, 7])
        >>> ActionAdapter(spaces.Box(0, 10, (1,))).decode(np.array([[-1.0], [0.5], [9.0]], np.float32)).ravel()
        array([ 0. ,  7.5, 10. ], dtype=float32)
        >>> ActionAdapter(spaces.Dict(gear=spaces.Discrete(3), brake=spaces.MultiBinary(1))).shape
        (2,)
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space
        self.is_tree = isinstance(space, spaces.Dict | spaces.Tuple)
        """Whether actions are dicts or tuples."""
        found = list(leaves(space, "action"))
        self._codecs = [_codec_of(leaf, is_tree=self.is_tree) for leaf in found]
        ends = np.cumsum([codec.size for codec in self._codecs], dtype=int)
        self.parts = tuple(
            ActionPart(leaf, slice(int(end) - codec.size, int(end)))
            for leaf, codec, end in zip(found, self._codecs, ends, strict=True)
        )
        """The leaves, in the space's own order."""
        if not found or not ends[-1]:
            raise SpaceError(f"action: got {space}, which has no entries: there is nothing to choose.")
        is_single = isinstance(space, spaces.Discrete)
        self.shape: tuple[int, ...] = () if is_single else (int(ends[-1]),)
        """Of an encoded action."""
        has_numbers = self.is_tree or isinstance(space, spaces.Box)
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if has_numbers else np.int32)
        """Of encoded actions."""
        with np.errstate(over="ignore"):  # a bound that float32 cannot hold counts as none
            self.low, self.high = (
                np.concatenate([getattr(codec, side) for codec in self._codecs]).astype(np.float32)
                for side in ("low", "high")
            )
        """`[size]` float32 each: an encoded Box action beyond these is clipped; infinite where nothing is."""
        self.decode: Callable[[_Array], Any] = self._decode_tree if self.is_tree else self._codecs[0].decode
        """Decode a batch of actions, `[B, *shape]`: `[B, ...]` arrays in the space's shape and dtype, always inside the
        space where the encoded actions are finite; for Dict and Tuple a dict or tuple of such arrays."""

    def encode(self, actions: Any) -> _Array:
        """Encode a batch of actions of the space, so that `decode` gives them again.

        Args:
            actions: `[B, ...]`; for Dict and Tuple a dict or tuple of such arrays.

        Returns:
            `[B, *shape]` in the dtype of encoded actions.
        """
        if not self.is_tree:
            return self._codecs[0].encode(np.asarray(actions))
        columns = [
            codec.encode(np.asarray(part.leaf.take(actions)))
            for part, codec in zip(self.parts, self._codecs, strict=True)
        ]
        return np.concatenate(columns, axis=1).astype(np.float32)

    def _decode_tree(self, encoded: _Array) -> Any:
        decoded = (codec.decode(encoded[:, part.place]) for part, codec in zip(self.parts, self._codecs, strict=True))
        return tree_of(self.space, decoded)


class _Codec(Protocol):
    """Decodes and encodes a leaf."""

    size: int
    low: _Array
    high: _Array

    def decode(self, encoded: _Array) -> _Array: ...

    def encode(self, actions: _Array) -> _Array: ...


def _codec_of(leaf: Leaf, *, is_tree: bool) -> _Codec:
    space = leaf.space
    if isinstance(space, spaces.Box):
        return _BoxCodec(space)
    if isinstance(space, spaces.Discrete):
        codec = _IntegerCodec(space, () if is_tree else None, np.array([space.n]), np.array(space.start))
    elif isinstance(space, spaces.MultiDiscrete):
        codec = _IntegerCodec(space, space.shape, space.nvec, space.start)
    elif isinstance(space, spaces.MultiBinary):
        codec = _IntegerCodec(space, space.shape, np.full(space.shape, 2), np.array(0))
    else:
        raise SpaceError(
            f"{leaf.path}: got {space}, expected Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of "
            f"them: {type(space).__name__} is not decoded. Wrap the environment to take one."
        )
    if is_tree and codec.most_values > _MOST_VALUES:
        raise SpaceError(f"{leaf.path}: got {space}, expected at most 2**24 values inside of a Dict or Tuple.")
    return codec


class _IntegerCodec:
    """Integers from 0, plus where the space starts."""

    def __init__(
        self, space: spaces.Space[Any], shape: tuple[int, ...] | None, num_values: _Array, start: _Array
    ) -> None:
        self.size = int(np.prod(shape)) if shape is not None else 1
        self.most_values = int(num_values.max(initial=0))
        self._shape = shape
        self._dtype = np.dtype(space.dtype)
        self._start = start.astype(np.int64)
        self._has_start = bool(np.any(self._start))
        self.low, self.high = np.full(self.size, -np.inf), np.full(self.size, np.inf)

    def decode(self, encoded: _Array) -> _Array:
        if self._shape is not None:
            encoded = encoded.reshape(len(encoded), *self._shape)
        if not self._has_start:
            return encoded.astype(self._dtype)
        return (encoded.astype(np.int64) + self._start).astype(self._dtype, copy=False)  # may hold the sum only

    def encode(self, actions: _Array) -> _Array:
        encoded: _Array = (actions.astype(np.int64) - self._start).astype(np.int32)
        return encoded if self._shape is None else encoded.reshape(len(actions), self.size)


class _BoxCodec:
    """The map of each dimension of a Box: clip, scale, shift; identity where a dimension has no bound."""

    def __init__(self, space: spaces.Box) -> None:
        self.size = int(np.prod(space.shape))
        self._shape = space.shape
        self._dtype = np.dtype(space.dtype)
        self._low, self._high = _inside(space.low, np.inf), _inside(space.high, -np.inf)
        low, high = self._low.ravel(), self._high.ravel()
        if self._dtype in _WIDE_INTEGERS:  # without bounds, Gymnasium gives them about the limits of their dtype
            limits = np.iinfo(self._dtype.name)
            low = np.where((space.low.ravel() <= limits.min + 2) & (limits.min < 0), -np.inf, low)
            high = np.where(space.high.ravel() >= limits.max - 2, np.inf, high)
        with np.errstate(over="ignore", invalid="ignore"):
            half_range = (high - low) / 2
        has_both = np.isfinite(half_range)  # a range that float64 cannot hold counts as none
        self._scale = np.where(has_both, half_range, 1.0)
        self._shift = np.where(has_both, np.where(has_both, low, 0.0) + self._scale, 0.0)
        self.low = np.where(has_both, -1.0, low)
        self.high = np.where(has_both, 1.0, high)
        self._is_integer = np.issubdtype(self._dtype, np.integer)
        has_any = np.any(np.isfinite(self._low)) or np.any(np.isfinite(self._high))
        self._is_bounded = bool(has_any)  # integers always are, by their dtype

    def decode(self, encoded: _Array) -> _Array:
        shape = (len(encoded), *self._shape)
        if not self._is_bounded:
            return encoded.reshape(shape).astype(self._dtype)
        actions = np.clip(encoded, self.low, self.high) * self._scale + self._shift
        if self._is_integer:
            actions = np.rint(actions)
        # once more: rounding may lead out of the bounds by one unit in the last place
        inside: _Array = np.clip(actions.reshape(shape), self._low, self._high)
        return inside.astype(self._dtype)

    def encode(self, actions: _Array) -> _Array:
        flat = actions.reshape(len(actions), self.size).astype(np.float64)
        scale = np.where(self._scale > 0, self._scale, 1.0)  # a dimension of one value is 0 in the middle of [-1, 1]
        encoded: _Array = ((flat - self._shift) / scale).astype(np.float32)
        return encoded


def _inside(bound: _Array, toward: float) -> _Array:
    """Return a bound in float64; where that does not hold it exactly (wide integers), the next number inside of it."""
    rounded = bound.astype(np.float64)
    if bound.dtype.kind not in "iu":
        return rounded
    exact = bound.astype(object)
    is_outside = rounded.astype(object) < exact if toward > 0 else rounded.astype(object) > exact
    return np.where(is_outside.astype(np.bool_), np.nextafter(rounded, toward), rounded)
