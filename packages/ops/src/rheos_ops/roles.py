"""Roles: what a flow may ask of an actor, as Protocols. Their methods are what `ask` and `tell` name."""

from __future__ import annotations

from typing import Protocol

from rheos import Batch, LearnerReport, Weights

__all__ = ["Learner", "Worker"]


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
