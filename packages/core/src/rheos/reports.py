"""What actors and flows report: weights, the reply of an update, the delta that a run adds up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from rheos.batches import BatchInfo, Episode
from rheos.tree_types import tree_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rheos.executors.protocol import Shared

__all__ = ["LearnerReport", "Report", "Weights"]


@tree_type("rheos.Weights")
@dataclass(frozen=True)
class Weights:
    """Weights by canonical name, and the number of updates that made them."""

    version: int
    arrays: Mapping[str, npt.NDArray[np.float32]]

    def to_tree(self) -> Any:
        """Return the version and the arrays."""
        return {"version": self.version, "arrays": dict(self.arrays)}

    @staticmethod
    def from_tree(tree: Any) -> Weights:
        """Return the weights that `to_tree` gave."""
        return Weights(**tree)


@tree_type("rheos.LearnerReport")
@dataclass(frozen=True)
class LearnerReport:
    """The reply of `Learner.update`.

    `weights` is set when they are due to be published; the actor's host sends them once, so that the
    driver and everybody else only handles a `Shared`. `rows` has what goes back to where the batch came from, a number
    for each of its rows, such as `ids` and `priorities`.
    """

    info: BatchInfo = field(default_factory=BatchInfo)
    version: int = 0
    updates: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    weights: Weights | Shared[Weights] | None = None
    rows: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)

    def with_weights(self, weights: Shared[Weights]) -> LearnerReport:
        """Return this report with its weights replaced by the reference that is shared."""
        return replace(self, weights=weights)

    def to_tree(self) -> Any:
        """Return the fields by name."""
        tree = {item.name: getattr(self, item.name) for item in fields(self)}
        return tree | {"metrics": dict(self.metrics), "rows": dict(self.rows)}

    @staticmethod
    def from_tree(tree: Any) -> LearnerReport:
        """Return the report that `to_tree` gave."""
        return LearnerReport(**tree)


@tree_type("rheos.Report")
@dataclass(frozen=True)
class Report:
    """A delta of a run: what came to pass since the report before. The run adds them up.

    `metrics` are means over the work reported (losses, entropy, ...); `lag` is how many updates the
    weights that acted were behind those that learned, min, mean and max, or None where nothing learned.
    """

    env_steps: int = 0
    agent_steps: int = 0
    updates: int = 0
    episodes: tuple[Episode, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    lag: tuple[float, float, float] | None = None

    def to_tree(self) -> Any:
        """Return the fields by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)} | {"metrics": dict(self.metrics)}

    @staticmethod
    def from_tree(tree: Any) -> Report:
        """Return the report that `to_tree` gave."""
        return Report(**tree)
