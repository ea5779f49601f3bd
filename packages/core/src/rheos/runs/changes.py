"""Changes: which settings of a run may be others when it is resumed, and the difference where one may not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rheos.errors import ConfigError

__all__ = ["changed_settings", "learned_otherwise"]

_PARTS = ("stop", "checkpoint", "logger", "eval", "executor")
_FIXED = ("executor.workers",)
_KEYS = ("device", "trace")
_LEARNED_OTHERWISE = ("checkpoint.every_steps", "checkpoint.reset_environments")
"""Settings that may change although what is learned depends on them."""


def changed_settings(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run with those changed that may be.

    These are when it stops, what it saves, writes and evaluates, and where it runs: not what it learns and from what.
    A few of them have a part in what is learned from there all the same: `learned_otherwise` names them.

    Args:
        settings: of the run, as plain data.
        changes: of the same form, with what is to be another; what is the same may be there, too.

    Raises:
        ConfigError: with a line for each setting that may not be another.

    Example:
        >>> changed_settings({"seed": 0, "stop": {"env_steps": 100, "seconds": None}}, {"stop": {"env_steps": 200}})
        {'seed': 0, 'stop': {'env_steps': 200, 'seconds': None}}
        >>> changed_settings({"algo": {"name": "ppo", "learning_rate": 0.001}}, {"algo": {"learning_rate": 0.01}})
        Traceback (most recent call last):
        rheos.errors.ConfigError: algo.learning_rate: the run has 0.001, you gave 0.01
    """
    refused = [
        f"{path}: the run has {_shown(before)}, you gave {_shown(given)}"
        for path, before, given in _differences(settings, changes)
        if not _may_change(path)
    ]
    if refused:
        raise ConfigError("\n".join(refused))
    return _merged(settings, changes)


def learned_otherwise(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the changes after which a run learns otherwise than it would have: how often environments are reset.

    Another `stop.env_steps` is not among them, though schedules go towards it: whoever changes it knows.

    Args:
        before: the settings that the run had, as plain data.
        after: those with which it goes on.

    Example:
        >>> learned_otherwise({"checkpoint": {"every_steps": 500}}, {"checkpoint": {"every_steps": 1000}})
        ('checkpoint.every_steps=1000 (was 500)',)
    """
    changed = {path: (was, given) for path, was, given in _differences(before, after)}
    return tuple(
        f"{path}={_shown(changed[path][1])} (was {_shown(changed[path][0])})"
        for path in _LEARNED_OTHERWISE
        if path in changed
    )


class _NotThere:
    def __repr__(self) -> str:
        return "no such setting"


_NOT_THERE = _NotThere()


def _differences(
    settings: Mapping[str, Any], changes: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    for key, given in changes.items():
        here = f"{path}.{key}" if path else key
        before = settings.get(key, _NOT_THERE)
        if isinstance(given, Mapping) and isinstance(before, Mapping):
            yield from _differences(before, given, here)
        elif _plain(given) != _plain(before) or isinstance(given, bool) != isinstance(before, bool):
            yield here, before, given


def _may_change(path: str) -> bool:
    return path in _KEYS or (path.split(".")[0] in _PARTS and path not in _FIXED)


def _merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(settings)
    for key, given in changes.items():
        before = merged.get(key)
        both = isinstance(given, Mapping) and isinstance(before, Mapping)
        merged[key] = _merged(before, given) if both else given  # type: ignore[arg-type]
    return merged


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    return "null" if value is None else repr(value)
