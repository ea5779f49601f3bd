"""`rheos info`: what a name is, where it comes from, and its settings."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from rheos.configuration.settings import Setting, settings_of
from rheos.errors import UsageError, did_you_mean
from rheos.plugins import Kind, load_registry
from rheos.plugins.resolving import settings_class
from rheos.plugins.specs import AlgorithmSpec, BackendSpec, EnvironmentSpec, ExecutorSpec
from rheos_cli.groups import GROUPS, kind_of
from rheos_cli.installed import Choice, installed

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the name and the format."""
    parser.add_argument("name", help="of an algorithm, environment, backend, executor, logger or experiment")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print everything that has the name."""
    known = [choice for group in GROUPS for choice in installed(group)]
    found = [choice for choice in known if choice.name == arguments.name]
    if not found:
        raise _absence(arguments.name, known)
    if arguments.json:
        described = [_to_json(choice) for choice in found]
        print(json.dumps(described[0] if len(described) == 1 else described, indent=2))
    else:
        print("\n\n".join(_in_words(choice) for choice in found))
    return 0


def _absence(name: str, known: list[Choice]) -> UsageError:
    """Return the error of a name that nothing has; if some package would offer it, it says which."""
    registry = load_registry(warn=False)
    for kind in Kind:
        explained = registry.explained_absence(kind, name)
        if explained:
            return explained
    names = sorted({choice.name for choice in known})
    return UsageError(f"Nothing is called {name!r}. {did_you_mean(name, names)}Installed: {', '.join(names)}.")


def _settings(choice: Choice) -> list[Setting]:
    """Return the settings of what a plugin offers under the name; a file of settings, as of an experiment, has none."""
    registry = load_registry(warn=False)
    kind = kind_of(choice.group)
    specs = {spec.name: spec for spec in registry.specs(kind)} if kind else {}
    spec = specs.get(choice.name)
    if not isinstance(spec, AlgorithmSpec | BackendSpec | EnvironmentSpec | ExecutorSpec):
        return []
    return settings_of(settings_class(spec))


def _to_json(choice: Choice) -> dict[str, Any]:
    return {
        "group": choice.group,
        **choice.to_json(),
        "plugin": choice.origin.plugin,
        "settings": [asdict(setting) for setting in _settings(choice)],
    }


def _in_words(choice: Choice) -> str:
    lines = [
        f"{choice.name}: {choice.summary}",
        f"  choose    {choice.group}={choice.name}",
        f"  from      {choice.origin}",
    ]
    settings = [setting for setting in _settings(choice) if setting.name != "name"]
    if settings:
        lines += ["", "  settings", *_rows(choice.group, settings)]
    elif choice.file:
        text = choice.file.read_text(encoding="utf-8").splitlines()
        lines += ["", f"  {choice.file}", *(f"    {line}" for line in text if line and not line.startswith("#"))]
    return "\n".join(lines)


def _rows(group: str, settings: list[Setting]) -> list[str]:
    cells = [
        (
            f"{group}.{setting.name}",
            "(required)" if setting.required else _literal(setting.default),
            " ".join(filter(None, (setting.type, setting.range, f"[{setting.unit}]" if setting.unit else ""))),
            setting.help,
        )
        for setting in settings
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    return [
        "    " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in cells
    ]


def _literal(value: Any) -> str:
    """Return a default as one would type it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value)
