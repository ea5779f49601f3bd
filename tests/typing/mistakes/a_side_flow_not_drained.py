"""A side flow that emits batches is merged with the reports: it lacks `.drain()`."""

from __future__ import annotations

from rheos import Actor, ActorGroup, Batch, Report, Stream, concurrently
from rheos_ops.roles import Learner, Worker
from rheos_ops.sources import newest_weights, rollouts
from rheos_ops.stages import concat, report


def program(workers: ActorGroup[Worker], learner: Actor[Learner], seen: list[Batch]) -> Stream[Report]:
    """Learn, and beside it keep what was learned from."""
    to_learn, to_keep = rollouts(workers, newest_weights(learner)).gather_sync().tee(2)
    learn = to_learn.map(concat).ask(learner, Learner.update).map(report)
    keep = to_keep.map(concat).tap(seen.append)
    return concurrently(learn, keep)  # error
