"""The dataflow of PPO."""

from __future__ import annotations

from rheos import Batch, Report, Route, Stream
from rheos_ops.roles import Learner, Worker
from rheos_ops.sources import newest_weights, rollouts
from rheos_ops.stages import concat, discounted_returns, estimate_advantages, report
from rheos_ppo.config import PPOConfig
from rheos_ppo.roles import PPORoles

__all__ = ["ppo", "train_on"]


def ppo(roles: PPORoles, cfg: PPOConfig) -> Stream[Report]:
    """Synchronous PPO (Schulman et al. 2017, arXiv:1707.06347, Algorithm 1)."""
    fragments = rollouts(roles.workers, newest_weights(roles.learner))
    rewards = "rewards"
    if cfg.normalize_rewards:
        fragments = fragments.map(discounted_returns(discount=cfg.discount))  # their deviation is the unit
        rewards = "normalized_rewards"
    rounds = (
        fragments.map(
            estimate_advantages(discount=cfg.discount, lambda_=cfg.gae_lambda, rewards=rewards)
        ).gather_sync()  # a barrier: every batch of a round saw the same weights
    )
    return train_on(rounds, roles, cfg)


def train_on(rounds: Stream[tuple[Batch, ...]], roles: PPORoles, cfg: PPOConfig) -> Stream[Report]:
    """Learn from rounds of batches with advantages, also from another program's; the workers get the new weights."""
    return (
        rounds.map(concat)
        .ask(roles.learner, Learner.update)
        .tell(roles.workers, Worker.load, message=newest_weights(roles.learner), route=Route.ALL)
        .map(report)
    )
