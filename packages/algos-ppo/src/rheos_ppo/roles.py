"""The actors of PPO: workers that act, and a learner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from rheos import Actor, ActorGroup
from rheos.backend import Adam
from rheos.errors import ConfigError
from rheos.runs.context import RunContext
from rheos.spaces import ActionAdapter, Spaces
from rheos_ops.learners import GradientLearner, LearnerSpec, make_learner
from rheos_ops.normalization import NormalizerSpec
from rheos_ops.roles import Learner, Worker
from rheos_ops.schedules import Constant, Linear, Schedule
from rheos_ops.torsos import OBSERVATION_NORMALIZER
from rheos_ops.workers import RolloutWorker
from rheos_ppo.config import PPOConfig
from rheos_ppo.losses import PPOLoss, PrepareBatch, columns_of
from rheos_ppo.policy import REWARD_NORMALIZER, ActorCritic, actor_critic, ppo_policy

__all__ = ["PPORoles", "learner_spec", "make_ppo_learner", "make_ppo_worker", "ppo_roles"]


@dataclass(frozen=True)
class PPORoles:
    """Who takes part in PPO."""

    workers: ActorGroup[Worker]
    learner: Actor[Learner]


def ppo_roles(context: RunContext[PPOConfig]) -> PPORoles:
    """Describe the actors of PPO; none is started.

    Raises:
        ConfigError: if a setting changes over the run, and nothing says how long the run is.
    """
    _schedules(context)
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
    return make_learner(context, learner_spec(context))


def learner_spec(context: RunContext[PPOConfig]) -> LearnerSpec:
    """Return what PPO says of its learner."""
    config, spaces = context.config, context.environment.spaces()
    acts = actor_critic(spaces, config)
    schedules = _schedules(context)
    return LearnerSpec(
        networks=acts.networks,
        loss=PPOLoss(acts, config.value_coef, config.value_clip_range, config.normalize_advantages == "minibatch"),
        columns=columns_of(acts),
        learning_rate=schedules.pop("learning_rate"),
        coefficients=schedules,
        prepare=PrepareBatch(
            normalize_advantages=config.normalize_advantages == "batch",
            keeps_values=config.value_clip_range is not None,
            action_bounds=_action_bounds(spaces),
        ),
        optimizer=Adam(epsilon=config.adam_epsilon),
        max_grad_norm=config.max_grad_norm,
        num_epochs=config.num_epochs,
        minibatch_size=config.minibatch_size,
        stop_above=None if config.target_kl is None else ("approx_kl", config.target_kl),
        normalizers=_normalizers(acts),
    )


def _schedules(context: RunContext[PPOConfig]) -> dict[str, Schedule]:
    config, steps = context.config, context.total_env_steps
    ends = {
        "learning_rate": (config.learning_rate, config.final_learning_rate),
        "clip_range": (config.clip_range, config.final_clip_range),
        "entropy_coef": (config.entropy_coef, config.final_entropy_coef),
    }
    schedules: dict[str, Schedule] = {}
    for name, (start, end) in ends.items():
        if end is None:
            schedules[name] = Constant(start)
        elif steps is None:
            raise ConfigError(
                f"algo.final_{name}: got {end:g}, but nothing says when it is reached: set stop.env_steps,"
                f" or algo.final_{name}=null."
            )
        else:
            schedules[name] = Linear(start, end, steps)
    return schedules


def _normalizers(acts: ActorCritic) -> dict[str, NormalizerSpec]:
    """Return from which column each normalizer learns; rewards are only scaled, by the deviation of the return."""
    specs = {
        OBSERVATION_NORMALIZER: NormalizerSpec("observations"),
        REWARD_NORMALIZER: NormalizerSpec("discounted_returns", is_centered=False),
    }
    return {name: spec for name, spec in specs.items() if name in acts.networks}


def _action_bounds(spaces: Spaces) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the bounds beyond which an action is clipped, or None where there are none."""
    adapter = ActionAdapter(spaces.action)
    is_bounded = np.isfinite(adapter.low) | np.isfinite(adapter.high)
    return (adapter.low, adapter.high) if is_bounded.any() else None
