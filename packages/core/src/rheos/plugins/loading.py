"""Loading: imports every installed plugin, each in isolation, and gathers what they offer in a registry."""

from __future__ import annotations

import functools
import importlib
import os
import re
import warnings
from collections.abc import Iterable
from typing import Protocol

import pluggy

from rheos.errors import did_you_mean
from rheos.plugins import hooks, sources
from rheos.plugins.registry import Failure, Kind, Offer, PluginWarning, Registry
from rheos.plugins.sources import Origin

__all__ = ["DISABLED", "Source", "forget_installed", "load_plugins", "load_registry", "new_manager"]

DISABLED = "RHEOS_DISABLED_PLUGINS"
"""The environment variable that names plugins, or packages, to be left out, separated by commas."""


class Source(Protocol):
    """A plugin that can be loaded, and where it comes from."""

    @property
    def origin(self) -> Origin:
        """Where the plugin comes from."""
        ...

    def load(self) -> object:
        """Import the plugin."""
        ...


def load_registry(*, warn: bool = True) -> Registry:
    """Return what the installed plugins offer; they are loaded once a process.

    Args:
        warn: Whether a plugin that cannot be used is a `PluginWarning`; else it is only in `registry.warnings`.
    """
    registry = _installed()
    if warn:
        for text in registry.warnings:
            warnings.warn(text, PluginWarning, stacklevel=2)
    return registry


def load_plugins(found: Iterable[Source], *, disabled: Iterable[str] = ()) -> Registry:
    """Load plugins, each in isolation: one that fails is left out, and the registry says why.

    Args:
        found: The plugins.
        disabled: Names of plugins or packages that are not loaded.
    """
    left_out = {_normal(name) for name in disabled}
    manager = new_manager()
    offers: list[Offer] = []
    failures: list[Failure] = []
    for source in found:
        origin = source.origin
        if left_out & {_normal(origin.plugin), _normal(origin.package)}:
            failures.append(Failure(origin, f"is disabled by {DISABLED}", _names_of(origin), is_wanted=True))
            continue
        name = f"{origin.package}:{origin.plugin}"
        try:
            manager.register(source.load(), name)
            _reject_mistyped_hooks(manager, name)
            offers += _offers_of(manager, name, origin)
        except (Exception, SystemExit) as error:  # whatever a stranger's module raises
            if manager.has_plugin(name):
                manager.unregister(name=name)
            failures.append(Failure(origin, f"could not be loaded: {_one_line(error)}", _names_of(origin)))
    return Registry(offers, failures, manager)


def new_manager() -> pluggy.PluginManager:
    """Return a manager that knows the hooks of Rheos and has no plugin."""
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    return manager


def forget_installed() -> None:
    """Forget what is installed, so that the next `load_registry` looks again: after `pip install` in a notebook."""
    _installed.cache_clear()
    sources.forget_entry_points()
    importlib.invalidate_caches()


@functools.cache
def _installed() -> Registry:
    return load_plugins(sources.plugin_sources(), disabled=_words(os.environ.get(DISABLED, "")))


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[,\s]+", text) if word]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _names_of(origin: Origin) -> frozenset[tuple[str, str]]:
    packages = [package for package in sources.config_packages() if package.origin.package == origin.package]
    return frozenset((file.group, file.name) for file in sources.config_files([kind.group for kind in Kind], packages))


def _reject_mistyped_hooks(manager: pluggy.PluginManager, name: str) -> None:
    """Raise TypeError for an implementation of no hook, a wrapper of one, and a function that lacks its mark."""
    plugin = manager.get_plugin(name)
    known = [hook for hook in vars(hooks) if hook.startswith("rheos_")]
    callers = manager.get_hookcallers(plugin) or []
    marked = {caller.name for caller in callers}
    for hook in sorted(marked.difference(known)):
        raise TypeError(f"{hook!r} is no hook. {did_you_mean(hook, known)}Hooks: {', '.join(known)}")
    for caller in callers:
        if any(found.plugin_name == name and (found.wrapper or found.hookwrapper) for found in caller.get_hookimpls()):
            raise TypeError(f"{caller.name!r} is marked as a wrapper, but each plugin is called alone; write @hookimpl")
    for hook in known:
        if hook not in marked and callable(getattr(plugin, hook, None)):
            raise TypeError(f"{hook!r} is not marked as a hook; write @rheos.hookimpl above it")


def _offers_of(manager: pluggy.PluginManager, name: str, origin: Origin) -> list[Offer]:
    """Call the offering hooks of one plugin."""
    offers = []
    for kind in Kind:
        hook: pluggy.HookCaller = getattr(manager.hook, kind.hook)
        for implementation in hook.get_hookimpls():
            if implementation.plugin_name != name:
                continue
            answer: object = implementation.function()
            if not isinstance(answer, (list, tuple)):
                raise TypeError(f"{kind.hook} returned {answer!r}, expected a list of {kind.spec_class.__name__}")
            for spec in answer:
                if not isinstance(spec, kind.spec_class):
                    raise TypeError(f"{kind.hook} returned {spec!r}, expected {kind.spec_class.__name__}")
                offers.append(Offer(kind, spec, origin))
    return offers


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
