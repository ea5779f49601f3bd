"""Hill climbing: each climber tries a change of the best weights so far, and the summit keeps the best attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hillclimb.config import HillClimbConfig
from rheos import (
    Actor,
    ActorGroup,
    BatchInfo,
    LearnerReport,
    PolicySpec,
    Report,
    Route,
    RunContext,
    Stream,
    Weights,
    from_actors,
)
from rheos.networks.initial import initial_weights
from rheos.networks.specs import MLP
from rheos.seeds import generator_for
from rheos.spaces import ActionAdapter, ObservationAdapter, Spaces
from rheos.tree_types import tree_type
from rheos_ops.distributions import distribution_for
from rheos_ops.sources import newest_weights
from rheos_ops.stages import report
from rheos_ops.workers import RolloutWorker


@tree_type("hillclimb.Attempt")
@dataclass(frozen=True)
class Attempt:
    """Weights, and what they were worth."""

    weights: Mapping[str, Any]
    score: float
    info: BatchInfo

    def to_tree(self) -> object:
        """Return what a checkpoint keeps of one that is on its way."""
        return {"weights": dict(self.weights), "score": self.score, "info": self.info}

    @staticmethod
    def from_tree(tree: Mapping[str, Any]) -> Attempt:
        """Return what `to_tree` gave."""
        return Attempt(**tree)


class Climber:
    """Tries changes of the weights that it was given last."""

    def __init__(self, context: RunContext[HillClimbConfig], index: int) -> None:
        config = context.config
        self._worker = RolloutWorker(
            context,
            linear_policy(context.environment.spaces(), config),
            index=index,
            rollout_steps=config.rollout_steps,
        )
        self._noise_scale = config.noise_scale
        self._generator = generator_for(context.seed, self._worker.name, "changes")

    def load(self, weights: Weights) -> None:
        """Start from these weights."""
        self._start = weights

    def attempt(self) -> Attempt:
        """Change the weights at random, and see how far they go."""
        weights = {
            name: (array + self._noise_scale * self._generator.standard_normal(array.shape)).astype(np.float32)
            for name, array in self._start.arrays.items()
        }
        self._worker.load(Weights(self._start.version, weights))
        batch = self._worker.rollout()
        ends = np.sum(batch["terminated"] | batch["truncated"])
        return Attempt(weights, float(np.sum(batch["rewards"]) / (ends + 1)), batch.info)

    def begin_anew(self) -> None:
        """Begin new episodes with the next attempt."""
        self._worker.begin_anew()

    def state_dict(self) -> dict[str, Any]:
        """Return what the next changes come from."""
        return {"worker": self._worker.state_dict(), "changes": self._generator.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self._worker.load_state_dict(state["worker"])
        self._generator.bit_generator.state = state["changes"]

    def close(self) -> None:
        """Close the environments."""
        self._worker.close()


class Summit:
    """Keeps the best weights; what it learns from is a round of attempts."""

    def __init__(self, context: RunContext[HillClimbConfig]) -> None:
        networks = linear_policy(context.environment.spaces(), context.config).networks
        self._weights: Mapping[str, Any] = initial_weights(networks, generator_for(context.seed, "learner", "weights"))
        self._best, self._version = -np.inf, 0

    def weights(self) -> Weights:
        """Return the best weights."""
        return Weights(self._version, dict(self._weights))

    def consider(self, attempts: tuple[Attempt, ...]) -> LearnerReport:
        """Take the best attempt if it is better."""
        best = max(attempts, key=lambda attempt: attempt.score)
        self._version += 1
        if best.score > self._best:
            self._best, self._weights = best.score, best.weights
        info = BatchInfo.union(attempt.info for attempt in attempts)
        return LearnerReport(info, self._version, 1, {"best_score": self._best}, weights=self.weights())

    def state_dict(self) -> dict[str, Any]:
        """Return the best weights, what they were worth, and the number of rounds."""
        return {"weights": dict(self._weights), "best": float(self._best), "version": self._version}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self._weights, self._best, self._version = state["weights"], state["best"], state["version"]


@dataclass(frozen=True)
class HillClimbRoles:
    """Who takes part."""

    climbers: ActorGroup[Climber]
    learner: Actor[Summit]


def hillclimb_roles(context: RunContext[HillClimbConfig]) -> HillClimbRoles:
    """Describe the actors."""
    return HillClimbRoles(
        ActorGroup("climber", context.num_workers, partial(Climber, context)),
        Actor("learner", partial(Summit, context)),
    )


def hillclimb(roles: HillClimbRoles, cfg: HillClimbConfig) -> Stream[Report]:
    """Climb."""
    newest = newest_weights(roles.learner)
    return (
        from_actors(roles.climbers, Climber.attempt, first=(Climber.load, newest))
        .gather_sync()
        .ask(roles.learner, Summit.consider)
        .tell(roles.climbers, Climber.load, message=newest, route=Route.ALL)
        .map(report)
    )


def linear_policy(spaces: Spaces, config: HillClimbConfig) -> PolicySpec:
    """Choose the action with the largest output of a linear function."""
    distribution = distribution_for(ActionAdapter(spaces.action))

    def act(xp: Any, networks: Any, inputs: Any) -> dict[str, Any]:
        return {"actions": distribution.mode(xp, networks["policy"](inputs["observations"]))}

    inputs = ObservationAdapter(spaces.observation).columns["observations"].shape[0]
    networks = {"policy": MLP(inputs, distribution.num_outputs, hidden=())}
    return PolicySpec(networks=networks, explore=act, exploit=act, draw_noise=distribution.draw_noise)
