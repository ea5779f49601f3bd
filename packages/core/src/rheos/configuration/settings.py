"""Settings: the fields of configuration dataclasses, with unit, range and help, and their way from and to mappings."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from rheos.errors import ConfigError, did_you_mean

__all__ = ["Constraint", "Setting", "from_mapping", "setting", "settings_of", "to_mapping"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """What a value must fulfil beside its type; `None` where nothing is asked. A `None` value is never checked."""

    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | None = None
    exclusive_maximum: float | None = None
    choices: tuple[Any, ...] | None = None
    allow_empty: bool = True

    def describe(self) -> str:
        """Return the range in words and signs, or "" where there is none.

        Example:
            >>> Constraint(exclusive_minimum=0, maximum=1).describe()
            '> 0 and <= 1'
        """
        if self.choices is not None:
            return f"one of {', '.join(map(repr, self.choices))}"
        if not self.allow_empty:
            return "that is not empty"
        limits = {
            ">": self.exclusive_minimum,
            ">=": self.minimum,
            "<": self.exclusive_maximum,
            "<=": self.maximum,
        }
        return " and ".join(f"{sign} {limit:g}" for sign, limit in limits.items() if limit is not None)

    def admits(self, value: Any) -> bool:
        """Tell whether a value of the right type is within the range; of a sequence, every element must be."""
        if self.choices is not None:
            return value in self.choices
        if isinstance(value, str):
            return self.allow_empty or bool(value.strip())
        if isinstance(value, (list, tuple)):
            return all(self.admits(element) for element in value)
        return not (
            (self.minimum is not None and value < self.minimum)
            or (self.maximum is not None and value > self.maximum)
            or (self.exclusive_minimum is not None and value <= self.exclusive_minimum)
            or (self.exclusive_maximum is not None and value >= self.exclusive_maximum)
        )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting as `rheos info` shows it."""

    name: str
    type: str
    default: Any
    required: bool
    unit: str | None
    range: str
    help: str


def setting(
    default: Any = dataclasses.MISSING,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    exclusive_minimum: float | None = None,
    exclusive_maximum: float | None = None,
    choices: Collection[Any] | None = None,
    allow_empty: bool = True,
    unit: str | None = None,
    help: str = "",
) -> Any:
    """Declare a field of a configuration dataclass; without a default, the setting is required.

    The range is checked by `from_mapping`, where the user's path is known, not when the dataclass is made. Of a
    tuple, every element is checked.

    Args:
        default: An immutable value.
        minimum: The smallest value that is allowed.
        maximum: The largest value that is allowed.
        exclusive_minimum: The value must be larger.
        exclusive_maximum: The value must be smaller.
        choices: All values that are allowed.
        allow_empty: Whether a string may be empty, or blank.
        unit: Such as `"s"` or `"env steps"`, for `rheos info`.
        help: A phrase for `rheos info`.

    Example:
        >>> @dataclass(frozen=True)
        ... class SGDConfig:
        ...     learning_rate: float = setting(3e-4, exclusive_minimum=0, help="step size")
        >>> SGDConfig().learning_rate
        0.0003
    """
    constraint = Constraint(
        minimum=minimum,
        maximum=maximum,
        exclusive_minimum=exclusive_minimum,
        exclusive_maximum=exclusive_maximum,
        choices=None if choices is None else tuple(choices),
        allow_empty=allow_empty,
    )
    metadata = {"constraint": constraint, "unit": unit, "help": help}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(cls: type) -> list[Setting]:
    """Return the settings of a configuration dataclass, in their order."""
    hints = typing.get_type_hints(cls)
    return [
        Setting(
            name=field.name,
            type=_describe_type(hints[field.name]),
            default=None if _is_required(field) else to_mapping_value(_default_of(field)),
            required=_is_required(field),
            unit=field.metadata.get("unit"),
            range=_constraint_of(field).describe(),
            help=field.metadata.get("help", ""),
        )
        for field in dataclasses.fields(cls)
        if field.init
    ]


def from_mapping(cls: type[T], mapping: Mapping[str, Any], path: str = "") -> T:
    """Make a configuration dataclass from plain data, as it comes from YAML, a command line or keyword arguments.

    Types are converted only where nothing is lost: an int is taken for a float, an integral float (`3e5`) for an
    int, a list for a tuple, a string for an enum. A bool is no int, a string is no number.

    Args:
        cls: A dataclass; its annotations must be importable at run time.
        mapping: Values by field name; nested mappings for nested dataclasses.
        path: Where the mapping is in the user's configuration, such as `"algo"`; begins every message.

    Raises:
        ConfigError: for an unknown or missing setting, a wrong type or a value outside the range.

    Example:
        >>> @dataclass(frozen=True)
        ... class SGDConfig:
        ...     learning_rate: float = setting(3e-4, exclusive_minimum=0)
        >>> from_mapping(SGDConfig, {"learning_rate": "fast"}, path="algo")
        Traceback (most recent call last):
        rheos.errors.ConfigError: algo.learning_rate: got 'fast' (str), expected a number > 0
    """
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"{path or 'configuration'}: got {_describe_value(mapping)}, expected settings by name")
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    reject_unknown(mapping, fields, path)
    values = {}
    for name, field in fields.items():
        if name in mapping:
            values[name] = _convert(mapping[name], hints[name], _constraint_of(field), _join(path, name))
        elif _is_required(field):
            expected = _expected(hints[name], _constraint_of(field))
            raise ConfigError(f"{_join(path, name)}: is missing, expected {expected}")
    return cls(**values)


def to_mapping(instance: Any) -> dict[str, Any]:
    """Return the plain data that `from_mapping` makes the instance of again: dicts, lists and scalars only."""
    return {field.name: to_mapping_value(getattr(instance, field.name)) for field in dataclasses.fields(instance)}


def to_mapping_value(value: Any) -> Any:
    """Return one value as plain data; see `to_mapping`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_mapping(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_mapping_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_mapping_value(item) for item in value]
    return value


def reject_unknown(mapping: Mapping[str, Any], known: Collection[str], path: str) -> None:
    """Raise a `ConfigError` for the first key that is not known, with the nearest one that is."""
    for key in mapping:
        if key not in known:
            near = did_you_mean(str(key), known)
            if path and near:
                near = near.replace("'", f"'{path}.", 1)
            raise ConfigError(f"{_join(path, str(key))}: no such setting. {near}Settings: {', '.join(known)}.")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _constraint_of(field: dataclasses.Field[Any]) -> Constraint:
    constraint: Constraint = field.metadata.get("constraint", Constraint())
    return constraint


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default_of(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _convert(value: Any, hint: Any, constraint: Constraint, path: str) -> Any:
    """Return the value as the type asks, in range, or raise a ConfigError that gives the path."""
    members = [member for member in _members(hint) if member is not types.NoneType]
    if value is None:
        if types.NoneType in _members(hint) or Any in members:
            return None
    else:
        for member in members:
            converted = _convert_to(value, member, constraint, path)
            if converted is not _NOT_CONVERTIBLE and constraint.admits(converted):
                return converted
    raise ConfigError(f"{path}: got {_describe_value(value)}, expected {_expected(hint, constraint)}")


_NOT_CONVERTIBLE = object()


def _convert_to(value: Any, hint: Any, constraint: Constraint, path: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin is typing.Literal:
        return value if value in arguments else _NOT_CONVERTIBLE
    if origin in (tuple, list):
        return _convert_sequence(value, origin, arguments, constraint, path)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return _NOT_CONVERTIBLE
        item_hint = arguments[1] if arguments else Any
        return {str(key): _convert(item, item_hint, Constraint(), _join(path, str(key))) for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        if isinstance(hint, type) and isinstance(value, hint):
            value = to_mapping(value)
        return from_mapping(hint, value, path) if isinstance(value, Mapping) else _NOT_CONVERTIBLE  # type: ignore[arg-type]
    if isinstance(hint, type):
        return _convert_scalar(value, hint)
    return _NOT_CONVERTIBLE


def _convert_sequence(value: Any, origin: Any, arguments: tuple[Any, ...], constraint: Constraint, path: str) -> Any:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return _NOT_CONVERTIBLE
    if origin is list or arguments[-1:] == (Ellipsis,):
        hints = [arguments[0]] * len(value)
    elif len(arguments) == len(value):
        hints = list(arguments)
    else:
        return _NOT_CONVERTIBLE
    items = zip(value, hints, strict=True)
    return origin(_convert(item, hint, constraint, f"{path}[{i}]") for i, (item, hint) in enumerate(items))


def _convert_scalar(value: Any, hint: type) -> Any:
    if issubclass(hint, Enum):
        matches = [member for member in hint if value is member or value in (member.value, member.name)]
        return matches[0] if matches else _NOT_CONVERTIBLE
    if isinstance(value, bool) and hint is not bool:
        return _NOT_CONVERTIBLE
    if hint is float and isinstance(value, (int, float)):
        try:
            return float(value) if math.isfinite(value) else _NOT_CONVERTIBLE
        except OverflowError:  # an int that no float is near
            return _NOT_CONVERTIBLE
    if hint is int and isinstance(value, float):
        return int(value) if value.is_integer() else _NOT_CONVERTIBLE
    return value if isinstance(value, hint) else _NOT_CONVERTIBLE


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type alone."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


_WORDS: dict[Any, tuple[str, str]] = {
    bool: ("true or false", "true or false"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
    types.NoneType: ("null", "null"),
    Any: ("anything", "anything"),
}


def _expected(hint: Any, constraint: Constraint) -> str:
    """Return "a number > 0 or null"."""
    members = _members(hint)
    if constraint.choices is not None:
        words = [constraint.describe()]
    else:
        words = [_words(member)[0] for member in members if member is not types.NoneType]
        if constraint.describe():
            words[-1] += f" {constraint.describe()}"
    return " or ".join([*words, *(["null"] if types.NoneType in members else [])])


def _words(hint: Any) -> tuple[str, str]:
    """Return a type in words, singular and plural."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in _WORDS:
        return _WORDS[hint]
    if origin is typing.Literal:
        one_of = f"one of {', '.join(map(repr, arguments))}"
        return one_of, one_of
    if origin in (tuple, list):
        elements = {argument for argument in arguments if argument is not Ellipsis}
        many = _words(elements.pop())[1] if len(elements) == 1 else "values"
        count = "" if origin is list or arguments[-1:] == (Ellipsis,) else f"{len(arguments)} "
        return f"a list of {count}{many}", f"lists of {count}{many}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        one_of = f"one of {', '.join(repr(member.value) for member in hint)}"
        return one_of, one_of
    return "settings by name", "settings by name"


def _describe_type(hint: Any) -> str:
    """Return the type as one would write it: `tuple[int, ...]`, `float | None`."""
    if isinstance(hint, type) and not typing.get_args(hint):
        return "None" if hint is types.NoneType else hint.__name__
    return " | ".join(map(_describe_type, _members(hint))) if len(_members(hint)) > 1 else _short(str(hint))


def _short(text: str) -> str:
    return text.replace("typing.", "").replace("collections.abc.", "")


def _describe_value(value: Any) -> str:
    if value is None:
        return "null"
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write out an int of more than 4300 digits
        text = "a value too long to be shown"
    if len(text) > 80:
        text = f"{text[:60]}...{text[-10:]}"
    return f"{text} ({type(value).__name__})"
