"""The actors of REINFORCE: workers that act, and a learner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from my_algorithms.config import ReinforceConfig
from my_algorithms.losses import COLUMNS, ReinforceLoss
from my_algorithms.policy import reinforce_policy, softmax_policy
from rheos import Actor, ActorGroup
from rheos.runs.context import RunContext
from rheos_ops.learners import GradientLearner, LearnerSpec, make_learner
from rheos_ops.roles import Learner, Worker
from rheos_ops.workers import RolloutWorker

__all__ = ["ReinforceRoles", "make_reinforce_learner", "make_reinforce_worker", "reinforce_roles"]


@dataclass(frozen=True)
class ReinforceRoles:
    """Who takes part in REINFORCE."""

    workers: ActorGroup[Worker]
    learner: Actor[Learner]


def reinforce_roles(context: RunContext[ReinforceConfig]) -> ReinforceRoles:
    """Describe the actors; none is started."""
    return ReinforceRoles(
        workers=ActorGroup("rollout", context.num_workers, partial(make_reinforce_worker, context)),
        learner=Actor("learner", partial(make_reinforce_learner, context)),
    )


def make_reinforce_worker(context: RunContext[ReinforceConfig], index: int) -> RolloutWorker:
    """Make a worker, where it lives."""
    policy = reinforce_policy(context.environment.spaces(), context.config)
    return RolloutWorker(context, policy, index=index, rollout_steps=context.config.rollout_steps)


def make_reinforce_learner(context: RunContext[ReinforceConfig]) -> GradientLearner:
    """Make the learner, where it lives; the run's backend brings the gradients."""
    acts = softmax_policy(context.environment.spaces(), context.config)
    return make_learner(
        context,
        LearnerSpec(
            networks=acts.networks,
            loss=ReinforceLoss(acts),
            columns=COLUMNS,
            learning_rate=context.config.learning_rate,
        ),
    )
