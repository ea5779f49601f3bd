"""A lambda reads an attribute that its item does not have: `env_step`, which is `env_steps`."""

from __future__ import annotations

from rheos import Actor, ActorGroup, Report, Stream
from rheos_ops.roles import Learner, Worker
from rheos_ops.sources import newest_weights, rollouts
from rheos_ops.stages import report


def program(workers: ActorGroup[Worker], learner: Actor[Learner]) -> Stream[Report]:
    """Keep the batches that are long enough."""
    return (
        rollouts(workers, newest_weights(learner))
        .gather_async()
        .filter(lambda batch: batch.info.env_step > 1)  # error
        .ask(learner, Learner.update)
        .map(report)
    )
