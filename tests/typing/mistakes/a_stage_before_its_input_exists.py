"""The learner is asked before the shards are gathered: a sharded stream has no item for it yet."""

from __future__ import annotations

from rheos import Actor, ActorGroup, LearnerReport, Report, Stream
from rheos_ops.roles import Learner, Worker
from rheos_ops.sources import newest_weights, rollouts
from rheos_ops.stages import report


def program(workers: ActorGroup[Worker], learner: Actor[Learner]) -> Stream[Report]:
    """Leave out `.gather_async()`."""
    learned: Stream[LearnerReport] = (
        rollouts(workers, newest_weights(learner))  # error: mypy (it names the first line of a chain)
        .ask(learner, Learner.update)  # error: pyright
        .tap(print)
    )
    return learned.map(report)
