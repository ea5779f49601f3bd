"""What Hydra's errors mean to a user, in one line: what was asked for, what there is, what to type instead."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf.errors import MissingMandatoryValue

from rheos.errors import did_you_mean
from rheos.plugins import load_registry
from rheos_cli.groups import GROUPS, kind_of
from rheos_cli.installed import choices

__all__ = ["cannot_be_read", "in_one_line"]


def cannot_be_read(word: str) -> str:
    """Return what is wrong with a word that is no override."""
    group = next((group for group in GROUPS if word in choices(group)), None)
    hint = f"Did you mean {group}={word}?" if group else "A value with special characters needs quotes."
    return f"{word}: cannot be read, expected key=value. {hint}"


def in_one_line(error: Exception, words: Sequence[str]) -> str:
    """Return what is wrong, as one line.

    Args:
        error: What Hydra, OmegaConf, the YAML reader or the file system raised.
        words: The overrides as they were typed.
    """
    if isinstance(error, OverrideParseException):
        return cannot_be_read(_typed(error.override, words))
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _missing_choice(error.missing_cfg_file)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: cannot be made or read ({error.strerror}): choose another folder."
    text = _with_cause(error)
    if match := re.match(r"You must specify '([^']+)'", text):
        return _not_chosen(match[1])
    if match := re.match(r"Ambiguous value for argument '([^']+)'", text):
        word = _typed(match[1], words)
        key, _, values = word.partition("=")
        return f"{word}: several values. Add -m for one job each, or write {key}=[{values}] for a list."
    if match := re.match(r"Could not override '([^']+)'", text):
        if match[1] in GROUPS:
            return next(filter(None, map(_no_choice, words)), f"No {match[1]} is installed.")
        return f"{match[1]}: no such setting or group. {did_you_mean(match[1], GROUPS)}Groups: {', '.join(GROUPS)}."
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key}: not given. Write {error.full_key}=<value>; `rheos info` says what it is."
    if text.startswith("Exceeds the limit"):
        return f"{max(words, key=len)[:60]}...: more digits than a number can have."
    if text.startswith("Config group override must be"):
        return next(filter(None, map(_no_choice, words)), text)
    for word in words:
        text = text.replace(f"++{word}", word)
    return text


def _not_chosen(group: str) -> str:
    return f"{group}: not chosen. Write {group}=<name>. Installed: {_joined(choices(group))}."


def _no_choice(word: str) -> str | None:
    """Return what is wrong with a choice that is no name, such as `algo=5`, or None for another word."""
    group, _, value = word.partition("=")
    if group not in GROUPS or value in choices(group):
        return None
    return _not_chosen(group) if value == "null" else _missing_choice(f"{group}/{value}")


def _missing_choice(file: str) -> str:
    group, _, name = file.rpartition("/")
    if group not in GROUPS:
        return f"{file}: there is no such configuration file."
    there = choices(group)
    kind = kind_of(group)
    if kind is None:
        return f"No {group} {name!r}. {did_you_mean(name, there)}Installed: {_joined(there)}."
    registry = load_registry(warn=False)
    if name in registry.names(kind):
        offer = next(offer for offer in registry.offers(kind) if offer.spec.name == name)
        return (
            f"The {kind} {name!r} of package {offer.origin.package} {offer.origin.version} comes without a file "
            f"{group}/{name}.yaml in a package that its entry-point group rheos.configs names."
        )
    text = str(registry.absence(kind, name, there))
    return f"{text} Any other of Gymnasium: env=gym env.id=<id>." if group == "env" else text


def _typed(word: str, words: Sequence[str]) -> str:
    """Return an override as the user typed it."""
    plain = word.removeprefix("++")
    return plain if plain in words else word


def _with_cause(error: BaseException) -> str:
    """Return the messages of an error and of what caused it, without OmegaConf's details, as one line."""
    parts = [str(error)]
    cause = error.__cause__
    if cause is not None and str(cause) not in parts[0]:
        parts.append(str(cause))
    text = " ".join(" ".join(parts).split())
    message, _, details = text.partition(" full_key: ")
    key = details.partition(" ")[0]
    return (f"{key}: {message}" if key and not message.startswith("Could not override") else message) or repr(error)


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
