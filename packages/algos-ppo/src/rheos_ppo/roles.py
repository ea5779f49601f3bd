"""The actors of PPO: workers that act, and a learner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rheos import Actor, ActorGroup
from rheos.backend import Adam
from rheos.runs.context import RunContext
from rheos_ops.learners import GradientLearner, LearnerSpec, make_learner
from rheos_ops.roles import Learner, Worker
from rheos_ops.workers import RolloutWorker
from rheos_ppo.config import PPOConfig
from rheos_ppo.losses import COLUMNS, PPOLoss
from rheos_ppo.policy import actor_critic, ppo_policy

__all__ = ["PPORoles", "make_ppo_learner", "make_ppo_worker", "ppo_roles"]


@dataclass(frozen=True)
class PPORoles:
    """Who takes part in PPO."""

    workers: ActorGroup[Worker]
    learner: Actor[Learner]


def ppo_roles(context: RunContext[PPOConfig]) -> PPORoles:
    """Describe the actors of PPO; none is started."""
    return PPORoles(
        workers=ActorGroup("rollout", context.num_workers, partial(make_ppo_worker, context)),
        learner=Actor("learner", partial(make_ppo_learner, context)),
    )


def make_ppo_worker(context: RunContext[PPOConfig], index: int) -> RolloutWorker:
    """Make a worker, where it lives."""
    policy = ppo_policy(context.environment.spaces(), context.config)
    return RolloutWorker(context, policy, index=index, rollout_steps=context.config.rollout_steps)


def make_ppo_learner(context: RunContext[PPOConfig]) -> GradientLearner:
    """Make the learner, where it lives."""
    config = context.config
    acts = actor_critic(context.environment.spaces(), config)
    loss = PPOLoss(acts, config.clip_range, config.value_coef, config.entropy_coef, config.normalize_advantages)
    return make_learner(
        context,
        LearnerSpec(
            networks=acts.networks,
            loss=loss,
            columns=COLUMNS,
            learning_rate=config.learning_rate,
            optimizer=Adam(epsilon=config.adam_epsilon),
            max_grad_norm=config.max_grad_norm,
            num_epochs=config.num_epochs,
            minibatch_size=config.minibatch_size,
        ),
    )
