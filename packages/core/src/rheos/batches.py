"""Batch: columns of experience, and what is known about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from rheos.tree_types import tree_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Batch", "BatchInfo", "Episode"]


@tree_type("rheos.Episode")
class Episode(NamedTuple):
    """A finished episode."""

    episode_return: float
    """The sum of its rewards, not discounted, in the environment's own unit."""
    length: int
    """Its number of environment steps."""

    def to_tree(self) -> Any:
        """Return both as a tuple."""
        return tuple(self)

    @staticmethod
    def from_tree(tree: Any) -> Episode:
        """Return the episode that `to_tree` gave."""
        return Episode(*tree)


@tree_type("rheos.BatchInfo")
@dataclass(frozen=True)
class BatchInfo:
    """What is known about a batch; small, so that it always travels with a reply.

    `env_steps` counts transitions only: the step in which a vector environment resets itself is none.
    The versions are those of the weights that acted, in updates of the learner.
    """

    sources: tuple[str, ...] = ()
    version_min: int = 0
    version_mean: float = 0.0
    version_max: int = 0
    env_steps: int = 0
    agent_steps: int = 0
    episodes: tuple[Episode, ...] = ()

    @staticmethod
    def union(infos: Iterable[BatchInfo]) -> BatchInfo:
        """Return what is known about several batches together; the mean version is weighted by env steps."""
        parts = tuple(infos)
        if not parts:
            return BatchInfo()
        steps = sum(part.env_steps for part in parts)
        weights = [part.env_steps / steps if steps else 1 / len(parts) for part in parts]
        return BatchInfo(
            sources=tuple(dict.fromkeys(name for part in parts for name in part.sources)),
            version_min=min(part.version_min for part in parts),
            version_mean=sum(w * part.version_mean for w, part in zip(weights, parts, strict=True)),
            version_max=max(part.version_max for part in parts),
            env_steps=steps,
            agent_steps=sum(part.agent_steps for part in parts),
            episodes=tuple(episode for part in parts for episode in part.episodes),
        )

    def to_tree(self) -> Any:
        """Return the fields by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @staticmethod
    def from_tree(tree: Any) -> BatchInfo:
        """Return what `to_tree` gave."""
        return BatchInfo(**tree)


@tree_type("rheos.Batch")
@dataclass(frozen=True)
class Batch:
    """Columns of experience that share their leading axes.

    A *fragment* is time-major, `[T, B, ...]`, and is joined along `axis` 1; single transitions are
    `[N, ...]` and are joined along `axis` 0. The arrays are read-only once the batch is in a flow.

    Example:
        >>> import numpy as np
        >>> batch = Batch({"rewards": np.ones((128, 8), np.float32)}, BatchInfo(env_steps=1024), axis=1)
        >>> batch["rewards"].shape
        (128, 8)
    """

    columns: Mapping[str, npt.NDArray[np.generic]]
    info: BatchInfo = field(default_factory=BatchInfo)
    axis: int = 0

    def __getitem__(self, name: str) -> npt.NDArray[np.generic]:
        """Return a column by name."""
        return self.columns[name]

    def with_columns(self, **columns: npt.NDArray[np.generic]) -> Batch:
        """Return this batch with columns added or replaced."""
        return Batch({**self.columns, **columns}, self.info, self.axis)

    def to_tree(self) -> Any:
        """Return the columns, what is known about them, and the axis."""
        return {"columns": dict(self.columns), "info": self.info, "axis": self.axis}

    @staticmethod
    def from_tree(tree: Any) -> Batch:
        """Return the batch that `to_tree` gave."""
        return Batch(**tree)
