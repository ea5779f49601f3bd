"""`concat` joins a round, and without a barrier there is none: its items are single batches."""

from __future__ import annotations

from rheos import Actor, ActorGroup, Report, Stream
from rheos_ops.roles import Learner, Worker
from rheos_ops.sources import newest_weights, rollouts
from rheos_ops.stages import concat, report


def program(workers: ActorGroup[Worker], learner: Actor[Learner]) -> Stream[Report]:
    """Write `.gather_async()` for `.gather_sync()`."""
    return (
        rollouts(workers, newest_weights(learner))
        .gather_async()
        .map(concat)  # error
        .ask(learner, Learner.update)
        .map(report)
    )
