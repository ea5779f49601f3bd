"""Plugins: what is installed, by kind and name, found through the entry-point group `rheos`."""

from __future__ import annotations

from rheos.plugins.hooks import hookimpl
from rheos.plugins.loading import load_registry
from rheos.plugins.registry import Kind, Registry
from rheos.plugins.resolving import make_backend, make_environment, make_executor, resolve

__all__ = [
    "Kind",
    "Registry",
    "hookimpl",
    "load_registry",
    "make_backend",
    "make_environment",
    "make_executor",
    "resolve",
]
