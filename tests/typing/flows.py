"""The programs of DESIGN section 3, over small protocols: mypy --strict and pyright must accept every line.

Only the types matter here: what the operators do is in `rheos_ops` and in the algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, assert_type

from rheos import (
    Actor,
    ActorGroup,
    Batch,
    Flow,
    LearnerReport,
    NotReady,
    Published,
    Report,
    Route,
    ShardedStream,
    Stream,
    Weights,
    concurrently,
    from_actors,
    from_items,
    round_robin,
    run,
)

# roles


class Worker(Protocol):
    """Steps environments."""

    def rollout(self) -> Batch:
        """Return a fragment."""
        ...

    def gradients(self) -> Gradients:
        """Return gradients of a fragment of its own."""
        ...

    def load(self, weights: Weights) -> None:
        """Act with these weights."""
        ...


class Learner(Protocol):
    """Holds the weights."""

    def update(self, batch: Batch) -> LearnerReport:
        """Learn from a batch."""
        ...

    def apply_gradients(self, gradients: Gradients) -> LearnerReport:
        """Take a step."""
        ...

    def weights(self) -> Weights:
        """Return the weights."""
        ...


class ReplayShard(Protocol):
    """Keeps experience."""

    def add(self, batch: Batch) -> None:
        """Keep a batch."""
        ...

    def sample(self, size: int) -> Batch | NotReady:
        """Return a sample."""
        ...

    def update_priorities(self, learned: LearnerReport) -> None:
        """Take the new priorities."""
        ...


@dataclass(frozen=True)
class Gradients:
    """Gradients by name."""

    by_name: dict[str, Any]


@dataclass(frozen=True)
class Roles:
    """Every role that a program below reads."""

    workers: ActorGroup[Worker]
    shards: ActorGroup[ReplayShard]
    learner: Actor[Learner]
    second_learner: Actor[Learner]


@dataclass(frozen=True)
class Config:
    """Every setting that a program below reads."""

    rollouts_in_flight: int = 2
    samples_in_flight: int = 2
    batch_steps: int = 512
    weight_sync_steps: int = 400


# operators

Newest = Callable[[Any], Published[Weights]]


def newest_weights(learner: Actor[Learner]) -> Newest:
    """Return a message function."""
    return lambda _: Published(learner, Learner.weights)


def rollouts(workers: ActorGroup[Worker], newest: Newest) -> ShardedStream[Batch]:
    """Make a source."""
    return from_actors(workers, Worker.rollout, first=(Worker.load, newest))


def gradients(workers: ActorGroup[Worker], newest: Newest) -> ShardedStream[Gradients]:
    """Make a source."""
    return from_actors(workers, Worker.gradients, first=(Worker.load, newest))


def replays(shards: ActorGroup[ReplayShard], *, size: int) -> ShardedStream[Batch]:
    """Make a source."""
    return from_actors(shards, ReplayShard.sample, size)


def every_steps(steps: int, message: Newest) -> Callable[[Batch], Published[Weights] | None]:
    """Send a message only now and then."""
    return lambda batch: message(batch) if batch.info.env_steps >= steps else None


def estimate(batch: Batch) -> Batch:
    """Add a column."""
    return batch


def concat(batches: Sequence[Batch]) -> Batch:
    """Join batches."""
    return batches[0]


class Rebatch:
    """Collects batches."""

    def __call__(self, batch: Batch) -> Iterable[Batch]:
        """Take one."""
        return [batch]

    def finish(self) -> Iterable[Batch]:
        """Give what is left."""
        return []


def report(learned: LearnerReport) -> Report:
    """Report an update."""
    return Report(updates=learned.updates)


def report_rollout(batch: Batch) -> Report:
    """Report a rollout."""
    return Report(env_steps=batch.info.env_steps)


# programs


def ppo(roles: Roles, cfg: Config) -> Stream[Report]:
    """Synchronous PPO."""
    workers, learner, newest = roles.workers, roles.learner, newest_weights(roles.learner)
    return (
        rollouts(workers, newest)
        .map(estimate)
        .gather_sync()
        .map(concat)
        .ask(learner, Learner.update)
        .tell(workers, Worker.load, message=newest, route=Route.ALL)
        .map(report)
    )


def apex(roles: Roles, cfg: Config) -> Stream[Report]:
    """Ape-X."""
    workers, shards, learner, newest = roles.workers, roles.shards, roles.learner, newest_weights(roles.learner)
    act = (
        rollouts(workers, newest)
        .map(estimate)
        .gather_async(in_flight=cfg.rollouts_in_flight)
        .tell(shards, ReplayShard.add)
        .tell(workers, Worker.load, message=every_steps(cfg.weight_sync_steps, newest), route=Route.SOURCE)
        .map(report_rollout)
    )
    learn = (
        replays(shards, size=cfg.batch_steps)
        .gather_async(in_flight=cfg.samples_in_flight)
        .ask(learner, Learner.update, in_flight=2)
        .tell(shards, ReplayShard.update_priorities, route=Route.SOURCE)
        .map(report)
    )
    return concurrently(act, learn)


def impala(roles: Roles, cfg: Config) -> Stream[Report]:
    """IMPALA."""
    workers, learner, newest = roles.workers, roles.learner, newest_weights(roles.learner)
    return (
        rollouts(workers, newest)
        .gather_async(in_flight=cfg.rollouts_in_flight)
        .flat_map(Rebatch())
        .ask(learner, Learner.update, in_flight=2)
        .tell(workers, Worker.load, message=newest, route=Route.SOURCE)
        .map(report)
    )


def a3c(roles: Roles, cfg: Config) -> Stream[Report]:
    """A3C."""
    workers, learner, newest = roles.workers, roles.learner, newest_weights(roles.learner)
    return (
        gradients(workers, newest)
        .gather_async()
        .ask(learner, Learner.apply_gradients)
        .tell(workers, Worker.load, message=newest, route=Route.SOURCE)
        .map(report)
    )


def train_on(rounds: Stream[tuple[Batch, ...]], learner: Actor[Learner]) -> Stream[Report]:
    """Learn from rounds."""
    return rounds.map(concat).ask(learner, Learner.update).map(report)


def two_trainers(roles: Roles, cfg: Config) -> Stream[Report]:
    """PPO for some agents, DQN for the others, in one environment."""
    shards = roles.shards
    for_ppo, for_dqn = rollouts(roles.workers, newest_weights(roles.learner)).gather_sync().tee(2)
    store = for_dqn.map(concat).tell(shards, ReplayShard.add).drain()
    learn = replays(shards, size=cfg.batch_steps).gather_async().ask(roles.second_learner, Learner.update).map(report)
    return concurrently(train_on(for_ppo, roles.learner), round_robin(store, learn, weights=(1, 4)))


# what the types are


def inferred(roles: Roles) -> None:
    """Nothing is lost on the way."""
    assert_type(from_items([1, 2]).map(str), Stream[str])
    assert_type(from_items([1, 2]).filter(bool), Stream[int])
    assert_type(replays(roles.shards, size=1).gather_sync(), Stream[tuple[Batch, ...]])
    assert_type(from_actors(roles.shards, ReplayShard.sample, 1).gather_async(), Stream[Batch])
    assert_type(from_actors(roles.workers, Worker.rollout).map(report_rollout).gather_async(), Stream[Report])
    assert_type(from_items([Batch({})]).ask(roles.learner, Learner.update), Stream[LearnerReport])
    assert_type(from_items([Batch({})]).tell(roles.shards, ReplayShard.add), Stream[Batch])
    assert_type(from_items(["a"]).flat_map(lambda text: [len(text)]), Stream[int])
    assert_type(from_items([1]).through(lambda items: items.map(str)), Stream[str])
    assert_type(run(from_items([1])), Flow[int])
    assert_type(run(from_items([1])).next(timeout_s=1.0), int)
    assert_type(run(from_items([1])).ask(roles.learner, Learner.weights), Weights)
