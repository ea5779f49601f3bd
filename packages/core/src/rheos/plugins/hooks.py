"""The hooks that a plugin may implement: what it offers, and what it wants to hear of a run.

A plugin is a module that a package names in the entry-point group `rheos`:

    from rheos import hookimpl
    from rheos.plugins.specs import AlgorithmSpec

    @hookimpl
    def rheos_algorithms():
        return [AlgorithmSpec(name="mine", summary="...", config="mine.config:MyConfig", ...)]

It is imported whenever Rheos starts, so it imports nothing heavy: its specs name objects as strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from rheos.plugins.specs import AlgorithmSpec, BackendSpec, EnvironmentSpec, ExecutorSpec, LoggerSpec

__all__ = ["PROJECT", "hookimpl"]

PROJECT = "rheos"
"""The entry-point group of plugins, and the name that pluggy marks their hooks with."""

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin as the implementation of the hook of its name."""

_hookspec = pluggy.HookspecMarker(PROJECT)


@_hookspec
def rheos_algorithms() -> Sequence[AlgorithmSpec]:  # type: ignore[empty-body]
    """Return the algorithms that the plugin offers."""


@_hookspec
def rheos_backends() -> Sequence[BackendSpec]:  # type: ignore[empty-body]
    """Return the backends that the plugin offers."""


@_hookspec
def rheos_executors() -> Sequence[ExecutorSpec]:  # type: ignore[empty-body]
    """Return the executors that the plugin offers."""


@_hookspec
def rheos_environments() -> Sequence[EnvironmentSpec]:  # type: ignore[empty-body]
    """Return the sources of environments that the plugin offers."""


@_hookspec
def rheos_loggers() -> Sequence[LoggerSpec]:  # type: ignore[empty-body]
    """Return the loggers that the plugin offers."""


@_hookspec
def rheos_run_started(run: Any) -> None:
    """Hear that a run has its folder and its flow, and is about to start."""


@_hookspec
def rheos_report(run: Any, row: Mapping[str, Any]) -> None:
    """Hear of a row of the run's metrics, as it is written to metrics.csv."""


@_hookspec
def rheos_checkpoint_saved(run: Any, path: Path) -> None:
    """Hear that a checkpoint is complete on disk."""


@_hookspec
def rheos_run_ended(run: Any) -> None:
    """Hear that a run ended, for whatever reason."""
