"""Resolving: from the strings in a spec to objects, and from a configuration to the thing that it names."""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any, cast

from rheos.errors import PluginError

if TYPE_CHECKING:
    from rheos.backend import Backend
    from rheos.configuration.run_config import BackendConfig, EnvironmentConfig, ExecutorConfig
    from rheos.environments.environment import Environment
    from rheos.executors.protocol import Executor
    from rheos.plugins.registry import Registry
    from rheos.plugins.specs import AlgorithmSpec, BackendSpec, EnvironmentSpec, ExecutorSpec

__all__ = ["make_backend", "make_environment", "make_executor", "resolve", "settings_class"]


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


def settings_class(spec: AlgorithmSpec | BackendSpec | EnvironmentSpec | ExecutorSpec) -> type[Any]:
    """Import the dataclass of settings that a spec names.

    Raises:
        PluginError: if it cannot be imported, is no dataclass, or does not derive from the one that the specs of its
            kind name by default: Rheos itself reads the settings that are there, such as `env.num_envs`.
    """
    what = f"the settings of {spec.name!r}"
    found = resolve(spec.config, what)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise PluginError(f"{what} ({spec.config}) cannot be used: expected a dataclass.")
    default: str | None = getattr(type(spec), "config", None)  # algorithms have none
    if default is not None and not issubclass(found, resolve(default)):
        raise PluginError(f"{what} ({spec.config}) cannot be used: expected a subclass of {default}.")
    return found


def make_backend(config: BackendConfig, device: str = "cpu", registry: Registry | None = None) -> Backend:
    """Make the backend that a configuration names.

    Args:
        config: its name and settings.
        device: where it computes.
        registry: where the name is looked up. By default in what is installed, which is what an actor sees, wherever
            it runs.
    """
    spec = _or_installed(registry).backend(config.name)
    factory = resolve(spec.factory, f"the backend {spec.name!r}")
    return cast("Backend", factory(device=device, mode=config.mode, threads=config.threads))


def make_executor(config: ExecutorConfig, registry: Registry | None = None) -> Executor:
    """Make the executor that a configuration names, looked up in a registry, by default in what is installed."""
    spec = _or_installed(registry).executor(config.name)
    return cast("Executor", resolve(spec.factory, f"the executor {spec.name!r}")(config))


def make_environment(config: EnvironmentConfig, registry: Registry | None = None) -> Environment:
    """Make the source of environments that a configuration names; looked up as by `make_executor`."""
    spec = _or_installed(registry).environment(config.name)
    return cast("Environment", resolve(spec.factory, f"the environment {spec.name!r}")(config))


def _or_installed(registry: Registry | None) -> Registry:
    from rheos.plugins.loading import load_registry

    return load_registry(warn=False) if registry is None else registry
