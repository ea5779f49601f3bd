"""The plugin of rheos-core: its executors and environments, registered like anyone's."""

from __future__ import annotations

from rheos.plugins.hooks import hookimpl
from rheos.plugins.specs import EnvironmentSpec, ExecutorSpec

__all__ = ["rheos_environments", "rheos_executors"]


@hookimpl
def rheos_executors() -> list[ExecutorSpec]:
    """Offer the executors that need one process."""
    return [
        ExecutorSpec(
            name="inline",
            summary="everything in this thread: reproducible bit for bit, and a debugger works",
            factory="rheos.executors.inline:make_executor",
        ),
        ExecutorSpec(
            name="threads",
            summary="every worker in a thread of this process",
            factory="rheos.executors.threads:make_executor",
        ),
    ]


@hookimpl
def rheos_environments() -> list[EnvironmentSpec]:
    """Offer the environments that are registered with Gymnasium, prepared Atari games, and a task of memory."""
    return [
        EnvironmentSpec(
            name="gym",
            summary="any environment that is registered with Gymnasium: env.id=CartPole-v1",
            factory="rheos.environments.gym:make_environment",
        ),
        EnvironmentSpec(
            name="atari",
            summary="Atari games, prepared as DeepMind did: env.game=pong",
            factory="rheos.environments.atari:make_environment",
            config="rheos.environments.atari_config:AtariConfig",
        ),
        EnvironmentSpec(
            name="delayed-cue",
            summary="a cue that is shown once has to be named later: for policies with a memory",
            factory="rheos.environments.delayed_cue:make_environment",
            config="rheos.environments.delayed_cue_config:DelayedCueConfig",
        ),
    ]
