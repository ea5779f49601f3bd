"""Entry points of installed packages, read from their metadata.

`importlib.metadata` can do this, too, but it imports an email parser and an archive reader: a third of the time in
which `rheos list` is to answer. So the few lines that are needed are read here; packages in zip files are not seen.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass

__all__ = ["EntryPoint", "entry_points"]

_METADATA = re.compile(r"(?P<name>.+?)(-.*)?\.(dist|egg)-info", re.IGNORECASE)


@dataclass(frozen=True)
class EntryPoint:
    """A line of a package's `entry_points.txt`, and the package."""

    group: str
    name: str
    value: str
    """`module` or `module:object`."""
    package: str
    version: str


def entry_points(groups: Collection[str]) -> Iterator[EntryPoint]:
    """Yield the entry points of some groups; of two packages with one name, the first on `sys.path` counts."""
    seen: set[str] = set()
    for folder in sys.path:
        for name, metadata in _packages(folder or os.curdir):
            if name not in seen:
                seen.add(name)
                yield from _entry_points(metadata, groups)


def _packages(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the normal form of each package's name, and the folder of its metadata."""
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return
    for entry in entries:
        match = _METADATA.fullmatch(entry)
        if match:
            yield re.sub(r"[-_.]+", "-", match["name"]).lower(), os.path.join(folder, entry)


def _entry_points(metadata: str, groups: Collection[str]) -> Iterator[EntryPoint]:
    text = _read(metadata, "entry_points.txt")
    if not any(f"[{group}]" in text for group in groups):
        return
    header = _read(metadata, "METADATA") or _read(metadata, "PKG-INFO")
    package, version = _field(header, "Name"), _field(header, "Version")
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif group in groups and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            value = value.partition("[")[0].strip()  # without extras
            yield EntryPoint(group, name.strip(), value, package, version)


def _read(metadata: str, name: str) -> str:
    try:
        with open(os.path.join(metadata, name), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _field(header: str, name: str) -> str:
    match = re.search(rf"^{name}:\s*(.+)$", header, re.MULTILINE)
    return match[1].strip() if match else "(unknown)"
