"""The groups of configuration files: what users choose by `<group>=<name>`."""

from __future__ import annotations

from rheos.plugins.registry import Kind

__all__ = ["GROUPS", "kind_of"]

GROUPS = (*(kind.group for kind in Kind), "exp")
"""algo, env, backend, executor, logger, and exp, which holds whole experiments."""


def kind_of(group: str) -> Kind | None:
    """Return what the files of a group configure, or None for `exp`."""
    return next((kind for kind in Kind if kind.group == group), None)
