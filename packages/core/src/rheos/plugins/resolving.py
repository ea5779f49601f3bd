"""Resolving: from the strings in a spec to objects, and from a configuration to the thing that it names."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from rheos.errors import PluginError

if TYPE_CHECKING:
    from rheos.backend import Backend
    from rheos.configuration.run_config import BackendConfig, EnvironmentConfig, ExecutorConfig
    from rheos.environments.environment import Environment
    from rheos.executors.protocol import Executor

__all__ = ["make_backend", "make_environment", "make_executor", "resolve"]


def resolve(reference: str, what: str = "") -> Any:
    """Import the object that a spec names.

    Args:
        reference: `"module:object"`, from a spec of a plugin; never from a file.
        what: What it is, for the message: `"the backend 'torch'"`.

    Raises:
        PluginError: if the module cannot be imported or lacks the object; the cause is chained.

    Example:
        >>> resolve("rheos.batches:Batch").__name__
        'Batch'
    """
    subject = f"{what} ({reference})" if what else repr(reference)
    module_name, _, name = reference.partition(":")
    if not module_name or not name:
        raise PluginError(f"{subject} cannot be loaded: expected 'module:object'.")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        cause = " ".join(str(error).split())
        raise PluginError(f"{subject} cannot be loaded: {type(error).__name__}: {cause}") from error
    try:
        return getattr(module, name)
    except AttributeError as error:
        raise PluginError(f"{subject} cannot be loaded: {module.__file__} has no {name!r}.") from error


def make_backend(config: BackendConfig, device: str = "cpu") -> Backend:
    """Make the backend that a configuration names."""
    spec = _registry().backend(config.name)
    return cast("Backend", resolve(spec.factory, f"the backend {spec.name!r}")(device=device, mode=config.mode))


def make_executor(config: ExecutorConfig) -> Executor:
    """Make the executor that a configuration names."""
    spec = _registry().executor(config.name)
    return cast("Executor", resolve(spec.factory, f"the executor {spec.name!r}")(config))


def make_environment(config: EnvironmentConfig) -> Environment:
    """Make the source of environments that a configuration names."""
    spec = _registry().environment(config.name)
    return cast("Environment", resolve(spec.factory, f"the environment {spec.name!r}")(config))


def _registry() -> Any:
    from rheos.plugins.loading import load_registry

    return load_registry(warn=False)
