"""evaluate: how well a trained policy plays, in episodes that are the same whenever they are asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rheos.configuration.settings import from_mapping
from rheos.errors import ConfigError
from rheos.plugins import load_registry, make_environment
from rheos.plugins.resolving import settings_class
from rheos.runs.policy import Policy, load_policy

if TYPE_CHECKING:
    from rheos.environments.environment import Environment
    from rheos.plugins.registry import Registry

__all__ = ["EvaluationResult", "evaluate"]

_AT_ONCE = 16
"""How many episodes are played side by side, each in an environment of its own."""


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """The returns and lengths of the episodes, in order, and what follows from them."""

    run_dir: str
    env_steps: int
    """Of training, when the weights were saved."""
    seed: int
    episode_returns: tuple[float, ...]
    episode_lengths: tuple[int, ...]
    cut: int = 0
    """How many episodes were cut off because they did not end; their return so far counts."""

    @property
    def episodes(self) -> int:
        """The number of episodes."""
        return len(self.episode_returns)

    @property
    def episode_return_mean(self) -> float:
        """The mean return, not discounted."""
        return float(np.mean(self.episode_returns))

    @property
    def episode_return_std(self) -> float:
        """The standard deviation of the returns between episodes (not of their mean)."""
        return float(np.std(self.episode_returns))

    @property
    def episode_return_min(self) -> float:
        """The smallest return."""
        return min(self.episode_returns)

    @property
    def episode_return_max(self) -> float:
        """The largest return."""
        return max(self.episode_returns)

    @property
    def episode_length_mean(self) -> float:
        """The mean length, in env steps."""
        return float(np.mean(self.episode_lengths))

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON can say it."""
        means = {
            name: getattr(self, name)
            for name in (
                "episodes",
                "episode_return_mean",
                "episode_return_std",
                "episode_return_min",
                "episode_return_max",
                "episode_length_mean",
            )
        }
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            **{name: own.pop(name) for name in ("run_dir", "env_steps", "seed")},
            **means,
            "episode_returns": list(self.episode_returns),
            "episode_lengths": list(self.episode_lengths),
            "cut": self.cut,
        }


def evaluate(
    run_dir: str | os.PathLike[str],
    episodes: int = 20,
    seed: int = 0,
    *,
    max_episode_steps: int = 100_000,
    device: str = "cpu",
    registry: Registry | None = None,
) -> EvaluationResult:
    """Play episodes with the newest weights of a run, choosing the best action each time.

    Every episode has an environment and a seed of its own, derived from `seed` and its number: none is favoured for
    being short, training saw none of them, and the first ten of twenty episodes are the ten of ten. (Environments
    that are made only by a vector entry point share the seed of their group of 16.)

    Args:
        run_dir: the folder of a run, or one of its `checkpoints/<env_steps>`.
        episodes: at least 1.
        seed: of the environments.
        max_episode_steps: an episode that has not ended by then is cut off.
        device: where networks that are too large for NumPy act.
        registry: where algorithm and environment are found; by default all installed plugins.

    Raises:
        RunFolderError: if the folder is no run, or the run has no weights that can be used.
        ConfigError: if a number is no integer, or too small.
    """
    _refuse_less("episodes", episodes, 1)
    _refuse_less("seed", seed, 0)
    _refuse_less("max_episode_steps", max_episode_steps, 1)
    registry = registry if registry is not None else load_registry()
    policy = load_policy(run_dir, device=device, registry=registry)
    played = [
        episode
        for first in range(0, episodes, _AT_ONCE)
        for episode in _play(policy, registry, seed, first, min(_AT_ONCE, episodes - first), max_episode_steps)
    ]
    return EvaluationResult(
        run_dir=str(Path(run_dir)),
        env_steps=policy.checkpoint.env_steps,
        seed=seed,
        episode_returns=tuple(episode.episode_return for episode in played),
        episode_lengths=tuple(episode.length for episode in played),
        cut=sum(episode.was_cut for episode in played),
    )


def _refuse_less(name: str, value: object, minimum: int) -> None:
    if not isinstance(value, int) or value < minimum:
        raise ConfigError(f"{name}: got {value!r}, expected an integer >= {minimum}")


class _Played(NamedTuple):
    episode_return: float
    length: int
    was_cut: bool


def _play(
    policy: Policy, registry: Registry, seed: int, first: int, count: int, max_episode_steps: int
) -> list[_Played]:
    """Play the episodes from `first` on side by side; what an environment does after its first episode is ignored."""
    environments = _describe(policy.checkpoint.manifest["env"], registry, count).make(seed, f"evaluation-{first}")
    returns, lengths, is_playing = np.zeros(count), np.zeros(count, np.int64), np.ones(count, np.bool_)
    try:
        observations = environments.reset()
        for _ in range(max_episode_steps):
            step = environments.step(policy.act(observations))
            observations = step.observations
            returns[is_playing] += step.rewards[is_playing]
            lengths[is_playing] += 1
            is_playing &= ~(step.terminated | step.truncated)
            if not is_playing.any():
                break
    finally:
        environments.close()
    return [_Played(float(r), int(n), bool(cut)) for r, n, cut in zip(returns, lengths, is_playing, strict=True)]


def _describe(settings: Mapping[str, Any], registry: Registry, num_envs: int) -> Environment:
    """Describe the environments of a run, stepped one by one where they can be: only so each has its own seed."""
    config_class = settings_class(registry.environment(settings["name"]))
    wanted = {**settings, "num_envs": num_envs}
    if "vectorization" in settings:  # of every run that this version made
        try:
            return make_environment(from_mapping(config_class, {**wanted, "vectorization": "sync"}, "env"), registry)
        except ConfigError:
            pass  # an environment that is only there as many at once
    return make_environment(from_mapping(config_class, wanted, "env"), registry)
