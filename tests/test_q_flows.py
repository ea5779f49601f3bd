"""The meaning of the dataflows of DQN and Ape-X: in which order actors hear what, and how often."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from rheos import Actor, ActorGroup, Placement, concurrently, run
from rheos.configuration.run_config import BackendConfig, EnvironmentConfig
from rheos.environments.gym import GymEnvironment
from rheos.runs.context import RunContext
from rheos.testing.fakes import fake_group
from rheos_apex.config import ApexConfig, DQNConfig
from rheos_apex.flow import apex, dqn
from rheos_apex.roles import apex_roles, dqn_roles
from rheos_ops.replay.shard import ReplayShard

SMALL = {"hidden_sizes": (8,), "batch_size": 4, "rollout_steps": 4, "learning_starts": 8, "replay_steps": 200}


@pytest.fixture
def context():
    """Make the context of a run on CartPole."""

    def make(config, *, num_workers=1, num_envs=2):
        environment = GymEnvironment(EnvironmentConfig(id="CartPole-v1", num_envs=num_envs))
        return RunContext(config, environment, BackendConfig(), num_workers=num_workers, seed=0)

    return make


class SpyShard(ReplayShard):
    """A shard that remembers what it gave and was told."""

    def __init__(self, index, *, learning_starts=8, capacity=200):
        super().__init__(
            name=f"replay-{index}",
            seed=0,
            capacity=capacity,
            learning_starts=learning_starts,
            batch_size=4,
            priority_exponent=0.6,
            importance_exponent=0.4,
        )
        self.given, self.told, self.events, self.versions = [], [], [], []

    def add(self, batch):
        self.events.append("add")
        self.versions.append(batch.info.version_max)
        super().add(batch)

    def sample(self):
        batch = super().sample()
        self.events.append("sample" if hasattr(batch, "columns") else "not ready")
        if hasattr(batch, "columns"):
            self.given.append(batch["ids"])
        return batch

    def update_priorities(self, learned):
        self.told.append(learned)
        super().update_priorities(learned)


def updates_of(flow, count):
    """How many updates each of the first reports stands for: 0 is a rollout."""
    return [report.updates for report in islice(flow, count)]


@pytest.mark.parametrize(
    ("updates_per_step", "per_round"),
    [(0.375, [3, 3, 3, 3, 3]), (0.1, [0, 1, 1, 1, 1, 0, 1, 1, 1, 1]), (1.0, [8, 8, 8])],
)
def test_dqn_takes_exactly_as_many_updates_for_each_step(context, updates_per_step, per_round):
    config = DQNConfig(updates_per_step=updates_per_step, **SMALL)
    roles = replace(dqn_roles(context(config)), shards=fake_group("replay", [SpyShard(0, learning_starts=1)]))

    with run(dqn(roles, config)) as flow:
        updates = updates_of(flow, len(per_round) + sum(per_round))

    rounds = [[] for update in updates if update == 0]
    number = -1
    for update in updates:
        number += update == 0
        if update:
            rounds[number].append(update)
    assert per_round == [len(updates) for updates in rounds]


def test_dqn_owes_nothing_for_the_time_before_learning_starts(context):
    config = DQNConfig(updates_per_step=0.25, **SMALL)
    shard = SpyShard(0, learning_starts=25)
    roles = replace(dqn_roles(context(config)), shards=fake_group("replay", [shard]))

    with run(dqn(roles, config)) as flow:
        updates = updates_of(flow, 10)

    assert [0, 0, 0, 0, 1, 1, 0, 1, 1, 0] == updates  # the fourth round brings the 32nd transition
    assert ["add"] == [event for event in shard.events if event != "not ready"][:1]


@pytest.mark.parametrize(("updates_per_step", "behind"), [(0.25, [0]), (0.375, [0]), (0.3, [0, 1])])
def test_a_round_of_dqn_acts_with_what_was_learned_before_it(context, updates_per_step, behind):
    """Weights are published every so many updates; where a round has a broken number of them, one may come later."""
    config = DQNConfig(updates_per_step=updates_per_step, **SMALL)
    shard = SpyShard(0, learning_starts=1)
    roles = replace(dqn_roles(context(config)), shards=fake_group("replay", [shard]))

    with run(dqn(roles, config)) as flow:
        updates_of(flow, 40)

    learned = [shard.events[:place].count("sample") for place, event in enumerate(shard.events) if event == "add"]
    assert len(learned) > 5
    assert set(behind) >= {updates - acted for updates, acted in zip(learned, shard.versions, strict=True)}


def test_what_was_learned_goes_to_the_shard_that_the_batch_came_from(context):
    config = ApexConfig(**SMALL, updates_per_rollout=2)
    shards = [SpyShard(index) for index in range(2)]
    roles = replace(apex_roles(context(config)), shards=fake_group("replay", shards))

    with run(apex(roles, config)) as flow:
        updates_of(flow, 40)

    assert all(len(shard.told) >= 5 for shard in shards)
    for shard in shards:
        for ids, told in zip(shard.given, shard.told, strict=False):
            np.testing.assert_array_equal(ids, told.rows["ids"])
            assert told.weights is None
            assert not told.metrics


def test_rollouts_take_turns_between_the_shards(context):
    config = ApexConfig(**SMALL, updates_per_rollout=1)
    shards = [SpyShard(index) for index in range(3)]
    roles = replace(apex_roles(context(config)), shards=fake_group("replay", shards))

    with run(apex(roles, config)) as flow:
        updates_of(flow, 30)

    adds = [shard.events.count("add") for shard in shards]
    assert max(adds) - min(adds) <= 1


def test_apex_with_a_ratio_takes_exactly_as_many_updates_for_each_rollout(context):
    config = ApexConfig(**SMALL, updates_per_rollout=1.5)
    roles = replace(apex_roles(context(config)), shards=fake_group("replay", [SpyShard(0, learning_starts=1)]))

    with run(apex(roles, config)) as flow:
        updates = updates_of(flow, 3 + 10 * 5)

    assert updates[3:].count(1) == 30
    assert updates[3:].count(0) == 20


def test_apex_reports_the_episodes_of_the_workers_that_explore_least(context):
    config = ApexConfig(**SMALL, updates_per_rollout=1)
    roles = apex_roles(context(config, num_workers=4))

    with run(apex(roles, config)) as flow:
        reports = list(islice(flow, 400))

    rollouts = [report for report in reports if not report.updates]
    assert sum(report.env_steps for report in rollouts) > 1000
    assert sum(len(report.episodes) > 0 for report in rollouts) < sum(report.env_steps > 0 for report in rollouts) / 3
    assert any(report.episodes for report in rollouts)


def test_two_dqns_in_one_flow_share_no_clock_counter_or_target(context):
    made = {}

    def learner_of(name, roles):
        def make():
            made[name] = roles.learner.factory()
            return made[name]

        return Actor(f"{name}-learner", make)

    def part(name, **settings):
        config = DQNConfig(**SMALL, updates_per_step=0.25, **settings)
        roles = dqn_roles(context(config))
        renamed = replace(
            roles,
            workers=ActorGroup(f"{name}-rollout", 1, lambda _: roles.workers[0].factory()),
            shards=ActorGroup(f"{name}-replay", 1, lambda _: roles.shards[0].factory()),
            learner=learner_of(name, roles),
        )
        return dqn(renamed, config)

    with run(concurrently(part("often", target_update_every=2), part("never", target_update_every=10_000))) as flow:
        updates_of(flow, 60)
        often, never = (learner.state_dict() for learner in made.values())

    assert often["version"] > 8
    assert never["version"] > 8
    starts = made["never"]._backend  # their first weights are the same: both derive from the same name
    for name, start in starts.weights(made["never"]._targets).items():
        moved = not np.array_equal(start, often["targets"][name])
        assert moved
        np.testing.assert_array_equal(start, never["targets"][name])
        assert not np.array_equal(start, never["weights"][name])


@pytest.mark.slow
def test_on_ray_no_batch_of_apex_comes_to_the_driver(context, monkeypatch):
    """Batches of 4,096 transitions are above 100 KiB, so they stay where they are made unless someone reads them."""
    from rheos_ray.config import RayConfig
    from rheos_ray.executor import RayExecutor

    fetched = []
    monkeypatch.setattr("rheos_ray.messages.fetched", fetched.append)
    config = ApexConfig(**{**SMALL, "batch_size": 4_096})
    roles = apex_roles(context(config, num_workers=2))
    roles = replace(roles, learner=replace(roles.learner, placement=Placement.REMOTE))
    executor = RayExecutor(RayConfig(workers=2, address="local"))

    try:
        with run(apex(roles, config), executor) as flow:
            updates = sum(report.updates for report in islice(flow, 200))
    finally:
        executor.close()

    assert updates > 5
    assert [] == fetched
