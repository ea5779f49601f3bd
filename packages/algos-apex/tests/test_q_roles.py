"""What settings become where the actors of the family are described."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rheos import Batch
from rheos.errors import ConfigError
from rheos_apex.config import ApexConfig, DQNConfig, R2D2Config
from rheos_apex.roles import apex_roles, dqn_roles, r2d2_roles
from rheos_ops.sequences import sequences


def test_shards_share_what_there_is_room_for(context):
    config = ApexConfig(replay_shards=3, replay_steps=1_000, learning_starts=100)

    shards = apex_roles(context(config)).shards

    assert ["replay-0", "replay-1", "replay-2"] == [shard.name for shard in shards]
    assert "0 of 34 transitions" == shards[1].factory().sample().reason


def test_importance_goes_where_it_is_sent_by_the_end_of_the_run(context):
    config = DQNConfig(prioritized=True, final_importance_exponent=1.0, replay_shards=2)

    shard = dqn_roles(context(config, total_env_steps=1_000)).shards[0].factory()

    assert [0.4, 0.7, 1.0] == [pytest.approx(shard._importance(steps)) for steps in (0, 250, 500)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"final_importance_exponent": 1.0}, r"algo\.final_importance_exponent: got 1.*set stop\.env_steps"),
        ({"value_min": 3.0, "value_max": 3.0}, r"algo\.value_min: got 3, expected less than algo\.value_max=3"),
        ({"learning_starts": 11, "replay_steps": 10}, r"algo\.learning_starts: got 11, expected at most .*replay"),
    ],
    ids=["importance", "atoms", "starts"],
)
def test_settings_that_contradict_each_other_are_refused_before_anything_starts(context, settings, message):
    for config, roles in ((DQNConfig(**settings), dqn_roles), (ApexConfig(**settings), apex_roles)):
        with pytest.raises(ConfigError, match=message):
            roles(context(config))


def test_several_processes_of_one_learner_are_refused_before_anything_starts(context):
    for config, roles in ((DQNConfig(), dqn_roles), (ApexConfig(), apex_roles), (R2D2Config(), r2d2_roles)):
        of_one = context(config)
        with pytest.raises(ConfigError, match=r"backend\.processes: got 2, expected 1"):
            roles(replace(of_one, backend=replace(of_one.backend, processes=2)))


def test_replay_that_cannot_hold_what_comes_at_once_is_refused_before_anything_starts(context):
    """Of 2 workers with 2 environments each; a shard gets a round of all workers in DQN, and a rollout in Ape-X."""
    few = {"rollout_steps": 10, "n_step": 3, "learning_starts": 0, "replay_shards": 2}
    for config, roles, least in ((DQNConfig, dqn_roles, 52), (ApexConfig, apex_roles, 26)):
        roles(context(config(**few, replay_steps=2 * least), num_workers=2))
        with pytest.raises(ConfigError, match=rf"got {2 * least - 1}, expected at least {2 * least}: each of 2 shards"):
            roles(context(config(**few, replay_steps=2 * least - 1), num_workers=2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"final_importance_exponent": 1.0}, r"algo\.final_importance_exponent: got 1.*set stop\.env_steps"),
        ({"learning_starts": 20_000}, r"algo\.learning_starts: got 20000, expected at most algo\.replay_steps=10000"),
        ({"replay_steps": 33, "learning_starts": 0}, r"algo\.replay_steps: got 33, expected at least 34.*17 rows of 2"),
    ],
    ids=["importance", "starts", "room"],
)
def test_settings_of_r2d2_that_contradict_each_other_are_refused_too(context, settings, message):
    with pytest.raises(ConfigError, match=message):
        r2d2_roles(context(R2D2Config(**settings)))


def test_a_rollout_of_episodes_of_one_step_fits_into_the_least_replay_of_r2d2(context):
    """Each step of each environment is a sequence then, beside the one that waited for the step behind it."""
    config = R2D2Config(rollout_steps=16, burn_in=0, length=2, replay_steps=34, learning_starts=0, batch_size=4)
    roles = r2d2_roles(context(config))
    shard, stage = roles.shards[0].factory(), sequences(burn_in=0, length=2, n_step=1, discount=0.9)

    rows = [stage(fragment(num_steps, ends=ends)) for num_steps, ends in ((2, False), (16, True))]
    for batch in rows:
        shard.add(batch)

    assert [0, 34] == [len(batch["num_steps"]) for batch in rows]
    assert {"observations", "memory", "mask", "bootstraps", "ids", "weights"} <= shard.sample().columns.keys()
    assert not any(name.startswith("next_") for name in shard.sample().columns)


def fragment(num_steps, *, ends):
    """What a worker gives of two environments that begin with it, and never end, or that end after every step."""
    every = np.ones((num_steps, 2), bool)
    is_begin = np.arange(num_steps)[:, None] == 0
    numbers = np.zeros((num_steps, 2, 1), np.float32)
    columns = {"observations": numbers, "next_observations": numbers, "memory": numbers, "rewards": numbers[..., 0]}
    columns |= {"terminated": every & ends, "truncated": ~every, "is_transition": every, "actions": every.astype(int)}
    return Batch(columns | {"is_first": every & (is_begin != ends)}, axis=1)


def test_the_environments_of_apex_explore_each_in_its_own_way(context):
    config = ApexConfig(epsilon_base=0.4, epsilon_exponent=7.0)
    roles = apex_roles(context(config, num_workers=2, num_envs=2))

    epsilons = [worker.factory()._epsilons(0) for worker in roles.workers]

    wanted = [0.4 ** (1 + 7 * index / 3) for index in (3, 2, 1, 0)]
    np.testing.assert_allclose(np.concatenate(epsilons), wanted, rtol=1e-6)


def test_the_environments_of_dqn_explore_less_and_less_by_the_steps_of_all_workers(context):
    config = DQNConfig(initial_epsilon=1.0, final_epsilon=0.2, exploration_steps=1000)
    worker = dqn_roles(context(config, num_workers=4)).workers[1].factory()

    assert [[1.0] * 2, [pytest.approx(0.6)] * 2, [pytest.approx(0.2)] * 2] == [
        worker._epsilons(steps).tolist() for steps in (0, 125, 10_000)
    ]
