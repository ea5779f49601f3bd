"""Program: an algorithm joined with an environment and settings, described and checked, and nothing started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rheos.configuration.settings import to_mapping
from rheos.errors import FlowMistake
from rheos.plugins import make_backend, resolve

if TYPE_CHECKING:
    from rheos.configuration.run_config import RunConfig
    from rheos.environments.environment import Environment
    from rheos.plugins.registry import Registry
    from rheos.reports import Report
    from rheos.runs.context import RunContext
    from rheos.spaces import Spaces
    from rheos.streams.stream import Stream

__all__ = ["Program", "describe", "each_environment_once"]


@dataclass(frozen=True)
class Program:
    """What a run would do: the actors and the flow between them, as values."""

    context: RunContext[Any]
    spaces: Spaces
    roles: Any
    """The algorithm's own roles; `roles.learner` is the actor whose weights are saved."""
    stream: Stream[Report]


def describe(config: RunConfig, registry: Registry) -> Program:
    """Describe and check what a run would do; no actor is started.

    What is made is one environment, for its spaces, and the backend once, which refuses its mode or device here
    rather than in an actor of a run that has begun.

    Raises:
        ConfigError: if the backend does not have the mode or the device.
        UnknownName: if a plugin or the environment is not installed.
        SpaceError: if the algorithm cannot take the spaces of the environment.
        FlowMistake: if the text of the flow has a mistake.
    """
    algorithm = registry.algorithm(config.algo_name)
    context = _with_known_environment(config.context(registry))
    spaces = context.environment.spaces()
    resolve(algorithm.policy)(spaces, config.algo)  # refuses spaces that it cannot act in
    roles = resolve(algorithm.roles)(context)
    stream: Stream[Report] = resolve(algorithm.flow)(roles, config.algo)
    found = stream.check()
    if found:
        raise FlowMistake("\n".join(str(mistake) for mistake in found))
    make_backend(config.backend, config.device, registry)
    return Program(context, spaces, roles, stream)


@contextmanager
def each_environment_once() -> Iterator[None]:
    """Within it, environments of the same settings are asked for their spaces once, however often `describe` is.

    For who describes many runs of one environment. Not the rule, since what an id stands for may change meanwhile.
    """
    token = _known_environments.set({})
    try:
        yield
    finally:
        _known_environments.reset(token)


_known_environments: ContextVar[dict[str, Environment] | None] = ContextVar("known environments", default=None)
"""By their settings, as text."""


def _with_known_environment(context: RunContext[Any]) -> RunContext[Any]:
    known = _known_environments.get()
    if known is None:
        return context
    settings = repr(to_mapping(context.environment.config))
    return replace(context, environment=known.setdefault(settings, context.environment))
