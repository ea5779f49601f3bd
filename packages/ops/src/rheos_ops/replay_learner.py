"""ReplayLearner: one gradient step per batch from replay, with target networks, and what goes back to the replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rheos import Batch, LearnerReport
from rheos.errors import ConfigError
from rheos.plugins import make_backend
from rheos.seeds import generator_for
from rheos_ops.learners import GradientLearner, LearnerSpec, transitions

if TYPE_CHECKING:
    from rheos.arrays.namespace import Array
    from rheos.backend import Backend, Networks
    from rheos.networks.specs import NetworkSpec
    from rheos.runs.context import RunContext

__all__ = [
    "PRIORITIES",
    "TARGET",
    "ReplayLearner",
    "ReplayLearnerSpec",
    "make_replay_learner",
    "priorities_of",
    "refuse_processes",
]

PRIORITIES = "priorities"
"""The metric of the loss that is no scalar: `[N]`, at least 0, how much there is to learn from each row."""

TARGET = "target_"
"""What the name of a target network begins with; the rest is that of the network that it follows."""


def _draw_nothing(generator: np.random.Generator) -> Mapping[str, npt.NDArray[np.float32]]:
    return {}


@dataclass(frozen=True, kw_only=True)
class ReplayLearnerSpec(LearnerSpec):
    """What an algorithm that learns from replay says of its learner.

    A batch is one minibatch: `num_epochs`, `minibatch_size`, `prepare`, `stop_above` and `normalizers` have no place.
    Its loss gets all networks, each with a target network beside it, and gives `PRIORITIES` among its metrics.
    """

    target_update_every: int = 1
    """Updates of the learner from one move of the target networks to the next."""
    target_tau: float = 1.0
    """How far they move towards their networks: (1 - τ) target + τ network; 1 copies."""
    draw_noise: Callable[[np.random.Generator], Mapping[str, npt.NDArray[np.float32]]] = _draw_nothing
    """Draws, anew for each update, those columns that are not in a batch."""

    @property
    def targets(self) -> Mapping[str, NetworkSpec]:
        """A target network for each network."""
        return {TARGET + name: spec for name, spec in self.networks.items()}

    @property
    def row_metrics(self) -> tuple[str, ...]:
        """The priorities."""
        return (PRIORITIES,)


def make_replay_learner(context: RunContext[Any], spec: ReplayLearnerSpec) -> ReplayLearner:
    """Join an algorithm's learner with the backend that the run names; called where the learner lives.

    Raises:
        ConfigError: if the backend does not have the mode or the device, or several processes are asked for.
    """
    refuse_processes(context)
    return ReplayLearner(make_backend(context.backend, context.device), spec, seed=context.seed)


def refuse_processes(context: RunContext[Any]) -> None:
    """Refuse several processes for one learner: for roles, so that it is told before a run has a folder.

    Raises:
        ConfigError: if several are asked for.
    """
    if context.backend.processes > 1:
        raise ConfigError(
            f"backend.processes: got {context.backend.processes}, expected 1: a learner from replay is one process."
        )


class ReplayLearner(GradientLearner):
    """Learns from batches of `ReplayShard.sample`, each in one step.

    Targets move by the learner's own count of updates, so that two learners in one flow share no clock.

    Args:
        backend: gradients, optimizer and native networks.
        spec: networks, loss and targets.
        seed: of the run; initial weights and noise derive from it and `name`.
        name: of the actor.
    """

    def __init__(self, backend: Backend, spec: ReplayLearnerSpec, *, seed: int, name: str = "learner") -> None:
        self._replay_spec = spec
        self._noise = generator_for(seed, name, "noise")
        super().__init__(backend, spec, seed=seed, name=name)

    def update(self, batch: Batch) -> LearnerReport:
        """Take a step on a batch.

        The report has `ids` and new `priorities` of its rows, for the shard that they came from.

        Raises:
            ShapeError: if the batch lacks a column that the learner reads.
            RheosError: if loss or gradient is not finite (such a step changed nothing), or a weight that is published.
        """
        spec = self._replay_spec
        noise = spec.draw_noise(self._noise)
        columns = {**transitions(batch, tuple(name for name in spec.columns if name not in noise)), **noise}
        coefficients = {name: schedule(self._env_steps) for name, schedule in self._schedules.items()}
        measured = self._step(self._backend.put(columns), coefficients)
        metrics, priorities = self._fetched(measured)
        self._refuse_non_finite(metrics, batch)
        self._version += 1
        if self._version % spec.target_update_every == 0:
            self._backend.polyak(self._targets, self._networks, spec.target_tau)
        is_due = self._version % spec.publish_every == 0
        return LearnerReport(
            batch.info,
            self._version,
            updates=1,
            metrics=metrics,
            weights=self._finite_weights(batch) if is_due else None,
            rows={"ids": batch["ids"], PRIORITIES: priorities},
        )

    def state_dict(self) -> dict[str, Any]:
        """Add the target networks and the generator of the noise."""
        return super().state_dict() | {
            "targets": self._backend.weights(self._targets),
            "noise": self._noise.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave."""
        super().load_state_dict(state)
        self._backend.load(self._targets, state["targets"])
        self._noise.bit_generator.state = state["noise"]

    def _other_networks(self, initial: Mapping[str, npt.NDArray[np.float32]], seed: int) -> Networks:
        self._targets = self._backend.build(self._spec.networks, initial, seed=seed)
        return {TARGET + name: network for name, network in self._targets.items()}

    def _fetched(self, measured: Mapping[str, Array]) -> tuple[dict[str, float], npt.NDArray[np.float32]]:
        """Fetch everything that was measured at once."""
        names = tuple(name for name in measured if name != PRIORITIES)
        xp = self._backend.xp
        scalars = xp.stack([measured[name] for name in names])
        fetched: npt.NDArray[Any] = self._backend.get({"all": xp.concat([scalars, measured[PRIORITIES]])})["all"]
        return dict(zip(names, fetched[: len(names)].tolist(), strict=True)), fetched[len(names) :]


def priorities_of(learned: LearnerReport) -> LearnerReport:
    """Return what a shard has to know of an update, which is not the weights: a message function for `tell`."""
    return replace(learned, weights=None, metrics={})
