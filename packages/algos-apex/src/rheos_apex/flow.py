"""The dataflows of DQN and Ape-X."""

from __future__ import annotations

from fractions import Fraction

from rheos import Report, Route, Stream, concurrently, round_robin
from rheos_apex.config import ApexConfig, DQNConfig
from rheos_apex.roles import ApexRoles, DQNRoles
from rheos_ops.n_step import estimate_priorities, n_step_rows
from rheos_ops.replay_learner import priorities_of
from rheos_ops.roles import Learner, Replay, Worker
from rheos_ops.sources import newest_weights, published_weights, replays, rollouts
from rheos_ops.stages import concat, every_steps, report, report_rollout, report_rollout_of

__all__ = ["apex", "dqn"]


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
    workers, shards, newest = roles.workers, roles.shards, newest_weights(roles.learner)
    rows = rollouts(workers, newest).map(n_step_rows(n_step=cfg.n_step, discount=cfg.discount))
    if cfg.prioritized:
        rows = rows.map(estimate_priorities)
    greediest = workers[: max(len(workers) // 3, 1)]
    act = (
        rows.gather_async(in_flight=cfg.rollouts_in_flight)
        .tell(shards, Replay.add)
        .tell(workers, Worker.load, message=every_steps(cfg.weight_sync_steps, newest), route=Route.SOURCE)
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
