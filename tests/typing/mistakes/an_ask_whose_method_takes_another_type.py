"""The learner's `update` takes a batch, and is asked with a round of them."""

from __future__ import annotations

from rheos import Actor, ActorGroup, Report, Stream
from rheos_ops.roles import Learner, Worker
from rheos_ops.sources import newest_weights, rollouts
from rheos_ops.stages import report


def program(workers: ActorGroup[Worker], learner: Actor[Learner]) -> Stream[Report]:
    """Leave out `.map(concat)`."""
    return (
        rollouts(workers, newest_weights(learner))
        .gather_sync()
        .ask(learner, Learner.update)  # error
        .map(report)
    )
