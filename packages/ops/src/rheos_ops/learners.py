"""GradientLearner: networks, a loss, an optimizer, a random generator and counters; generic over the algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rheos import Batch, LearnerReport, Weights
from rheos.backend import Adam
from rheos.errors import RheosError, ShapeError
from rheos.networks.initial import initial_weights
from rheos.plugins import make_backend
from rheos.seeds import generator_for

if TYPE_CHECKING:
    from rheos.backend import Backend, Loss
    from rheos.networks.specs import NetworkSpec
    from rheos.runs.context import RunContext

__all__ = ["GradientLearner", "LearnerSpec", "make_learner"]

Columns = dict[str, npt.NDArray[np.generic]]


@dataclass(frozen=True)
class LearnerSpec:
    """What an algorithm says of its learner; the backend adds the gradients."""

    networks: Mapping[str, NetworkSpec]
    loss: Loss
    columns: tuple[str, ...]
    """The columns of a batch that the loss reads."""
    learning_rate: float
    optimizer: Adam = field(default_factory=Adam)
    max_grad_norm: float | None = None
    """Gradients are scaled down to this global L2 norm; None leaves them as they are."""
    num_epochs: int = 1
    """Passes over each batch."""
    minibatch_size: int | None = None
    """Transitions in a step; None takes the whole batch."""
    publish_every: int = 1
    """Updates from one publication of the weights to the next."""


def make_learner(context: RunContext[Any], spec: LearnerSpec) -> GradientLearner:
    """Join an algorithm's learner with the backend that the run names; called where the learner lives."""
    return GradientLearner(make_backend(context.backend, context.device), spec, seed=context.seed)


class GradientLearner:
    """Learns from batches by minibatch gradient steps.

    Args:
        backend: gradients, optimizer and native networks.
        spec: networks, loss and how often.
        seed: of the run; initial weights and minibatches derive from it and `name`.
        name: of the actor.
    """

    def __init__(self, backend: Backend, spec: LearnerSpec, *, seed: int, name: str = "learner") -> None:
        self._backend = backend
        self._spec = spec
        initial = initial_weights(spec.networks, generator_for(seed, name, "weights"))
        self._networks = backend.build(spec.networks, initial)
        self._optimizer = backend.optimizer(spec.optimizer, self._networks)
        self._step = backend.update(spec.loss, self._networks, self._optimizer, max_grad_norm=spec.max_grad_norm)
        self._generator = generator_for(seed, name, "minibatches")
        self._version = 0

    def update(self, batch: Batch) -> LearnerReport:
        """Pass over a batch `num_epochs` times in shuffled minibatches.

        The rows are cut into minibatches of equal size, as near to `minibatch_size` as that can be, so no
        transition is lost and no step is taken on a remainder of a few. A batch without transitions is
        skipped: the report has no updates then.

        Raises:
            ShapeError: if the batch lacks a column that the loss reads.
            RheosError: if a loss or gradient of a step is not finite; such a step changed nothing.
        """
        rows = transitions(batch, self._spec.columns)
        count = len(next(iter(rows.values())))
        if count == 0:
            return LearnerReport(batch.info, self._version, updates=0)
        columns = self._backend.put(rows)
        parts = max(1, round(count / (self._spec.minibatch_size or count)))
        metrics = []
        for _ in range(self._spec.num_epochs):
            for indices in np.array_split(self._generator.permutation(count), parts):
                minibatch = self._backend.take(columns, indices)
                metrics.append(self._step(minibatch, self._spec.learning_rate))
        means = _mean([self._backend.get(step) for step in metrics])
        for name in ("loss", "grad_norm"):
            if not np.isfinite(means.get(name, 0.0)):
                raise RheosError(
                    f"learner: {name} is {means[name]} in update {self._version + 1}, on a batch of"
                    f" {', '.join(batch.info.sources)}: look for extreme rewards or observations,"
                    " or try a smaller learning rate."
                )
        self._version += 1
        is_due = self._version % self._spec.publish_every == 0
        return LearnerReport(
            batch.info,
            self._version,
            updates=1,
            metrics=means,
            weights=self.weights() if is_due else None,
        )

    def weights(self) -> Weights:
        """Return a copy of the weights."""
        return Weights(self._version, self._backend.weights(self._networks))

    def state_dict(self) -> dict[str, Any]:
        """Return weights, optimizer, generator and counter."""
        return {
            "version": self._version,
            "weights": self._backend.weights(self._networks),
            "optimizer": self._optimizer.state_dict(),
            "generator": self._generator.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self._version = state["version"]
        self._backend.load(self._networks, state["weights"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._generator.bit_generator.state = state["generator"]


def transitions(batch: Batch, names: tuple[str, ...]) -> Columns:
    """Return columns as rows `[N, ...]`: time and environments as one axis, without steps that are no transition.

    Raises:
        ShapeError: if the batch lacks a column.
    """
    missing = [name for name in names if name not in batch.columns]
    if missing:
        has = ", ".join(batch.columns)
        raise ShapeError(f"The batch has no column {missing[0]!r}: the loss reads {', '.join(names)}, it has {has}.")
    rows = {name: batch[name] for name in names}
    is_transition = batch.columns.get("is_transition")
    if batch.axis == 1:
        rows = {
            name: column.reshape(column.shape[0] * column.shape[1], *column.shape[2:]) for name, column in rows.items()
        }
    if is_transition is not None and not is_transition.all():
        kept = np.flatnonzero(is_transition)
        rows = {name: column[kept] for name, column in rows.items()}
    return rows


def _mean(steps: list[dict[str, Any]]) -> dict[str, float]:
    return {name: sum(float(step[name]) for step in steps) / len(steps) for name in steps[0]}
