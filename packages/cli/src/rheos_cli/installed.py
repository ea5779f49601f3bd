"""What is installed, as users choose it: configuration files and the offers of plugins, joined by group and name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rheos.plugins import load_registry
from rheos.plugins.sources import ConfigPackage, Origin, config_files, config_packages
from rheos_cli.groups import GROUPS, kind_of

__all__ = ["Choice", "choices", "installed", "loaded_config_packages"]


@dataclass(frozen=True)
class Choice:
    """What a user can choose by `<group>=<name>`."""

    group: str
    name: str
    summary: str
    origin: Origin
    file: Path | None

    def to_json(self) -> dict[str, str]:
        """Return what `rheos list --json` shows."""
        return {
            "name": self.name,
            "summary": self.summary,
            "package": self.origin.package,
            "version": self.origin.version,
        }


def installed(group: str) -> list[Choice]:
    """Return what a group offers, by name; what its plugin says comes before what its file says."""
    found = {
        file.name: Choice(group, file.name, file.summary(), file.origin, file.path)
        for file in reversed(list(config_files([group], loaded_config_packages())))
    }
    kind = kind_of(group)
    for offer in load_registry(warn=False).offers(kind) if kind else ():
        name = offer.spec.name
        file = found[name].file if name in found else None
        found[name] = Choice(group, name, offer.spec.summary, offer.origin, file)
    return [found[name] for name in sorted(found)]


def loaded_config_packages() -> list[ConfigPackage]:
    """Return the packages of configuration files, without those of a package whose plugin failed or is disabled."""
    unusable = {failure.origin.package for failure in load_registry(warn=False).failures}
    return [package for package in config_packages() if package.origin.package not in unusable]


def choices(group: str) -> list[str]:
    """Return the names that can be chosen in a group of configuration files; none for another group."""
    return [choice.name for choice in installed(group) if choice.file] if group in GROUPS else []
