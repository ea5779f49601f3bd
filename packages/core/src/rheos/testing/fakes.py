"""Fake actors for tests of flows: their objects exist before the run, so a test can look at what happened to them.

Each fake is an `Actor` or an `ActorGroup` like any other; `spied` gives the object behind one. With the executor
`inline` that object is the one that the flow talks to. A fake is for one run: what it remembers is not reset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from rheos.batches import Batch, BatchInfo
from rheos.reports import LearnerReport, Weights
from rheos.streams.actors import Actor, ActorGroup, NotReady

__all__ = [
    "CountingLearner",
    "FailingWorker",
    "ReplayShard",
    "StampingWorker",
    "counting_learner",
    "failing_workers",
    "fake_actor",
    "fake_group",
    "replay_shards",
    "spied",
    "stamping_workers",
    "versions_in",
]

A = TypeVar("A")


class _Prepared(Generic[A]):
    """A factory that gives objects made beforehand."""

    def __init__(self, objects: Sequence[A]) -> None:
        self.objects = tuple(objects)

    def __call__(self, index: int = 0) -> A:
        return self.objects[index]


def fake_actor(name: str, prepared: A) -> Actor[A]:
    """Describe an actor whose object is already there.

    Example:
        >>> actor = fake_actor("list", [])
        >>> spied(actor)
        []
    """
    return Actor(name, _Prepared([prepared]))


def fake_group(role: str, prepared: Sequence[A]) -> ActorGroup[A]:
    """Describe a group of actors whose objects are already there, in the order of their index."""
    return ActorGroup(role, len(prepared), _Prepared(prepared))


def spied(actor: Actor[A]) -> A:
    """Return the object of a fake, to look at; an actor that is no fake raises TypeError."""
    factory = actor.factory.func if isinstance(actor.factory, partial) else actor.factory
    if not isinstance(factory, _Prepared):
        raise TypeError(f"{actor.name} is no fake: its object exists only where it runs.")
    return actor.factory()


def versions_in(batch: Batch) -> list[int]:
    """Return the versions of the weights that acted in a batch of stamping workers, each once, sorted."""
    return [int(version) for version in np.unique(batch["version"])]


class StampingWorker:
    """Gives rollouts whose column `version` says which weights acted; it steps no environment.

    A rollout is a fragment, `[T, 1]`, with the columns that on-policy algorithms read: every reward is 1, every
    value 0, and no episode ends.

    Args:
        name: the name that its batches have as their source.
        rollout_steps: T, at least 1.
    """

    def __init__(self, name: str, rollout_steps: int = 1) -> None:
        self.name = name
        self.rollout_steps = rollout_steps
        self.version = -1
        """Of the weights that it acts with; -1 before any were loaded."""
        self.loaded: list[int] = []
        """The versions of all weights that it was given, in order."""
        self.rollouts = 0
        """How many it gave."""
        self.is_closed = False

    def rollout(self) -> Batch:
        """Return a fragment stamped with the version of the weights that it has."""
        self.rollouts += 1
        shape = (self.rollout_steps, 1)
        columns = {
            "observations": np.zeros((*shape, 1), np.float32),
            "actions": np.zeros(shape, np.int32),
            "rewards": np.ones(shape, np.float32),
            "values": np.zeros(shape, np.float32),
            "next_values": np.zeros(shape, np.float32),
            "log_probs": np.zeros(shape, np.float32),
            "terminated": np.zeros(shape, np.bool_),
            "truncated": np.zeros(shape, np.bool_),
            "is_transition": np.ones(shape, np.bool_),
            "version": np.full(shape, self.version, np.int32),
        }
        info = BatchInfo(
            sources=(self.name,),
            version_min=self.version,
            version_mean=float(self.version),
            version_max=self.version,
            env_steps=self.rollout_steps,
            agent_steps=self.rollout_steps,
        )
        return Batch(columns, info, axis=1)

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        self.version = weights.version
        self.loaded.append(weights.version)

    def close(self) -> None:
        """Remember that it was closed."""
        self.is_closed = True

    def state_dict(self) -> dict[str, Any]:
        """Return what it would need to go on in another process."""
        return {"version": self.version, "loaded": list(self.loaded), "rollouts": self.rollouts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.version, self.loaded, self.rollouts = state["version"], list(state["loaded"]), state["rollouts"]


def stamping_workers(count: int, *, rollout_steps: int = 1) -> ActorGroup[StampingWorker]:
    """Make a group of workers, `rollout-<index>`, that stamp each rollout with the version of the weights that acted.

    Example:
        >>> workers = stamping_workers(2)
        >>> spied(workers[1]).load(Weights(7, {}))
        >>> versions_in(spied(workers[1]).rollout())
        [7]
    """
    return fake_group("rollout", [StampingWorker(f"rollout-{index}", rollout_steps) for index in range(count)])


class FailingWorker(StampingWorker):
    """A stamping worker that raises once it has given some rollouts.

    Args:
        name: as for `StampingWorker`.
        after: how many rollouts it gives before.
        error: makes what it raises.
    """

    def __init__(self, name: str, after: int, error: Callable[[], BaseException]) -> None:
        super().__init__(name)
        self.after = after
        self.error = error

    def rollout(self) -> Batch:
        """Return a rollout, or raise."""
        if self.rollouts >= self.after:
            raise self.error()
        return super().rollout()


def failing_workers(
    count: int, *, failing: int = 0, after: int = 0, error: Callable[[], BaseException] = ZeroDivisionError
) -> ActorGroup[StampingWorker]:
    """Make a group of stamping workers of which one fails.

    Args:
        count: how many workers.
        failing: the index of the one that fails.
        after: how many rollouts it gives before.
        error: makes what it raises, an exception class for example.
    """
    return fake_group(
        "rollout",
        [
            FailingWorker(f"rollout-{index}", after, error) if index == failing else StampingWorker(f"rollout-{index}")
            for index in range(count)
        ],
    )


class CountingLearner:
    """Counts its updates, remembers what it learned from, and publishes weights whose version is the count.

    Args:
        publish_every: updates between two publications.
    """

    def __init__(self, publish_every: int = 1) -> None:
        self.publish_every = publish_every
        self.updates = 0
        self.seen: list[Batch] = []
        """The batches of all updates, in order."""
        self.asked_for_weights = 0
        """How often it was asked for weights, beside those that it published by itself."""
        self.is_closed = False

    def update(self, batch: Batch) -> LearnerReport:
        """Count an update; the reply carries the weights when they are due."""
        self.updates += 1
        self.seen.append(batch)
        is_due = self.updates % self.publish_every == 0
        return LearnerReport(
            info=batch.info, version=self.updates, updates=1, weights=self._weights() if is_due else None
        )

    def weights(self) -> Weights:
        """Return the weights."""
        self.asked_for_weights += 1
        return self._weights()

    def close(self) -> None:
        """Remember that it was closed."""
        self.is_closed = True

    def state_dict(self) -> dict[str, Any]:
        """Return what it would need to go on in another process."""
        return {"updates": self.updates, "seen": list(self.seen), "asked_for_weights": self.asked_for_weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.updates, self.seen = state["updates"], list(state["seen"])
        self.asked_for_weights = state["asked_for_weights"]

    def _weights(self) -> Weights:
        return Weights(self.updates, {"policy/bias": np.full(1, self.updates, np.float32)})


def counting_learner(publish_every: int = 1) -> Actor[CountingLearner]:
    """Make a learner that counts its updates and publishes weights; `spied(it).seen` are the batches it learned from.

    Example:
        >>> learner = counting_learner(publish_every=2)
        >>> [spied(learner).update(Batch({})).weights is not None for _ in range(4)]
        [False, True, False, True]
    """
    return fake_actor("learner", CountingLearner(publish_every))


class ReplayShard:
    """Keeps batches and gives the newest one; `NotReady` as long as it has too few.

    Args:
        name: the name that what it samples has as its source.
        learning_starts: batches that it needs before it gives any.
    """

    def __init__(self, name: str, learning_starts: int) -> None:
        self.name = name
        self.learning_starts = learning_starts
        self.batches: list[Batch] = []
        self.priorities: list[LearnerReport] = []
        """What `update_priorities` was given, in order."""
        self.refused = 0
        """How often it answered that it is not ready."""
        self.samples = 0
        """How many batches it gave."""

    def add(self, batch: Batch) -> None:
        """Keep a batch."""
        self.batches.append(batch)

    def sample(self) -> Batch | NotReady:
        """Return the newest batch, once there are enough."""
        if len(self.batches) < self.learning_starts:
            self.refused += 1
            return NotReady(f"{len(self.batches)} of {self.learning_starts} batches")
        self.samples += 1
        return self.batches[-1]

    def update_priorities(self, learned: LearnerReport) -> None:
        """Remember what was learned from a sample."""
        self.priorities.append(learned)


def replay_shards(count: int, *, learning_starts: int = 1) -> ActorGroup[ReplayShard]:
    """Make a group of replay shards, `replay-<index>`, that are not ready before they hold some batches."""
    return fake_group("replay", [ReplayShard(f"replay-{index}", learning_starts) for index in range(count)])
