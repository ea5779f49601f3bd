"""The dataflow of REINFORCE."""

from __future__ import annotations

from my_algorithms.config import ReinforceConfig
from my_algorithms.roles import ReinforceRoles
from my_algorithms.stages import EstimateReturns
from rheos import Report, Route, Stream
from rheos_ops.roles import Learner, Worker
from rheos_ops.sources import newest_weights, rollouts
from rheos_ops.stages import concat, report

__all__ = ["reinforce"]


def reinforce(roles: ReinforceRoles, cfg: ReinforceConfig) -> Stream[Report]:
    """Synchronous REINFORCE (Williams 1992): act with the current weights, learn once from each round."""
    workers, learner, newest = roles.workers, roles.learner, newest_weights(roles.learner)
    return (
        rollouts(workers, newest)
        .map(EstimateReturns(discount=cfg.discount))  # runs at the worker
        .gather_sync()  # a barrier: every batch of a round saw the same weights
        .map(concat)
        .ask(learner, Learner.update)
        .tell(workers, Worker.load, message=newest, route=Route.ALL)
        .map(report)
    )
