"""Where plugins and their configuration files are: entry points of installed packages, found without importing them."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rheos.plugins.entry_points import entry_points
from rheos.plugins.hooks import PROJECT

__all__ = [
    "ConfigFile",
    "ConfigPackage",
    "Origin",
    "PluginSource",
    "config_files",
    "config_packages",
    "forget_entry_points",
    "plugin_sources",
]

_CONFIG_GROUP = f"{PROJECT}.configs"


@dataclass(frozen=True)
class Origin:
    """Where an offer comes from."""

    plugin: str
    """The name of the entry point."""
    package: str
    """The name of the distribution, as pip knows it."""
    version: str

    def __str__(self) -> str:
        """Return "the plugin 'ppo' of package rheos-algos-ppo 0.1.0"."""
        return f"the plugin {self.plugin!r} of package {self.package} {self.version}"


@dataclass(frozen=True)
class PluginSource:
    """A plugin that is installed, and not imported yet."""

    origin: Origin
    reference: str
    """`module`, or `module:object`."""

    def load(self) -> object:
        """Import the plugin; whatever its import raises is passed on."""
        module_name, _, name = self.reference.partition(":")
        module = importlib.import_module(module_name)
        return getattr(module, name) if name else module


@dataclass(frozen=True)
class ConfigPackage:
    """A package of YAML files, named in the entry-point group `rheos.configs`; it need not be importable."""

    origin: Origin
    package: str

    def directories(self) -> list[Path]:
        """Return the package's directories; found by name, so that nothing of it is imported."""
        top, *below = self.package.split(".")
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return []
        places = (spec.submodule_search_locations or []) if spec else []
        return [path for place in places if (path := Path(place, *below)).is_dir()]


@dataclass(frozen=True)
class ConfigFile:
    """A YAML file that users can choose: `<group>=<name>`."""

    origin: Origin
    group: str
    name: str
    path: Path

    def summary(self) -> str:
        """Return the comment in the first line that is one, other than Hydra's `# @package`."""
        with self.path.open(encoding="utf-8") as lines:
            comments = (line[1:].strip() for line in lines if line.startswith("#"))
            return next((text for text in comments if not text.startswith("@package")), "")


def plugin_sources() -> tuple[PluginSource, ...]:
    """Return every installed plugin, in the order of packages and names."""
    return tuple(PluginSource(origin, reference) for origin, reference in _entries()[PROJECT])


def config_packages() -> tuple[ConfigPackage, ...]:
    """Return every installed package of configuration files, in the order of packages and names."""
    return tuple(ConfigPackage(origin, package) for origin, package in _entries()[_CONFIG_GROUP])


def config_files(groups: Iterable[str], packages: Iterable[ConfigPackage] | None = None) -> Iterator[ConfigFile]:
    """Yield the files of some groups, by group and name."""
    places = [
        (package.origin, directory)
        for package in (config_packages() if packages is None else packages)
        for directory in package.directories()
    ]
    for group in groups:
        found = ((path.stem, origin, path) for origin, place in places for path in place.glob(f"{group}/*.yaml"))
        for name, origin, path in sorted(found, key=lambda item: item[0]):
            yield ConfigFile(origin, group, name, path)


def forget_entry_points() -> None:
    """Forget what was read, so that the next question looks again."""
    _entries.cache_clear()


@functools.cache
def _entries() -> Mapping[str, Sequence[tuple[Origin, str]]]:
    """Read our entry points, once a process: it takes a look into every installed package."""
    found: dict[str, list[tuple[Origin, str]]] = {PROJECT: [], _CONFIG_GROUP: []}
    for entry in entry_points(found):
        found[entry.group].append((Origin(entry.name, entry.package, entry.version), entry.value))
    for entries in found.values():
        entries.sort(key=lambda item: (item[0].package, item[0].plugin))
    return found
