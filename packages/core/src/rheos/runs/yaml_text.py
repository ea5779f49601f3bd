"""A small emitter of YAML for what settings are made of, so that core can write config.yaml without a YAML library."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from rheos.errors import ConfigError

__all__ = ["to_yaml"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_RESERVED = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def to_yaml(settings: Mapping[str, object]) -> str:
    """Return nested settings as YAML: mappings, sequences, strings, numbers, booleans and None.

    What PyYAML and OmegaConf read back is equal to what was given; a tuple comes back as a list. Floats keep all
    their digits. A string that could be read as something else is quoted.

    Raises:
        ConfigError: for a value of any other type; the message gives its path.

    Example:
        >>> print(to_yaml({"algo": {"learning_rate": 3e-4, "hidden": (64, 64)}, "run_dir": None}), end="")
        algo:
          learning_rate: 0.0003
          hidden: [64, 64]
        run_dir: null
    """
    return "".join(f"{line}\n" for line in _mapping(settings, "")) if settings else "{}\n"


def _mapping(settings: Mapping[str, object], path: str) -> Iterator[str]:
    for key, value in settings.items():
        name = _scalar(key, path)
        below = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) and value:
            yield f"{name}:"
            yield from (f"  {line}" for line in _mapping(value, below))
        elif _is_sequence(value) and not all(_is_scalar(item) for item in value):
            yield f"{name}:"
            yield from (f"  {line}" for line in _items(value, below))
        else:
            yield f"{name}: {_inline(value, below)}"


def _items(values: Sequence[object], path: str) -> Iterator[str]:
    for index, value in enumerate(values):
        below = f"{path}[{index}]"
        if isinstance(value, Mapping) and value:
            lines = _mapping(value, below)
        elif _is_sequence(value) and not all(_is_scalar(item) for item in value):
            lines = _items(value, below)
        else:
            lines = iter([_inline(value, below)])
        yield f"- {next(lines)}"
        yield from (f"  {line}" for line in lines)


def _inline(value: object, path: str) -> str:
    if isinstance(value, Mapping):
        return "{}"  # an empty one: the others are nested
    if _is_sequence(value):
        return f"[{', '.join(_scalar(item, f'{path}[{index}]') for index, item in enumerate(value))}]"
    return _scalar(value, path)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple))


def _is_scalar(value: object) -> bool:
    return not isinstance(value, (Mapping, list, tuple))


def _scalar(value: object, path: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return repr(int(value))
        case float():
            return _float(float(value))
        case str():
            return _string(value)
        case _:
            kind = type(value).__name__
            raise ConfigError(f"{path}: got {value!r} ({kind}), expected plain data: a run folder keeps its settings.")


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    digits, exponent, power = repr(value).partition("e")
    # PyYAML reads 1e-05 as a string: a float of YAML 1.1 has a point before its exponent, and a sign after it.
    return digits if not exponent else f"{digits if '.' in digits else digits + '.0'}e{power}"


def _string(value: str) -> str:
    if _PLAIN.match(value) and value.lower() not in _RESERVED:
        return value
    return f'"{"".join(_escaped(character) for character in value)}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
