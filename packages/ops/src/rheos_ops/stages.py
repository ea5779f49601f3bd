"""Stages: what flows do with batches and reports, as plain functions and small classes with a memory of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from rheos import ActorGroup, Batch, BatchInfo, LearnerReport, Report
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.batches import Columns
from rheos.errors import ShapeError
from rheos.executors.host import freeze
from rheos.executors.protocol import Shared
from rheos_ops.advantages import generalized_advantages

__all__ = [
    "DiscountedReturns",
    "EstimateAdvantages",
    "EverySteps",
    "JoinedColumns",
    "Rebatch",
    "ReportRollout",
    "concat",
    "discounted_returns",
    "estimate_advantages",
    "every_steps",
    "rebatch",
    "report",
    "report_rollout",
    "report_rollout_of",
]

M = TypeVar("M")


def concat(batches: Sequence[Batch]) -> Batch:
    """Join batches of one kind along their axis: fragments side by side, transitions one behind the other.

    Where columns are deferred they are joined by whoever reads them, so that they need not come here.

    Args:
        batches: at least one; all with the same columns and the same axis.

    Raises:
        ShapeError: if there is none, or if they differ in columns or axis.

    Example:
        >>> halves = [Batch({"rewards": np.ones((4, 1))}, BatchInfo(env_steps=4), axis=1)] * 2
        >>> concat(halves)["rewards"].shape, concat(halves).info.env_steps
        ((4, 2), 8)
    """
    if not batches:
        raise ShapeError("concat got no batches: give it at least one.")
    axis = batches[0].axis
    for batch in batches[1:]:
        if batch.axis != axis:
            raise ShapeError(f"concat got batches along axis {axis} and axis {batch.axis}: join batches of one source.")
    info = BatchInfo.union(batch.info for batch in batches)
    if len(batches) == 1:
        return Batch(batches[0].content, info, axis)
    joined = JoinedColumns(tuple(batch.content for batch in batches), axis)
    return Batch(joined if any(batch.is_deferred for batch in batches) else joined.get(), info, axis)


@dataclass(frozen=True)
class JoinedColumns(Shared[Columns]):
    """The columns of several batches as those of one; some of them are elsewhere."""

    parts: tuple[Columns | Shared[Columns], ...]
    axis: int

    def get(self) -> Columns:
        """Return the joined columns, read-only; those that are elsewhere are fetched.

        Raises:
            ShapeError: if the parts differ in columns.
        """
        first, *others = parts = [part.get() if isinstance(part, Shared) else part for part in self.parts]
        for other in others:
            if other.keys() != first.keys():
                raise ShapeError(
                    f"concat got batches of two kinds: {sorted(first)} along axis {self.axis},"
                    f" and {sorted(other)} along axis {self.axis}: join batches of one source."
                )
        joined: Columns = freeze(
            {name: np.concatenate([part[name] for part in parts], axis=self.axis) for name in first}
        )
        return joined


def rebatch(*, min_steps: int) -> Rebatch:
    """Collect batches until they hold at least `min_steps` env steps, then give them as one: for `flat_map`.

    What is left at the end of the stream is given as it is.

    Raises:
        ValueError: if `min_steps` is less than 1.
    """
    if min_steps < 1:
        raise ValueError(f"rebatch(min_steps={min_steps}): expected at least 1.")
    return Rebatch(min_steps)


class Rebatch:
    """The stage that `rebatch` makes; it remembers the batches that wait."""

    def __init__(self, min_steps: int) -> None:
        self._min_steps = min_steps
        self._parts: list[Batch] = []

    def __call__(self, batch: Batch) -> list[Batch]:
        """Take a batch; give the whole once it is large enough."""
        self._parts.append(batch)
        return self.finish() if sum(part.info.env_steps for part in self._parts) >= self._min_steps else []

    def finish(self) -> list[Batch]:
        """Give what there is."""
        parts, self._parts = self._parts, []
        return [concat(parts)] if parts else []

    def state_dict(self) -> dict[str, Any]:
        """Return the batches that wait."""
        return {"parts": list(self._parts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the batches that waited."""
        self._parts = list(state["parts"])


class _WithInfo(Protocol):
    @property
    def info(self) -> BatchInfo: ...


def every_steps(steps: int, message: Callable[[Any], M]) -> EverySteps[M]:
    """Send a message only each time that so many env steps came from the sources of an item: for `tell`.

    Steps are counted for each source apart, so every worker gets its weights as often as its own steps say. Of an
    item of several sources each is taken to have made an equal part.

    Args:
        steps: env steps between two messages, at least 1.
        message: the message function to ask when one is due.

    Raises:
        ValueError: if `steps` is less than 1.
    """
    if steps < 1:
        raise ValueError(f"every_steps({steps}): expected at least 1.")
    return EverySteps(steps, message)


class EverySteps(Generic[M]):
    """The message function that `every_steps` makes; it remembers the steps of each source."""

    def __init__(self, steps: int, message: Callable[[Any], M]) -> None:
        self._steps = steps
        self._message = message
        self._since: dict[str, float] = {}

    def __call__(self, item: _WithInfo) -> M | None:
        """Count the item; give its message if it is due for one of its sources, and None else."""
        info = item.info
        is_due = False
        for name in info.sources:
            since = self._since.get(name, 0) + info.env_steps / len(info.sources)
            is_due |= since >= self._steps
            self._since[name] = since % self._steps
        return self._message(item) if is_due else None

    def state_dict(self) -> dict[str, Any]:
        """Return the counts."""
        return {"since": dict(self._since)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the counts."""
        self._since = dict(state["since"])


def report(learned: LearnerReport) -> Report:
    """Return what an update means for the run: its steps and episodes, its metrics, and the lag of its batch."""
    info, before = learned.info, learned.version - learned.updates
    return Report(
        env_steps=info.env_steps,
        agent_steps=info.agent_steps,
        updates=learned.updates,
        episodes=info.episodes,
        metrics=learned.metrics,
        lag=(before - info.version_max, before - info.version_mean, before - info.version_min),
    )


def report_rollout(batch: Batch) -> Report:
    """Return what a rollout means for the run, in a branch that does not learn."""
    return Report(env_steps=batch.info.env_steps, agent_steps=batch.info.agent_steps, episodes=batch.info.episodes)


def report_rollout_of(workers: ActorGroup[Any]) -> ReportRollout:
    """Return a function that reports as `report_rollout` does, but episodes of some workers only.

    Args:
        workers: those whose episodes count, such as the ones that explore least.
    """
    return ReportRollout(frozenset(worker.name for worker in workers))


@dataclass(frozen=True)
class ReportRollout:
    """The stage that `report_rollout_of` makes."""

    names: frozenset[str]
    """Of the workers whose episodes count."""

    def __call__(self, batch: Batch) -> Report:
        """Return what a rollout means for the run; only these workers' episodes are among it."""
        reported = report_rollout(batch)
        return reported if self.names.issuperset(batch.info.sources) else replace(reported, episodes=())


@dataclass(frozen=True)
class EstimateAdvantages:
    """The stage that `estimate_advantages` makes."""

    discount: float
    lambda_: float
    rewards: str = "rewards"

    def __call__(self, batch: Batch) -> Batch:
        """Add the columns `advantages` and `returns` (advantages plus values), `[T, B]` float32.

        Raises:
            ShapeError: if the batch has no such column of rewards.
        """
        if self.rewards not in batch.columns:
            has = ", ".join(batch.columns)
            raise ShapeError(
                f"estimate_advantages(rewards={self.rewards!r}): the batch has no such column, it has {has}."
            )
        advantages = generalized_advantages(
            numpy_xp,
            batch[self.rewards],
            batch["values"],
            batch["next_values"],
            batch["terminated"],
            batch["truncated"],
            discount=self.discount,
            lambda_=self.lambda_,
        )
        return batch.with_columns(advantages=advantages, returns=advantages + batch["values"])


def estimate_advantages(*, discount: float, lambda_: float, rewards: str = "rewards") -> EstimateAdvantages:
    """Estimate the advantages of a fragment by GAE; for `map` at the workers, whose values they need.

    Args:
        discount: γ per environment step, in [0, 1].
        lambda_: λ, in [0, 1].
        rewards: the column of the rewards; values are in its unit.

    Raises:
        ValueError: if one lies outside [0, 1].
    """
    for name, value in (("discount", discount), ("lambda_", lambda_)):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"estimate_advantages({name}={value}): expected a number in [0, 1].")
    return EstimateAdvantages(discount, lambda_, rewards)


def discounted_returns(*, discount: float) -> DiscountedReturns:
    """Add the discounted return so far of each environment; for `map` at the workers, whose rewards it adds up.

    Its deviation is the unit of normalized rewards. With eₜ = 1 where an episode ended:

        Gₜ = rₜ + γ (1 - eₜ₋₁) Gₜ₋₁

    Args:
        discount: γ per environment step, in [0, 1].

    Raises:
        ValueError: if it lies outside [0, 1].

    Source:
        Engstrom et al. 2020, arXiv:2005.12729, section 3.
    """
    if not 0.0 <= discount <= 1.0:
        raise ValueError(f"discounted_returns(discount={discount}): expected a number in [0, 1].")
    return DiscountedReturns(discount)


class DiscountedReturns:
    """The stage that `discounted_returns` makes; it carries the return of each environment over to its next fragment.

    A stage that takes a state begins anew, as the episodes of a worker do that takes one.

    Example:
        >>> column = lambda *x: np.array(x)[:, None]
        >>> batch = Batch({"rewards": column(1.0, 1.0, 1.0), "terminated": column(False, True, False)}, axis=1)
        >>> batch = batch.with_columns(truncated=column(False, False, False))
        >>> DiscountedReturns(0.5)(batch)["discounted_returns"].ravel()
        array([1. , 1.5, 1. ], dtype=float32)
    """

    def __init__(self, discount: float) -> None:
        self._discount = discount
        self._carried: dict[tuple[str, ...], npt.NDArray[np.float32]] = {}

    def __call__(self, batch: Batch) -> Batch:
        """Add the column `discounted_returns`, `[T, B]` float32."""
        rewards = np.asarray(batch["rewards"], np.float32)
        ended = np.logical_or(batch["terminated"], batch["truncated"])
        factors = np.where(ended, 0.0, self._discount).astype(np.float32)
        # yₜ = aₜ yₜ₋₁ + rₜ, where aₜ belongs to the step before; what was carried counts as one more step in front
        carried = self._carried.get(batch.info.sources, np.zeros(rewards.shape[1], np.float32))
        terms = np.concatenate([carried[np.newaxis], rewards])
        decay = np.concatenate([np.zeros_like(factors[:1]), np.ones_like(factors[:1]), factors[:-1]])
        returns = numpy_xp.linear_recurrence(decay, terms)[1:]
        self._carried[batch.info.sources] = factors[-1] * returns[-1]
        return batch.with_columns(discounted_returns=returns)

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the episodes that are running are dropped when a run is resumed."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Forget the episodes that were running."""
        self._carried.clear()
