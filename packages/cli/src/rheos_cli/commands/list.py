"""`rheos list`: what is installed, by group."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from rheos.errors import UsageError, did_you_mean
from rheos.plugins import Kind, load_registry
from rheos.plugins.first_party import PROVIDERS
from rheos_cli.groups import GROUPS, kind_of
from rheos_cli.installed import Choice, installed

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the group and the format."""
    parser.add_argument("group", nargs="?", help=f"only this group: {', '.join(GROUPS)}; all by default")
    parser.add_argument("--json", action="store_true", help="print JSON: group -> [{name, summary, package, version}]")


def run(arguments: argparse.Namespace) -> int:
    """Print what can be chosen, and warn of what cannot."""
    groups = (_group(arguments.group),) if arguments.group else GROUPS
    found = {group: installed(group) for group in groups}
    warnings = load_registry(warn=False).warnings
    if arguments.json:
        data: dict[str, object] = {group: [choice.to_json() for choice in found[group]] for group in groups}
        print(json.dumps({**data, "warnings": list(warnings)}, indent=2))
        return 0
    print("\n\n".join(_table(group, found[group]) for group in groups))
    for text in warnings:
        print(f"rheos: warning: {text}", file=sys.stderr)
    return 0


def _group(word: str) -> str:
    """Return the group that a word means: `algo`, `algos`, `algorithm` and `algorithms` are the same."""
    meant = {group: group for group in GROUPS}
    for group in GROUPS:
        kind = kind_of(group)
        meant |= {f"{group}s": group} | ({kind.value: group, f"{kind.value}s": group} if kind else {})
    if word not in meant:
        raise UsageError(f"No group {word!r}. {did_you_mean(word, meant)}Groups: {', '.join(GROUPS)}.")
    return meant[word]


def _table(group: str, choices: Sequence[Choice]) -> str:
    if not choices:
        return f"{group}: none installed"
    name_width = max(len(choice.name) for choice in choices)
    packages = [f"{choice.origin.package} {choice.origin.version}" for choice in choices]
    package_width = max(map(len, packages))
    rows = [
        f"  {choice.name:<{name_width}}  {package:<{package_width}}  {choice.summary}"
        for choice, package in zip(choices, packages, strict=True)
    ]
    absent = [f"  not installed: {name} (pip install {package})" for name, package in _not_installed(group, choices)]
    return "\n".join([f"{group}:", *rows, *absent])


def _not_installed(group: str, choices: Sequence[Choice]) -> list[tuple[str, str]]:
    """Return the backends and executors of ours that are not here, with the packages that bring them."""
    kind = kind_of(group)
    known = PROVIDERS[kind.value] if kind is Kind.BACKEND or kind is Kind.EXECUTOR else {}
    here = {choice.name for choice in choices}
    return [(name, package) for name, package in known.items() if name not in here]
