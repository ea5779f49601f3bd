"""Spaces: what an environment gives and takes, and the JSON form in which a run remembers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rheos.errors import SpaceError

__all__ = ["Spaces"]


@dataclass(frozen=True)
class Spaces:
    """The spaces of a single environment.

    Example:
        >>> both = Spaces(spaces.Box(-1.0, np.inf, (2,)), spaces.Discrete(3, start=1))
        >>> both.to_json()["observation"]
        {'type': 'Box', 'shape': [2], 'dtype': 'float32', 'low': -1.0, 'high': 'inf'}
        >>> Spaces.from_json(both.to_json()) == both
        True
    """

    observation: spaces.Space[Any]
    action: spaces.Space[Any]

    def to_json(self) -> dict[str, Any]:
        """Return a tree of dicts, lists, strings and finite numbers, as `json.dumps` takes it.

        Raises:
            SpaceError: if a leaf is no Box, Discrete, MultiDiscrete or MultiBinary; the message names the leaf.
        """
        return {
            "observation": _to_json(self.observation, "observation"),
            "action": _to_json(self.action, "action"),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Spaces:
        """Return the spaces that `to_json` wrote.

        Raises:
            SpaceError: if a space has a type that `to_json` does not write.
        """
        return Spaces(_from_json(data["observation"]), _from_json(data["action"]))


def _to_json(space: spaces.Space[Any], path: str) -> dict[str, Any]:
    match space:
        case spaces.Box():
            bounds = {"low": _numbers(space.low), "high": _numbers(space.high)}
            return {"type": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
        case spaces.Discrete():
            return {"type": "Discrete", "n": int(space.n), "start": int(space.start), "dtype": str(space.dtype)}
        case spaces.MultiDiscrete():
            values = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
            return {"type": "MultiDiscrete", "dtype": str(space.dtype), **values}
        case spaces.MultiBinary():
            return {"type": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.shape)}
        case spaces.Dict():
            # a list of pairs: the order of the keys is the order of the encoded numbers
            children = [[key, _to_json(child, f"{path}[{key!r}]")] for key, child in space.spaces.items()]
            return {"type": "Dict", "spaces": children}
        case spaces.Tuple():
            return {"type": "Tuple", "spaces": [_to_json(s, f"{path}[{i}]") for i, s in enumerate(space.spaces)]}
    raise SpaceError(
        f"{path}: got {space}, expected Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of them. "
        "Wrap the environment so that it gives one of these."
    )


def _from_json(data: Mapping[str, Any]) -> spaces.Space[Any]:
    match data["type"]:
        case "Box":
            shape, dtype = tuple(data["shape"]), np.dtype(data["dtype"])
            low, high = _array(data["low"], shape, dtype), _array(data["high"], shape, dtype)
            return spaces.Box(low, high, shape, dtype.type)
        case "Discrete":
            # older versions of Gymnasium know int64 only, and no argument for it
            dtypes: dict[str, Any] = {} if data["dtype"] == "int64" else {"dtype": np.dtype(data["dtype"]).type}
            return spaces.Discrete(data["n"], start=data["start"], **dtypes)
        case "MultiDiscrete":
            dtype = np.dtype(data["dtype"])
            nvec, start = np.array(data["nvec"], dtype), np.array(data["start"], dtype)
            return spaces.MultiDiscrete(nvec, start=start, dtype=dtype.type)
        case "MultiBinary":
            return spaces.MultiBinary(data["n"])
        case "Dict":
            return spaces.Dict([(key, _from_json(child)) for key, child in data["spaces"]])
        case "Tuple":
            return spaces.Tuple([_from_json(child) for child in data["spaces"]])
    raise SpaceError(f"got a space of type {data['type']!r}, expected one that this version of Rheos writes.")


def _numbers(array: npt.NDArray[Any]) -> Any:
    """Return nested lists, or a single number where all are equal (images); JSON has no infinity, so it is a string."""
    if array.size and (array == array.flat[0]).all():
        return _number(array.flat[0].item())
    return _nested(array)


def _nested(array: npt.NDArray[Any]) -> Any:
    return [_nested(row) for row in array] if array.ndim else _number(array.item())


def _number(value: float) -> float | str:
    return value if np.isfinite(value) else str(value)


def _array(numbers: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if isinstance(numbers, list):
        return np.array(numbers, dtype=object).astype(dtype).reshape(shape)
    return np.full(shape, numbers, dtype=object).astype(dtype)
