"""Program: an algorithm joined with an environment and settings, described and checked, and nothing started."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rheos.backend import learning_devices
from rheos.errors import FlowMistake
from rheos.plugins import make_backend, resolve
from rheos.streams.actors import Placement

if TYPE_CHECKING:
    from rheos.configuration.run_config import RunConfig
    from rheos.plugins.registry import Registry
    from rheos.policies import PolicySpec
    from rheos.reports import Report
    from rheos.runs.context import RunContext
    from rheos.spaces import Spaces
    from rheos.streams.stream import Stream

__all__ = ["Program", "describe", "prepare"]


@dataclass(frozen=True)
class Program:
    """What a run would do: the actors and the flow between them, as values."""

    context: RunContext[Any]
    spaces: Spaces
    policy: PolicySpec
    """How the algorithm acts in these spaces."""
    roles: Any
    """The algorithm's own roles; `roles.learner` is the actor whose weights are saved."""
    stream: Stream[Report]


def describe(config: RunConfig, registry: Registry) -> Program:
    """Describe and check what a run would do; no actor is started. One environment is made, for its spaces.

    Raises:
        UnknownName: if a plugin or the environment is not installed.
        SpaceError: if the algorithm cannot take the spaces of the environment.
        FlowMistake: if the text of the flow has a mistake.
    """
    algorithm = registry.algorithm(config.algo_name)
    context = config.context(registry)
    spaces = context.environment.spaces()
    policy: PolicySpec = resolve(algorithm.policy)(spaces, config.algo)  # refuses spaces that it cannot act in
    roles = _placed(resolve(algorithm.roles)(context), Placement(config.executor.learner_placement))
    stream: Stream[Report] = resolve(algorithm.flow)(roles, config.algo)
    found = stream.check()
    if found:
        raise FlowMistake("\n".join(str(mistake) for mistake in found))
    return Program(context, spaces, policy, roles, stream)


def _placed(roles: Any, placement: Placement) -> Any:
    """Return the roles with the learner where the settings want it; what the algorithm says goes before `auto`."""
    if placement is Placement.AUTO:
        return roles
    return replace(roles, learner=replace(roles.learner, placement=placement))


def prepare(config: RunConfig, registry: Registry) -> Program:
    """Describe a run that is about to begin, and see that it could.

    The backend is made once, so that it refuses its mode, device or number of processes here rather than in an actor
    of a run that has begun; not where the learner may live on another machine, which has other devices.

    Raises:
        ConfigError: if the backend does not have the mode or the device, or does not learn in so many processes.
        UsageError: as `describe` does.
    """
    program = describe(config, registry)
    is_elsewhere = registry.executor(config.executor.name).has_processes
    if is_elsewhere and config.executor.learner_placement == Placement.REMOTE.value:
        return program
    backend = make_backend(config.backend, config.device, registry)
    learning_devices(backend, config.backend.processes)
    return program
