"""The dataflows of DQN, Ape-X and R2D2."""

from __future__ import annotations

from fractions import Fraction

from rheos import Batch, Report, Route, ShardedStream, Stream, concurrently, round_robin
from rheos_apex.config import ApexConfig, DQNConfig, PacedConfig, R2D2Config
from rheos_apex.roles import ApexRoles, DQNRoles
from rheos_ops.n_step import estimate_priorities, n_step_rows
from rheos_ops.replay_learner import priorities_of
from rheos_ops.roles import Learner, Replay, Worker
from rheos_ops.sequences import estimate_sequence_priorities, sequences
from rheos_ops.sources import newest_weights, published_weights, replays, rollouts
from rheos_ops.stages import concat, every_steps, report, report_rollout, report_rollout_of

__all__ = ["apex", "dqn", "r2d2"]


def dqn(roles: DQNRoles, cfg: DQNConfig) -> Stream[Report]:
    """Deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236): a rollout of each worker, then updates, exactly."""
    workers, shards, newest = roles.workers, roles.shards, newest_weights(roles.learner)
    act = (
        rollouts(workers, newest)
        .map(n_step_rows(n_step=cfg.n_step, discount=cfg.discount))
        .gather_sync()
        .map(concat)
        .tell(shards, Replay.add)
        .map(report_rollout)
    )
    learn = (
        replays(shards)
        .gather_async()
        .ask(roles.learner, Learner.update)
        .tell(shards, Replay.update_priorities, message=priorities_of, route=Route.SOURCE)
        .tell(workers, Worker.load, message=published_weights, route=Route.ALL)
        .map(report)
    )
    updates = Fraction(str(cfg.updates_per_step)) * roles.round_steps
    return round_robin(act, learn, weights=(1, updates))


def apex(roles: ApexRoles, cfg: ApexConfig) -> Stream[Report]:
    """Ape-X (Horgan et al. 2018, arXiv:1803.00933): act and learn, each at its own pace."""
    rows = rollouts(roles.workers, newest_weights(roles.learner)).map(
        n_step_rows(n_step=cfg.n_step, discount=cfg.discount)
    )
    return _act_and_learn(rows.map(estimate_priorities) if cfg.prioritized else rows, roles, cfg)


def r2d2(roles: ApexRoles, cfg: R2D2Config) -> Stream[Report]:
    """R2D2 (Kapturowski et al. 2019): Ape-X with a memory, which learns from sequences."""
    rows = rollouts(roles.workers, newest_weights(roles.learner)).map(
        sequences(burn_in=cfg.burn_in, length=cfg.length, n_step=cfg.n_step, discount=cfg.discount)
    )
    priorities = estimate_sequence_priorities(max_share=cfg.max_error_share, rescale_epsilon=cfg.rescale_epsilon)
    return _act_and_learn(rows.map(priorities) if cfg.prioritized else rows, roles, cfg)


def _act_and_learn(rows: ShardedStream[Batch], roles: ApexRoles, cfg: PacedConfig) -> Stream[Report]:
    """Keep the rows that workers make of their rollouts, and learn from what was kept."""
    workers, shards = roles.workers, roles.shards
    every_so_often = every_steps(cfg.weight_sync_steps, newest_weights(roles.learner))
    greediest = workers[: max(len(workers) // 3, 1)]
    act = (
        rows.gather_async(in_flight=cfg.rollouts_in_flight)
        .tell(shards, Replay.add)
        .tell(workers, Worker.load, message=every_so_often, route=Route.SOURCE)
        .map(report_rollout_of(greediest))
    )
    learn = (
        replays(shards)
        .gather_async(in_flight=cfg.samples_in_flight)
        .ask(roles.learner, Learner.update, in_flight=2)  # a slow learner holds replay back, never the workers
        .tell(shards, Replay.update_priorities, message=priorities_of, route=Route.SOURCE)
        .map(report)
    )
    if cfg.updates_per_rollout is None:
        return concurrently(act, learn)
    return round_robin(act, learn, weights=(1, Fraction(str(cfg.updates_per_rollout))))
