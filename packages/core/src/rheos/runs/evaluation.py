"""evaluate: how well a trained policy plays, in episodes that are the same whenever they are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheos.configuration.settings import from_mapping
from rheos.errors import ConfigError
from rheos.plugins import load_registry
from rheos.plugins.resolving import settings_class
from rheos.runs.evaluation_result import EvaluationResult
from rheos.runs.playing import MAX_EPISODE_STEPS, Player
from rheos.runs.policy import find_checkpoint, load_policy

if TYPE_CHECKING:
    from rheos.environments.watching import Frame
    from rheos.plugins.registry import Registry
    from rheos.runs.checkpoints import Checkpoint

__all__ = ["evaluate", "frames_per_second"]

_NAME = "evaluation"
"""Who plays; part of the seeds."""


def evaluate(
    run_dir: str | os.PathLike[str],
    episodes: int = 20,
    seed: int = 0,
    *,
    max_episode_steps: int = MAX_EPISODE_STEPS,
    film: Callable[[Frame], object] | None = None,
    film_episodes: int = 1,
    backend: str | Mapping[str, Any] | None = None,
    device: str = "cpu",
    registry: Registry | None = None,
) -> EvaluationResult:
    """Play episodes with the newest weights of a run, choosing the best action each time.

    Every episode has an environment and a seed of its own, derived from `seed` and its number: none is favoured for
    being short, training saw none of them, and the first ten of twenty episodes are the ten of ten, filmed or not.
    (Environments that are made only by a vector entry point share the seed of their group of 16.)

    Args:
        run_dir: the folder of a run, or one of its `checkpoints/<env_steps>`.
        episodes: at least 1.
        seed: of the environments.
        max_episode_steps: an episode that has not ended by then is cut off.
        film: called with every frame of the first episodes, which are then played one after the other: `[H, W, 3]`
            uint8, one after the reset and one after each step. `frames_per_second` tells how fast they are to be shown.
        film_episodes: how many episodes are filmed, at least 1.
        backend: which one acts, as `load_policy` takes it.
        device: where it acts, as `load_policy` takes it.
        registry: where algorithm and environment are found; by default all installed plugins.

    Raises:
        RunFolderError: if the folder is no run, or the run has no weights that can be used.
        ConfigError: if a number is no integer, or too small.
        UsageError: if the environment is to be filmed, and cannot be.
        UnknownName: if the backend is not installed.
    """
    _refuse_less("episodes", episodes, 1)
    _refuse_less("seed", seed, 0)
    _refuse_less("max_episode_steps", max_episode_steps, 1)
    _refuse_less("film_episodes", film_episodes, 1)
    registry = registry if registry is not None else load_registry()
    policy = load_policy(run_dir, backend=backend, device=device, registry=registry)
    player = _player(policy.checkpoint, registry, seed, max_episode_steps)
    num_filmed = 0 if film is None else min(film_episodes, episodes)
    played = [] if film is None else [player.film(policy, number, film) for number in range(num_filmed)]
    played += player.play(policy, range(num_filmed, episodes)) or []
    return EvaluationResult.of(played, run_dir=str(Path(run_dir)), env_steps=policy.checkpoint.env_steps, seed=seed)


def frames_per_second(run_dir: str | os.PathLike[str], *, registry: Registry | None = None) -> float:
    """Return how many of the frames that `evaluate` films make up a second of the environment's own time.

    Raises:
        RunFolderError: if the folder is no run, or the run has no weights that can be used.
        UsageError: if the environment cannot be filmed.
    """
    registry = registry if registry is not None else load_registry()
    return _player(find_checkpoint(Path(run_dir)), registry, 0, MAX_EPISODE_STEPS).frames_per_second()


def _player(checkpoint: Checkpoint, registry: Registry, seed: int, max_episode_steps: int) -> Player:
    settings = checkpoint.manifest["env"]
    config = from_mapping(settings_class(registry.environment(settings["name"])), settings, "env")
    return Player(config, registry, seed=seed, name=_NAME, max_episode_steps=max_episode_steps)


def _refuse_less(name: str, value: object, minimum: int) -> None:
    if not isinstance(value, int) or value < minimum:
        raise ConfigError(f"{name}: got {value!r}, expected an integer >= {minimum}")
