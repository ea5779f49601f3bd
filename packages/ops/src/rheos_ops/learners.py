"""GradientLearner: networks, a loss, an optimizer, a random generator and counters; generic over the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rheos import Batch, LearnerReport, Weights
from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Adam, OptimizerSpec
from rheos.errors import RheosError, ShapeError
from rheos.networks.initial import initial_weights
from rheos.networks.specs import Normalizer
from rheos.plugins import make_backend
from rheos.seeds import generator_for
from rheos_ops.minibatches import SHARE, Part, WeightedLoss, minibatch_bounds
from rheos_ops.normalization import NormalizerSpec, RunningMoments
from rheos_ops.schedules import Constant, Schedule

if TYPE_CHECKING:
    from rheos.backend import Backend, Loss, Networks
    from rheos.networks.specs import NetworkSpec
    from rheos.runs.context import RunContext

__all__ = ["GradientLearner", "LearnerSpec", "Prepare", "make_learner", "transitions"]

Columns = dict[str, npt.NDArray[np.generic]]

Prepare = Callable[[ArrayNamespace, Mapping[str, Array]], tuple[Mapping[str, Array], Mapping[str, Array]]]
"""`(xp, columns) -> (columns, scalar metrics)` on all rows of a batch, written once over `xp`."""

_LEAST_STD = 1e-4
"""A Normalizer divides by no less: what has been constant so far does not blow up when it first moves."""


@dataclass(frozen=True)
class LearnerSpec:
    """What an algorithm says of its learner; the backend adds the gradients."""

    networks: Mapping[str, NetworkSpec]
    loss: Loss
    columns: tuple[str, ...]
    """The columns of a batch that the loss and `prepare` read."""
    learning_rate: float | Schedule
    coefficients: Mapping[str, float | Schedule] = field(default_factory=dict)
    """What the loss gets as its coefficients, beside `learning_rate`. A schedule is a function of the env steps
    learned from before the batch, so it holds for all steps of an update."""
    optimizer: OptimizerSpec = field(default_factory=Adam)
    max_grad_norm: float | None = None
    """Gradients are scaled down to this global L2 norm; None leaves them as they are."""
    num_epochs: int = 1
    """Passes over each batch."""
    minibatch_size: int | None = None
    """Transitions in a step; None takes the whole batch."""
    prepare: Prepare | None = None
    """Called once per batch, on the device and with all its rows, before they are cut into minibatches."""
    stop_above: tuple[str, float] | None = None
    """A metric of the loss and a limit: when its mean over the steps of an epoch lies above, the epochs that are
    left are skipped."""
    normalizers: Mapping[str, NormalizerSpec] = field(default_factory=dict)
    """By the name of a Normalizer network: the column whose moments it is set to, after the epochs of each update."""
    publish_every: int = 1
    """Updates from one publication of the weights to the next."""

    @property
    def targets(self) -> Mapping[str, NetworkSpec]:
        """Networks that the loss calls and that are not trained."""
        return {}

    @property
    def row_metrics(self) -> tuple[str, ...]:
        """Metrics of the loss that are a number for each row, `[N]`, not a scalar."""
        return ()


def make_learner(context: RunContext[Any], spec: LearnerSpec) -> GradientLearner:
    """Join an algorithm's learner with the backend that the run names; called where the learner lives.

    Raises:
        ConfigError: if the backend does not have the mode or the device, or cannot learn in so many processes.
    """
    if context.backend.processes > 1:
        from rheos_ops.parallel_learners import ParallelLearner  # which imports this module

        return ParallelLearner(context.backend, spec, device=context.device, seed=context.seed)
    return GradientLearner(make_backend(context.backend, context.device), spec, seed=context.seed)


class GradientLearner:
    """Learns from batches by minibatch gradient steps.

    Args:
        backend: gradients, optimizer and native networks.
        spec: networks, loss and how often.
        seed: of the run; initial weights and minibatches derive from it and `name`.
        name: of the actor.
        part: of every minibatch that this learner computes on, where others that `backend` has joined compute on the
            rest; all get the same batches.

    Raises:
        ValueError: if a normalizer names a network that is none.
    """

    def __init__(
        self, backend: Backend, spec: LearnerSpec, *, seed: int, name: str = "learner", part: Part | None = None
    ) -> None:
        self._backend = backend
        self._spec = spec
        self._schedules = {
            name: value if callable(value) else Constant(value)
            for name, value in {**spec.coefficients, "learning_rate": spec.learning_rate}.items()
        }
        self._moments = {name: RunningMoments((_normalizer_size(spec, name),)) for name in spec.normalizers}
        initial = initial_weights(spec.networks, generator_for(seed, name, "weights"))
        modules_seed = int(generator_for(seed, name, "modules").integers(2**31))
        self._networks = backend.build(spec.networks, initial, seed=modules_seed)
        self._optimizer = backend.optimizer(spec.optimizer, self._networks)
        loss = spec.loss if part is None else WeightedLoss(spec.loss)
        others = self._other_networks(initial, modules_seed)
        networks = {**self._networks, **others} if others else self._networks
        self._step = backend.update(loss, networks, self._optimizer, max_grad_norm=spec.max_grad_norm)
        self._part = part
        self._generator = generator_for(seed, name, "minibatches")
        self._version = 0
        self._env_steps = 0

    def update(self, batch: Batch) -> LearnerReport:
        """Pass over a batch up to `num_epochs` times in shuffled minibatches.

        The rows are cut into minibatches of equal size, as near to `minibatch_size` as that can be, so no
        transition is lost and no step is taken on a remainder of a few. A batch without transitions is
        skipped: the report has no updates then.

        Metrics are means over the steps that were taken, those of `prepare`, `learning_rate`, the coefficients that
        are no constants and, with `stop_above`, `epochs`: how many were made.

        Raises:
            ShapeError: if the batch lacks a column that the learner reads.
            RheosError: if a loss or gradient of a step is not finite (such a step changed nothing), or a weight
                afterwards; nothing is published then.
        """
        spec = self._spec
        rows = transitions(batch, self._columns)
        count = len(next(iter(rows.values())))
        if count == 0:
            self._env_steps += batch.info.env_steps
            return LearnerReport(batch.info, self._version, updates=0)
        coefficients = {name: schedule(self._env_steps) for name, schedule in self._schedules.items()}
        columns: Mapping[str, Array] = self._backend.put({name: rows[name] for name in spec.columns})
        measured: Mapping[str, Array] = {}
        if spec.prepare is not None:
            columns, measured = spec.prepare(self._backend.xp, columns)
        steps, epochs = self._epochs(columns, count, coefficients)
        metrics = self._means(steps, measured)
        self._refuse_non_finite(metrics, batch)
        self._learn_moments(rows, batch)
        self._env_steps += batch.info.env_steps
        self._version += 1
        is_due = self._version % spec.publish_every == 0
        return LearnerReport(
            batch.info,
            self._version,
            updates=1,
            metrics={
                **metrics,
                **self._changing(coefficients),
                **({"epochs": float(epochs)} if spec.stop_above else {}),
            },
            weights=self._finite_weights(batch) if is_due else None,
        )

    def weights(self) -> Weights:
        """Return a copy of the weights."""
        return Weights(self._version, self._backend.weights(self._networks))

    def state_dict(self) -> dict[str, Any]:
        """Return weights, optimizer, generator, counters and the moments of the normalizers."""
        return {
            "version": self._version,
            "env_steps": self._env_steps,
            "weights": self._backend.weights(self._networks),
            "optimizer": self._optimizer.state_dict(),
            "generator": self._generator.bit_generator.state,
            "moments": {name: moments.state_dict() for name, moments in self._moments.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self._version = state["version"]
        self._env_steps = state["env_steps"]
        self._backend.load(self._networks, state["weights"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._generator.bit_generator.state = state["generator"]
        for name, moments in self._moments.items():
            moments.load_state_dict(state["moments"][name])

    def _other_networks(self, initial: Mapping[str, npt.NDArray[np.float32]], seed: int) -> Networks:
        """Build what the loss calls and that is not trained; there is nothing."""
        return {}

    @property
    def _columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        learned_from = (normalizer.column for normalizer in self._spec.normalizers.values())
        return tuple(dict.fromkeys((*self._spec.columns, *learned_from)))

    def _epochs(
        self, columns: Mapping[str, Array], count: int, coefficients: Mapping[str, float]
    ) -> tuple[list[dict[str, Array]], int]:
        """Take the gradient steps; return their metrics, still on the device, and how many epochs were made."""
        bounds = minibatch_bounds(count, self._spec.minibatch_size or count)
        told: list[Mapping[str, float]] = [coefficients] * len(bounds)
        if self._part is not None:
            own = [self._part.of(minibatch) for minibatch in bounds]
            bounds = [rows for rows, _ in own]
            told = [{**coefficients, SHARE: share} for _, share in own]
        steps: list[dict[str, Array]] = []
        for epoch in range(1, self._spec.num_epochs + 1):
            begin = len(steps)
            minibatches = self._backend.minibatches(columns, self._generator.permutation(count), bounds)
            steps.extend(map(self._step, minibatches, told))
            if epoch < self._spec.num_epochs and self._is_enough(steps[begin:]):
                return steps, epoch
        return steps, self._spec.num_epochs

    def _is_enough(self, steps: list[dict[str, Array]]) -> bool:
        if self._spec.stop_above is None:
            return False
        name, limit = self._spec.stop_above
        if name not in steps[0]:
            raise RheosError(f"learner: stop_above names {name!r}, the loss gives {', '.join(steps[0])}.")
        return self._means([{name: step[name]} for step in steps], {})[name] > limit

    def _means(self, steps: list[dict[str, Array]], measured: Mapping[str, Array]) -> dict[str, float]:
        """Fetch metrics at once, as one array: the means of the steps, and those of the batch as they are."""
        names, xp = tuple(steps[0]), self._backend.xp
        scalars = [*measured.values(), *(step[name] for step in steps for name in names)]
        fetched = self._backend.get({"metrics": xp.stack(scalars)})["metrics"].astype(np.float64)
        of_batch, of_steps = fetched[: len(measured)], fetched[len(measured) :].reshape(len(steps), len(names))
        means = of_steps.mean(axis=0)
        return dict(zip((*names, *measured), [*means.tolist(), *of_batch.tolist()], strict=True))

    def _changing(self, coefficients: Mapping[str, float]) -> dict[str, float]:
        return {
            name: float(value)
            for name, value in coefficients.items()
            if name == "learning_rate" or not isinstance(self._schedules[name], Constant)
        }

    def _learn_moments(self, rows: Columns, batch: Batch) -> None:
        """Set the normalizers to the moments of all rows so far; whoever acts next normalizes as the next update."""
        weights: dict[str, npt.NDArray[np.float32]] = {}
        for name, normalizer in self._spec.normalizers.items():
            moments = self._moments[name]
            column = rows[normalizer.column]
            moments.update(column.reshape(len(column), prod(column.shape[1:])))
            mean = moments.mean if normalizer.is_centered else np.zeros_like(moments.mean)
            weights[f"{name}/mean"] = mean.astype(np.float32)
            weights[f"{name}/std"] = np.maximum(moments.std, _LEAST_STD).astype(np.float32)
        if weights:
            self._backend.load(self._networks, weights, strict=False)

    def _refuse_non_finite(self, metrics: Mapping[str, float], batch: Batch) -> None:
        for name in ("loss", "grad_norm"):
            if not np.isfinite(metrics.get(name, 0.0)):
                raise RheosError(f"learner: {name} is {metrics[name]} {self._where(batch, self._version + 1)}")

    def _finite_weights(self, batch: Batch) -> Weights:
        weights = self.weights()
        for name, array in weights.arrays.items():
            if not np.isfinite(array).all():
                raise RheosError(f"learner: the weight {name} is not finite {self._where(batch, self._version)}")
        return weights

    @staticmethod
    def _where(batch: Batch, update: int) -> str:
        return (
            f"in update {update}, on a batch of {', '.join(batch.info.sources)}: look for extreme rewards or"
            " observations, or try a smaller learning rate."
        )


def transitions(batch: Batch, names: tuple[str, ...]) -> Columns:
    """Return columns as rows `[N, ...]`: time and environments as one axis, without steps that are no transition.

    Raises:
        ShapeError: if the batch lacks a column.
    """
    missing = [name for name in names if name not in batch.columns]
    if missing:
        has = ", ".join(batch.columns)
        raise ShapeError(f"The batch has no column {missing[0]!r}: the learner reads {', '.join(names)}, it has {has}.")
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


def _normalizer_size(spec: LearnerSpec, name: str) -> int:
    network = spec.networks.get(name)
    if not isinstance(network, Normalizer):
        raise ValueError(f"LearnerSpec(normalizers): got {name!r}, which is {network}, expected a Normalizer network.")
    return network.size
