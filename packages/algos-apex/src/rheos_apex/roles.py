"""The actors of the family: workers that act, shards that keep replay, and a learner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from rheos import Actor, ActorGroup
from rheos.backend import Adam, Loss
from rheos.errors import ConfigError
from rheos.runs.context import RunContext
from rheos_apex.config import ApexConfig, DQNConfig, QLearningConfig, R2D2Config, ReplayConfig
from rheos_apex.losses import (
    NOISE,
    TARGET_NOISE,
    QLearningLoss,
    SequenceQLearningLoss,
    columns_of,
    sequence_columns_of,
)
from rheos_apex.noisy import draw_factors
from rheos_apex.policy import q_policy
from rheos_apex.q_network import QNetwork, q_network
from rheos_ops.replay.shard import ReplayShard
from rheos_ops.replay_learner import ReplayLearner, ReplayLearnerSpec, make_replay_learner, refuse_processes
from rheos_ops.roles import Learner, Replay, Worker
from rheos_ops.schedules import Linear
from rheos_ops.workers import RolloutWorker

__all__ = ["ApexRoles", "DQNRoles", "apex_roles", "dqn_roles", "learner_spec", "r2d2_roles"]


@dataclass(frozen=True)
class DQNRoles:
    """Who takes part in DQN."""

    workers: ActorGroup[Worker]
    shards: ActorGroup[Replay]
    learner: Actor[Learner]
    round_steps: int
    """Steps of all environments of all workers in one rollout of each."""


@dataclass(frozen=True)
class ApexRoles:
    """Who takes part in Ape-X, and in R2D2."""

    workers: ActorGroup[Worker]
    """The first one explores least."""
    shards: ActorGroup[Replay]
    learner: Actor[Learner]


def dqn_roles(context: RunContext[DQNConfig]) -> DQNRoles:
    """Describe the actors of DQN; none is started.

    Raises:
        ConfigError: if a setting changes over the run, and nothing says how long the run is, or if settings
            contradict each other.
    """
    config = context.config
    _check(context, context.num_workers, _rows_at_once(config))
    round_steps = context.num_workers * context.environment.config.num_envs * config.rollout_steps
    return DQNRoles(
        workers=ActorGroup("rollout", context.num_workers, partial(_make_dqn_worker, context)),
        shards=ActorGroup("replay", config.replay_shards, partial(_make_shard, context)),
        learner=Actor("learner", partial(_make_dqn_learner, context, round_steps)),
        round_steps=round_steps,
    )


def apex_roles(context: RunContext[ApexConfig]) -> ApexRoles:
    """Describe the actors of Ape-X; none is started.

    Raises:
        ConfigError: as `dqn_roles` does.
    """
    _check(context, 1, _rows_at_once(context.config))
    return _paced_roles(context)


def r2d2_roles(context: RunContext[R2D2Config]) -> ApexRoles:
    """Describe the actors of R2D2; none is started.

    Raises:
        ConfigError: as `dqn_roles` does.
    """
    _check(context, 1, context.config.rollout_steps + 1)  # each step may end an episode, and one sequence waited
    return _paced_roles(context)


def learner_spec(context: RunContext[ReplayConfig], *, publish_every: int = 1) -> ReplayLearnerSpec:
    """Return what the family says of its learner."""
    config = context.config
    acts = q_network(context.environment.spaces(), config)
    loss, columns = _loss_of(acts, config)
    return ReplayLearnerSpec(
        networks=acts.networks,
        loss=loss,
        columns=columns,
        learning_rate=config.learning_rate,
        optimizer=Adam(epsilon=config.adam_epsilon),
        max_grad_norm=config.max_grad_norm,
        publish_every=publish_every,
        target_update_every=config.target_update_every,
        target_tau=config.target_tau,
        draw_noise=partial(_draw_noise, acts.num_factors),
    )


@dataclass(frozen=True)
class DecayingEpsilons:
    """The same share of random actions in all environments, which falls as the run goes on.

    A worker knows its own steps alone, and takes the others to have made as many.
    """

    schedule: Linear
    num_workers: int
    num_envs: int

    def __call__(self, env_steps: int) -> npt.NDArray[np.float32]:
        """Return the shares after so many steps of one worker, `[B]`."""
        return np.full(self.num_envs, self.schedule(env_steps * self.num_workers), np.float32)


@dataclass(frozen=True)
class ConstantEpsilons:
    """A share of random actions for each environment of a worker, from the first that explores least."""

    epsilons: tuple[float, ...]

    def __call__(self, env_steps: int) -> npt.NDArray[np.float32]:
        """Return the shares, `[B]`."""
        return np.array(self.epsilons, np.float32)


def apex_epsilons(base: float, exponent: float, count: int) -> tuple[float, ...]:
    """Return the share of random actions in each of all environments, the least first.

    Source:
        Horgan et al. 2018, arXiv:1803.00933, section 4.1: εᵢ = ε to the power of 1 + α i / (N - 1); the paper counts
        from the one that explores most.

    Example:
        >>> [round(epsilon, 4) for epsilon in apex_epsilons(0.4, 7.0, 3)]
        [0.0007, 0.0162, 0.4]
        >>> apex_epsilons(0.4, 7.0, 1)
        (0.4,)
    """
    fractions = [index / (count - 1) for index in reversed(range(count))] if count > 1 else [0.0]
    return tuple(base ** (1.0 + exponent * fraction) for fraction in fractions)


def _paced_roles(context: RunContext[ApexConfig | R2D2Config]) -> ApexRoles:
    return ApexRoles(
        workers=ActorGroup("rollout", context.num_workers, partial(_make_paced_worker, context)),
        shards=ActorGroup("replay", context.config.replay_shards, partial(_make_shard, context)),
        learner=Actor("learner", partial(_make_paced_learner, context)),
    )


def _make_dqn_worker(context: RunContext[DQNConfig], index: int) -> RolloutWorker:
    config = context.config
    schedule = Linear(config.initial_epsilon, config.final_epsilon, config.exploration_steps)
    return RolloutWorker(
        context,
        q_policy(context.environment.spaces(), config),
        index=index,
        rollout_steps=config.rollout_steps,
        gives_next_observations=True,
        epsilons=DecayingEpsilons(schedule, context.num_workers, context.environment.config.num_envs),
    )


def _make_paced_worker(context: RunContext[ApexConfig | R2D2Config], index: int) -> RolloutWorker:
    config, num_envs = context.config, context.environment.config.num_envs
    epsilons = apex_epsilons(config.epsilon_base, config.epsilon_exponent, context.num_workers * num_envs)
    return RolloutWorker(
        context,
        q_policy(context.environment.spaces(), config, gives_values=config.prioritized),
        index=index,
        rollout_steps=config.rollout_steps,
        gives_next_observations=True,
        epsilons=ConstantEpsilons(epsilons[index * num_envs : (index + 1) * num_envs]),
    )


def _make_shard(context: RunContext[ReplayConfig], index: int) -> ReplayShard:
    config = context.config
    shards = config.replay_shards
    importance: float | Linear = config.importance_exponent
    if config.final_importance_exponent is not None:
        assert context.total_env_steps is not None  # `_check` has seen to it
        steps = max(context.total_env_steps // shards, 1)
        importance = Linear(config.importance_exponent, config.final_importance_exponent, steps)
    return ReplayShard(
        name=f"replay-{index}",
        seed=context.seed,
        capacity=-(-config.replay_steps // shards),
        capacity_bytes=None if config.replay_bytes is None else config.replay_bytes // shards,
        learning_starts=-(-config.learning_starts // shards),
        batch_size=config.batch_size,
        priority_exponent=config.priority_exponent if config.prioritized else 0.0,
        importance_exponent=importance,
        gives_next=not isinstance(config, R2D2Config),
    )


def _make_dqn_learner(context: RunContext[DQNConfig], round_steps: int) -> ReplayLearner:
    updates = max(int(context.config.updates_per_step * round_steps), 1)  # between two rounds; nobody acts before
    return make_replay_learner(context, learner_spec(context, publish_every=updates))


def _make_paced_learner(context: RunContext[ApexConfig | R2D2Config]) -> ReplayLearner:
    return make_replay_learner(context, learner_spec(context, publish_every=context.config.publish_every))


def _loss_of(acts: QNetwork, config: ReplayConfig) -> tuple[Loss, tuple[str, ...]]:
    """Return the loss, and the columns that it reads."""
    if not isinstance(config, R2D2Config):
        return QLearningLoss(acts, config.double), columns_of(acts)
    of_sequences = SequenceQLearningLoss(
        acts, config.double, config.burn_in, config.rescale_epsilon, config.max_error_share
    )
    return of_sequences, sequence_columns_of(acts)


def _draw_noise(num_factors: int, generator: np.random.Generator) -> Mapping[str, npt.NDArray[np.float32]]:
    names = (NOISE, TARGET_NOISE) if num_factors else ()
    return {name: draw_factors(generator, 1, num_factors) for name in names}


def _rows_at_once(config: QLearningConfig) -> int:
    """Return the rows of one environment in a rollout: n - 1 come again from before, and one is what came last."""
    return config.rollout_steps + config.n_step


def _check(context: RunContext[ReplayConfig], workers_at_once: int, rows: int) -> None:
    """Refuse settings that contradict each other.

    Args:
        context: of the run.
        workers_at_once: whose rollouts come to a shard at once.
        rows: that come of one environment then.
    """
    config = context.config
    refuse_processes(context)
    if config.final_importance_exponent is not None and context.total_env_steps is None:
        raise ConfigError(
            f"algo.final_importance_exponent: got {config.final_importance_exponent:g}, but nothing says when it is "
            "reached: set stop.env_steps, or algo.final_importance_exponent=null."
        )
    if isinstance(config, QLearningConfig) and not config.value_min < config.value_max:
        raise ConfigError(
            f"algo.value_min: got {config.value_min:g}, expected less than algo.value_max={config.value_max:g}."
        )
    if config.learning_starts > config.replay_steps:
        raise ConfigError(
            f"algo.learning_starts: got {config.learning_starts}, expected at most algo.replay_steps="
            f"{config.replay_steps}: so many are never there at a time."
        )
    num_envs = workers_at_once * context.environment.config.num_envs
    least = config.replay_shards * rows * num_envs
    if config.replay_steps < least:
        raise ConfigError(
            f"algo.replay_steps: got {config.replay_steps}, expected at least {least}: each of {config.replay_shards} "
            f"shards has to hold {rows} rows of {num_envs} environments at once."
        )
