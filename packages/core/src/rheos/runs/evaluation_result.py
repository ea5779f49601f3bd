"""EvaluationResult: what an evaluation measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from rheos.tree_types import tree_type

if TYPE_CHECKING:
    from rheos.runs.playing import Played

__all__ = ["EvaluationResult"]


@tree_type("rheos.EvaluationResult")
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

    @staticmethod
    def of(played: Sequence[Played], *, run_dir: str, env_steps: int, seed: int) -> EvaluationResult:
        """Return the result of the episodes that were played."""
        return EvaluationResult(
            run_dir=run_dir,
            env_steps=env_steps,
            seed=seed,
            episode_returns=tuple(episode.episode_return for episode in played),
            episode_lengths=tuple(episode.length for episode in played),
            cut=sum(episode.was_cut for episode in played),
        )

    def to_tree(self) -> Any:
        """Return the fields by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @staticmethod
    def from_tree(tree: Any) -> EvaluationResult:
        """Return the result that `to_tree` gave."""
        return EvaluationResult(**tree)

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
