"""Trees: what a run remembers, as JSON and arrays, so that it can be read again without running any code of a file.

A tree is made of None, bools, ints, floats, strings, bytes, NumPy scalars and arrays, tuples, lists, dicts (whose keys
are strings or ints), shared values, and objects of types that are registered (`rheos.tree_types`). `encode` and
`decode` are exact, bit for bit: types, dtypes, NaN and -0.0 included. Anything else is refused with its path.
"""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.errors import TreeError
from rheos.executors.protocol import LocalShared, Shared
from rheos.tree_types import names, type_named, type_of

__all__ = ["Arrays", "decode", "encode"]

Arrays = dict[str, npt.NDArray[np.generic]]
"""The arrays of an encoded tree, by the names that its structure gives them."""

_KINDS = "biuf"
"""Bools, signed and unsigned integers, floats: of up to 8 bytes they are the same on every machine."""


def encode(tree: Any, path: str = "") -> tuple[Any, Arrays]:
    """Return a structure that JSON can hold, and the arrays of a tree; equal arrays are kept once.

    Args:
        tree: what to encode.
        path: how its root is called where something in it is refused.

    Raises:
        TreeError: if something in it is none of what a tree is made of; one line gives its path.

    Example:
        >>> structure, arrays = encode({"turn": (1, None), "moments": np.zeros(2)})
        >>> structure
        {'dict': {'turn': {'tuple': [1, None]}, 'moments': {'array': '0'}}}
        >>> decode(structure, arrays)
        {'turn': (1, None), 'moments': array([0., 0.])}
    """
    encoder = _Encoder()
    try:
        return encoder.encode(tree, path), encoder.arrays
    except RecursionError:
        raise TreeError(f"{path or 'the tree'} is nested too deeply, or holds itself.") from None


def decode(structure: Any, arrays: Mapping[str, Any], share: Callable[[Any], Shared[Any]] = LocalShared) -> Any:
    """Return the tree that `encode` took apart. Its arrays are read-only, as those of everything in a flow.

    Args:
        structure: as JSON gave it.
        arrays: by name.
        share: makes a shared value again, such as `Executor.put`.

    Raises:
        TreeError: if the structure is none that `encode` gave, or has a type that is not registered.
    """
    try:
        return _Decoder(arrays, share).decode(structure)
    except TreeError:
        raise
    except (KeyError, ValueError, TypeError, AttributeError, struct.error) as error:
        raise TreeError(f"This is no encoded tree: {type(error).__name__}: {error}.") from error


class _Encoder:
    """Takes a tree apart."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._names: dict[bytes, str] = {}  # by a checksum, so that no array is in memory twice

    def encode(self, value: Any, path: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": struct.pack("<d", value).hex()}
        if kind is bytes:
            return {"bytes": base64.b64encode(value).decode()}
        if kind is list:
            return self._sequence(value, path)
        if kind is tuple:
            return {"tuple": self._sequence(value, path)}
        if kind is dict:
            return self._dict(value, path)
        if kind is np.ndarray:
            return {"array": self._name_of(value, path)}
        if isinstance(value, np.generic):
            number = _little_endian(np.asarray(value), path)
            return {"scalar": [number.dtype.str, number.tobytes().hex()]}
        if isinstance(value, Shared):
            return {"shared": self.encode(value.get(), path)}
        registered = type_of(kind)
        if registered is not None:
            return {"object": [registered.name, self.encode(registered.to_tree(value), path)]}
        raise TreeError(
            f"{path or 'the tree'}: got {_named(value)}, expected arrays, numbers, strings, None, tuples, lists, dicts "
            "or an object of a class with @tree_type."
        )

    def _sequence(self, values: Any, path: str) -> list[Any]:
        return [self.encode(value, f"{path}[{index}]") for index, value in enumerate(values)]

    def _dict(self, values: dict[Any, Any], path: str) -> Any:
        encoded = {}
        for key, value in values.items():
            if type(key) not in (str, int):
                raise TreeError(f"{path or 'the tree'}: got the key {_named(key)}, expected strings or ints.")
            encoded[key] = self.encode(value, _join(path, key))
        if all(type(key) is str for key in encoded):
            return {"dict": encoded}
        return {"pairs": [list(pair) for pair in encoded.items()]}

    def _name_of(self, array: npt.NDArray[Any], path: str) -> str:
        """Keep an array and return its name; one with the same bytes is there already, as weights of all workers."""
        kept = _little_endian(array, path)
        digest = hashlib.sha256(f"{kept.dtype.str}\0{kept.shape}\0".encode())
        digest.update(kept.reshape(-1).data)
        name = self._names.setdefault(digest.digest(), str(len(self._names)))
        self.arrays.setdefault(name, kept)
        return name


class _Decoder:
    """Puts a tree together again."""

    def __init__(self, arrays: Mapping[str, Any], share: Callable[[Any], Shared[Any]]) -> None:
        self._arrays = arrays
        self._share = share
        self._tags: dict[str, Callable[[Any], Any]] = {
            "tuple": self._tuple,
            "dict": self._dict,
            "pairs": self._pairs,
            "float": self._float,
            "bytes": self._bytes,
            "array": self._array,
            "scalar": self._scalar,
            "shared": self._shared,
            "object": self._object,
        }

    def decode(self, structure: Any) -> Any:
        if isinstance(structure, list):
            return [self.decode(part) for part in structure]
        if not isinstance(structure, dict):
            return structure
        ((tag, content),) = structure.items()
        return self._tags[tag](content)

    def _tuple(self, content: Any) -> Any:
        return tuple(self.decode(part) for part in content)

    def _dict(self, content: Any) -> Any:
        return {key: self.decode(part) for key, part in content.items()}

    def _pairs(self, content: Any) -> Any:
        return {key: self.decode(part) for key, part in content}

    def _float(self, content: str) -> float:
        number: float = struct.unpack("<d", bytes.fromhex(content))[0]
        return number

    def _bytes(self, content: str) -> bytes:
        return base64.b64decode(content, validate=True)

    def _array(self, content: str) -> Any:
        array = self._arrays[content]
        array.flags.writeable = False
        return array

    def _scalar(self, content: Any) -> Any:
        name, data = content
        dtype = np.dtype(name)
        if dtype.kind not in _KINDS:
            raise ValueError(f"{name} is no dtype of a number")
        return np.frombuffer(bytes.fromhex(data), dtype)[0]

    def _shared(self, content: Any) -> Any:
        return self._share(self.decode(content))

    def _object(self, content: Any) -> Any:
        name, tree = content
        registered = type_named(name)
        if registered is None:
            raise TreeError(
                f"The state has an object of type {name!r}, which nothing that is imported here registers: "
                f"install the package that it comes from. Registered: {', '.join(names())}."
            )
        return registered.from_tree(self.decode(tree))


def _little_endian(array: npt.NDArray[Any], path: str) -> npt.NDArray[Any]:
    if array.dtype.kind not in _KINDS or array.dtype.itemsize > 8:
        raise TreeError(f"{path or 'the tree'}: got an array of {array.dtype}, expected one of bools or numbers.")
    return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)


def _named(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # of a user's class
        text = "..."
    text = " ".join(text.split())
    return f"{type(value).__qualname__} ({text if len(text) <= 60 else text[:57] + '...'})"


def _join(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key
