"""Overrides of commands that compose no configuration: `key=value` words as settings by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rheos.errors import UnknownName, UsageError, did_you_mean
from rheos_cli.groups import GROUPS
from rheos_cli.installed import choices

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

__all__ = ["settings_of"]


def settings_of(words: Sequence[str], command: str, example: str) -> dict[str, Any]:
    """Return the overrides of a command that composes no configuration, in Hydra's spelling, as settings by name.

    Args:
        words: `key=value` each; a choice such as `env=pendulum` becomes the settings that it stands for.
        command: whose they are, for the message.
        example: of such a word, for the message.

    Raises:
        UsageError: if a word is a flag, cannot be read, or is no one value for a setting.
        UnknownName: if a choice is not installed.
    """
    changes: dict[str, Any] = {}
    for word in words:
        override = _parsed(word, command, example)
        key, value = override.key_or_group, override.value()
        if key in GROUPS:
            _join(changes, {key: _chosen(key, word, value)})
        else:
            first, *others = key.split(".")
            _join(changes, {first: _nested(others, value)})
    return changes


def _nested(names: list[str], value: Any) -> Any:
    return {names[0]: _nested(names[1:], value)} if names else value


def _parsed(word: str, command: str, example: str) -> Override:
    if word.startswith("-"):
        raise UsageError(f"{word}: no such flag; `rheos {command} --help` shows them")
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise UsageError(f"{word}: cannot be read: expected key=value, such as {example}") from error
    if override.is_delete() or override.is_sweep_override() or override.is_hydra_override():
        raise UsageError(f"{word}: expected one value for a setting, such as {example}")
    return override


def _chosen(group: str, word: str, value: Any) -> Mapping[str, Any]:
    """Return the settings that a choice such as `env=pendulum` stands for, to be held against those of the run."""
    if group == "exp":
        raise UsageError(f"{word}: a preset is for a new run")
    if group not in ("env", "logger"):
        return {"name": value}
    from rheos_cli.composition import compose

    known = choices(group)
    if value not in known:
        raise UnknownName(f"{word}: {did_you_mean(str(value), known)}Installed: {', '.join(known)}.")
    settings: Mapping[str, Any] = compose([], f"{group}/{value}")[group]
    return settings


def _join(changes: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(changes.get(key), dict):
            _join(changes[key], value)
        else:
            changes[key] = dict(value) if isinstance(value, Mapping) else value
