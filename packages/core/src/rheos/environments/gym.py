"""GymEnvironment: anything that is registered with Gymnasium."""

from __future__ import annotations

import difflib
import importlib
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rheos.environments.environment import Environment, VectorEnvironment
from rheos.environments.failures import cause_of
from rheos.environments.masks import ActionMasks
from rheos.environments.native import NativeEnvironments
from rheos.environments.processes import ProcessEnvironments
from rheos.environments.quiet import make_quietly
from rheos.environments.serial import SerialEnvironments
from rheos.errors import (
    ConfigError,
    EnvironmentFailed,
    PluginError,
    RheosWarning,
    UnknownName,
    UsageError,
    did_you_mean,
)
from rheos.spaces import Spaces

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from rheos.configuration.run_config import EnvironmentConfig

__all__ = ["GymEnvironment", "find_spec", "make_environment"]

_making = threading.RLock()
"""Held while environments are made: two threads that silence warnings at once would leave them silent."""
_EXTRAS = {"ale_py": "atari"}
"""Modules that register environments, and the extra of this package that brings them."""


def make_environment(config: EnvironmentConfig) -> Environment:
    """Describe environments that are registered with Gymnasium; makes none yet.

    Raises:
        UnknownName: if nothing is registered as `config.id`.
        ConfigError: if `config.vectorization` does not fit to it.
    """
    environment = GymEnvironment(config)
    environment.check()
    return environment


class GymEnvironment:
    """Environments that are registered with Gymnasium, described by their id.

    `config.vectorization` is how the environments of a worker are stepped: `vector_entry_point` all at once, where
    the environment brings that; `sync` one after the other; `async` each in a process of its own, which pays when
    a step takes longer than about a millisecond; `auto` all at once where possible, else one after the other.
    """

    def __init__(self, config: EnvironmentConfig) -> None:
        self.config = config
        self._spaces: Spaces | None = None

    def check(self) -> None:
        """Find mistakes in the settings, without making an environment."""
        self._vectorization(find_spec(self.config.id))

    def spaces(self) -> Spaces:
        """Return the spaces of a single environment; the first call makes one, later ones remember."""
        if self._spaces is None:
            environments = self._make(0, "spaces", num_envs=1, may_fork=False)
            self._spaces = environments.spaces
            environments.close()
        return self._spaces

    def make(self, seed: int, worker: str) -> VectorEnvironment:
        """Make the environments of a worker."""
        return self._make(seed, worker, num_envs=self.config.num_envs, may_fork=True)

    def _make(self, seed: int, worker: str, *, num_envs: int, may_fork: bool) -> VectorEnvironment:
        spec = find_spec(self.config.id)
        vectorization = self._vectorization(spec)
        kwargs = dict(self.config.kwargs)
        make_one: Callable[[], gym.Env[Any, Any]] = partial(make_quietly, spec, **kwargs)
        if self.config.action_masks != "none":
            make_one = partial(_make_masked, make_one, self.config.action_masks)
        with _telling_failures(self.config, worker):
            if vectorization == "vector_entry_point":
                native = gym.make_vec(spec, num_envs, vectorization_mode="vector_entry_point", **kwargs)
                return NativeEnvironments(native, seed=seed, worker=worker)
            if vectorization == "async" and may_fork:
                processes = ProcessEnvironments([make_one] * num_envs)
                return NativeEnvironments(processes, seed=seed, worker=worker, one_seed_each=True)
            return SerialEnvironments([make_one] * num_envs, seed=seed, worker=worker)

    def _vectorization(self, spec: EnvSpec) -> str:
        """Choose, or refuse what the environment does not have."""
        asked = self.config.vectorization
        has_masks = self.config.action_masks != "none"
        if has_masks and asked == "vector_entry_point":
            raise ConfigError(
                f"env.action_masks: got {self.config.action_masks!r}, which is read of single environments only. "
                "Choose env.vectorization=auto, sync or async."
            )
        if has_masks and spec.entry_point is None:
            raise ConfigError(
                f"env.action_masks: got {self.config.action_masks!r}, which is read of single environments only, but "
                f"{self.config.id!r} has a vector entry point only."
            )
        has_vector = spec.vector_entry_point is not None and not spec.additional_wrappers and not has_masks
        if asked == "auto":
            return "vector_entry_point" if has_vector else "sync"
        if asked == "vector_entry_point" and not has_vector:
            raise ConfigError(
                f"env.vectorization: got 'vector_entry_point', which {self.config.id!r} does not have. "
                "Choose auto, sync or async."
            )
        if asked != "vector_entry_point" and spec.entry_point is None:
            raise ConfigError(
                f"env.vectorization: got {asked!r}, but {self.config.id!r} has a vector entry point only. "
                "Choose auto or vector_entry_point."
            )
        return asked


def find_spec(env_id: str) -> EnvSpec:
    """Find what is registered as an id, `name-v0`, `namespace/name-v0` or `module:name-v0`.

    Raises:
        UnknownName: if nothing is; the message names what is near.
        PluginError: if the module that should register it cannot be imported.
    """
    module, _, name = env_id.rpartition(":")
    if module:
        _import(module, env_id)
    spec = gym.registry.get(name)
    if spec is None:
        hint = _versions_of(name) or did_you_mean(name, gym.registry) or _nearest(name)
        raise UnknownName(
            f"No environment {name!r} is registered with Gymnasium. {hint}"
            "If a package of yours registers it, name the module, too: env.id=module:name-v0."
        )
    return spec


def _nearest(name: str) -> str:
    """Return the registered ids that are least unlike a name, for when none is near."""
    ids = difflib.get_close_matches(name, list(gym.registry), n=3, cutoff=0.0)
    return f"The nearest are {', '.join(ids)}. " if ids else ""


def _import(module: str, env_id: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            extra = _EXTRAS.get(error.name)
            remedy = "Install its package, or mend the name."
            if extra is not None:
                remedy = f'It comes with: pip install "rheos-core[{extra}]"'
            raise UnknownName(f"env.id: no module {error.name!r} to import for {env_id!r}. {remedy}") from error
        raise PluginError(f"env.id: importing {module!r} for {env_id!r} failed: {error}.") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too
        raise PluginError(f"env.id: importing {module!r} for {env_id!r} failed: {cause_of(error)}.") from error


def _versions_of(name: str) -> str:
    """Return a hint when only the version is wrong or missing."""
    base = name.rpartition("-v")[0] if name.rpartition("-v")[2].isdigit() else name
    versions = [spec for spec in gym.registry.values() if base in (spec.id, spec.id.rpartition("-v")[0])]
    newest = max(versions, key=lambda spec: spec.version or 0, default=None)
    return f"Did you mean {newest.id!r}? " if newest is not None else ""


def _make_masked(make: Callable[[], gym.Env[Any, Any]], source: str) -> gym.Env[Any, Any]:
    env = make()
    try:
        return ActionMasks(env, source)
    except ConfigError:
        env.close()
        raise


@contextmanager
def _telling_failures(config: EnvironmentConfig, worker: str) -> Iterator[None]:
    """Silence the warnings of making environments, and tell in one line why one cannot be made."""
    with _making, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RheosWarning)  # the driver may have something to say of another worker
        try:
            yield
        except UsageError:
            raise
        except gym.error.DependencyNotInstalled as error:
            raise UsageError(f"env.id: {config.id!r} cannot be made: {error}") from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, too
            if isinstance(error, TypeError) and config.kwargs:
                raise ConfigError(f"env.kwargs: {dict(config.kwargs)} do not fit {config.id!r}: {error}") from error
            raise EnvironmentFailed(f"{worker}: {config.id!r} cannot be made: {cause_of(error)}") from error
