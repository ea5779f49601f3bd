"""What happens to a rollout on its way to the learner: functions of an item, testable without any stream."""

from __future__ import annotations

from dataclasses import dataclass

from rheos import Batch
from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.arrays.numpy_namespace import numpy_xp

__all__ = ["EstimateReturns", "returns_to_go"]


@dataclass(frozen=True)
class EstimateReturns:
    """Adds the column `returns` to a rollout; for `map` at the workers.

    Args:
        discount: γ, in [0, 1].
    """

    discount: float

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with its returns, `[T, B]` float32."""
        ends = batch["terminated"], batch["truncated"]
        return batch.with_columns(returns=returns_to_go(numpy_xp, batch["rewards"], *ends, discount=self.discount))


def returns_to_go(xp: ArrayNamespace, rewards: Array, terminated: Array, truncated: Array, *, discount: float) -> Array:
    """Sum the discounted rewards from each step to the end of its episode.

        Rₜ = rₜ + γ (1 - eₜ) Rₜ₊₁

    eₜ is 1 where an episode ended, for whatever reason. What comes after the last row counts as 0.

    Args:
        xp: the array namespace.
        rewards: rₜ, `[T, B]` float32.
        terminated: `[T, B]`, bool.
        truncated: `[T, B]`, bool.
        discount: γ per environment step, in [0, 1].

    Returns:
        Rₜ, `[T, B]` float32.

    Example:
        Two steps in one environment:

        >>> column = lambda *x: numpy_xp.asarray(x)[:, None]
        >>> ended = column(False, False)
        >>> returns_to_go(numpy_xp, column(1.0, 1.0), ended, ended, discount=0.5).ravel()
        array([1.5, 1. ], dtype=float32)
    """
    goes_on = xp.astype(~(terminated | truncated), xp.float32)
    return xp.linear_recurrence(discount * goes_on, rewards, reverse=True)
