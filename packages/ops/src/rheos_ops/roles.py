"""Roles: what a flow may ask of an actor, as Protocols. Their methods are what `ask` and `tell` name."""

from __future__ import annotations

from typing import Protocol

from rheos import Batch, LearnerReport, NotReady, Weights

__all__ = ["Learner", "Replay", "Worker"]


class Worker(Protocol):
    """Steps environments with the weights that it was given last."""

    def rollout(self) -> Batch:
        """Return a fragment of experience."""
        ...

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        ...


class Learner(Protocol):
    """Holds the weights and improves them."""

    def update(self, batch: Batch) -> LearnerReport:
        """Learn from a batch; the reply carries the weights when they are due to be published."""
        ...

    def weights(self) -> Weights:
        """Return a copy of the weights."""
        ...


class Replay(Protocol):
    """Keeps experience, and gives samples of it."""

    def add(self, batch: Batch) -> None:
        """Keep rows, in place of the oldest ones where there is no more room."""
        ...

    def sample(self) -> Batch | NotReady:
        """Return a batch of transitions; NotReady before there are enough of them."""
        ...

    def update_priorities(self, learned: LearnerReport) -> None:
        """Take the new priorities of rows that were sampled."""
        ...
