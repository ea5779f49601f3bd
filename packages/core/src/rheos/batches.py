"""Batch: columns of experience, and what is known about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from rheos.executors.protocol import Shared
from rheos.tree_types import tree_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Batch", "BatchInfo", "Columns", "Episode"]

Columns: TypeAlias = "Mapping[str, npt.NDArray[np.generic]]"
"""Arrays by name, which share their leading axes."""


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

    The columns of a batch that an actor on another machine gave are *deferred*: they stay there, go from there to the
    actor that the batch is sent to, and come here when somebody reads `columns`.

    Args:
        content: the columns, or the reference to them.
        info: what is known about them.
        axis: along which such batches are joined.

    Example:
        >>> import numpy as np
        >>> batch = Batch({"rewards": np.ones((128, 8), np.float32)}, BatchInfo(env_steps=1024), axis=1)
        >>> batch["rewards"].shape
        (128, 8)
    """

    content: Columns | Shared[Columns]
    info: BatchInfo = field(default_factory=BatchInfo)
    axis: int = 0

    @cached_property
    def columns(self) -> Columns:
        """The columns; deferred ones are fetched, once.

        Raises:
            ItemLost: if they are gone with the machine that held them.
        """
        return self.content.get() if isinstance(self.content, Shared) else self.content

    @property
    def is_deferred(self) -> bool:
        """Whether the columns are elsewhere."""
        return isinstance(self.content, Shared)

    def __getitem__(self, name: str) -> npt.NDArray[np.generic]:
        """Return a column by name."""
        return self.columns[name]

    def __reduce__(self) -> tuple[type[Batch], tuple[Any, ...]]:
        """Leave out what was fetched."""
        return Batch, (self.content, self.info, self.axis)

    def with_columns(self, **columns: npt.NDArray[np.generic]) -> Batch:
        """Return this batch with columns added or replaced."""
        return Batch({**self.columns, **columns}, self.info, self.axis)

    def to_tree(self) -> Any:
        """Return the columns, what is known about them, and the axis."""
        return {"columns": dict(self.columns), "info": self.info, "axis": self.axis}

    @staticmethod
    def from_tree(tree: Any) -> Batch:
        """Return the batch that `to_tree` gave."""
        return Batch(tree["columns"], tree["info"], tree["axis"])
