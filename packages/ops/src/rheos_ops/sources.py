"""Sources: streams that begin at the actors of a role, and the weights that flow back to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rheos import Actor, ActorGroup, Batch, LearnerReport, Published, ShardedStream, Weights, from_actors
from rheos.executors.protocol import Shared
from rheos_ops.roles import Learner, Replay, Worker

__all__ = ["newest_weights", "published_weights", "replays", "rollouts"]

__tracebackhide__ = True

WeightsMessage = Callable[[Any], Published[Weights]]
"""A message function: for any item, the newest weights."""


def rollouts(workers: ActorGroup[Worker], newest: WeightsMessage) -> ShardedStream[Batch]:
    """Make a source of the workers' rollouts; each worker gets weights before its first.

    Args:
        workers: who steps the environments.
        newest: what `newest_weights` gives.
    """
    return from_actors(workers, Worker.rollout, first=(Worker.load, newest))


def replays(shards: ActorGroup[Replay]) -> ShardedStream[Batch]:
    """Make a source of samples from replay; shards that do not have enough yet are passed over.

    Args:
        shards: who keeps the experience.
    """
    return from_actors(shards, Replay.sample)


def newest_weights(learner: Actor[Learner]) -> WeightsMessage:
    """Return a message function that gives what the learner published last, whatever the item.

    The learner is asked only as long as it has published nothing, so nobody waits for a busy learner.
    """
    newest = Published(learner, Learner.weights)

    def newest_published(_: object) -> Published[Weights]:
        return newest

    return newest_published


def published_weights(learned: LearnerReport) -> Weights | Shared[Weights] | None:
    """Return the weights that an update published, and None where they were not due: a message function for `tell`."""
    return learned.weights
