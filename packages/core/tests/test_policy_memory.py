"""Policies with a memory: a Policy remembers from call to call until it is told to forget, and a Player tells it."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from rheos.acting import Acting
from rheos.configuration.run_config import EnvironmentConfig
from rheos.errors import ShapeError
from rheos.plugins import load_registry
from rheos.runs.playing import Player
from rheos.runs.policy import Policy
from rheos.spaces import Spaces
from rheos.testing.environments import CountingEnv
from rheos.testing.policies import counting_policy, counting_weights, remembering_policy

NUMBER = np.zeros(1, np.float32)


def policy_of(spec):
    acting = Acting(spec, counting_weights().arrays, lambda: pytest.fail("no backend is needed"))
    env = CountingEnv()
    return Policy(spec, Spaces(env.observation_space, env.action_space), acting)


@pytest.fixture
def policy():
    """A policy that does 0, 1, 0, 1, ... from the beginning of an episode on."""
    return policy_of(remembering_policy())


def actions(policy, count, rows=None, **how):
    observation = NUMBER if rows is None else np.zeros((rows, 1), np.float32)
    return [np.asarray(policy.act(observation, **how)).tolist() for _ in range(count)]


@pytest.mark.parametrize("explore", [False, True])
def test_it_remembers_from_call_to_call_until_it_is_reset(policy, explore):
    before = actions(policy, 3, explore=explore)
    policy.reset()

    assert [0, 1, 0] == before
    assert [0, 1] == actions(policy, 2, explore=explore)


def test_rows_remember_each_their_own_and_those_that_ended_forget(policy):
    before = actions(policy, 1, rows=3)
    policy.reset(np.array([False, True, False]))

    assert [[0, 0, 0]] == before
    assert [[1, 0, 1], [0, 1, 0]] == actions(policy, 2, rows=3)


def test_rows_forget_that_ended_at_any_of_several_resets(policy):
    actions(policy, 1, rows=2)
    policy.reset([True, False])
    policy.reset([False, False])

    assert [[0, 1]] == actions(policy, 1, rows=2)


def test_another_number_of_observations_is_refused_until_it_is_reset(policy):
    actions(policy, 1, rows=3)

    with pytest.raises(ShapeError, match=r"got a batch of 2, and remembers a batch of 3: call Policy\.reset\(\)"):
        actions(policy, 1, rows=2)
    policy.reset()

    assert [[0, 0]] == actions(policy, 1, rows=2)


def test_a_mask_of_another_length_is_refused(policy):
    actions(policy, 1, rows=3)

    with pytest.raises(ShapeError, match=r"ended: got the shape \(2,\), expected \(3,\)"):
        policy.reset(np.zeros(2, np.bool_))


def test_before_the_first_observation_there_is_nothing_to_forget(policy):
    policy.reset(np.ones(3, np.bool_))

    assert [0] == actions(policy, 1)


def test_a_policy_without_a_memory_takes_any_number_and_has_nothing_to_forget():
    policy = policy_of(counting_policy())
    policy.reset()
    policy.reset(np.ones(5, np.bool_))

    acted = [actions(policy, 1, rows=rows, explore=True)[0] for rows in (3, 2)]

    assert [3, 2] == [len(each) for each in acted]
    assert {0, 1} >= {action for each in acted for action in each}


def test_what_exploit_gives_is_not_remembered(policy):
    columns = {"observations": NUMBER[None], "memory": np.array([[7.0]], np.float32), "is_first": np.array([False])}

    given = policy.exploit(columns)

    assert ([1], [[8.0]]) == (given["actions"].tolist(), given["memory"].tolist())
    assert [0] == actions(policy, 1)


@pytest.mark.parametrize("function", ["annotate", "value"])
def test_what_no_worker_does_with_a_memory_is_refused(function):
    with pytest.raises(ValueError, match=r"memory_size=1\): got annotate or value, which have no memory"):
        replace(remembering_policy(), **{function: counting_policy().exploit})


class Alternating(CountingEnv):
    """Rewards an action that is the parity of the step; episodes of 3 steps."""

    def __init__(self):
        super().__init__(time_limit=3)

    def step(self, action):
        is_right = int(action) == self._count % 2
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(is_right), terminated, truncated, info


@pytest.mark.parametrize("episodes", [1, 3, 20])
def test_who_plays_begins_each_group_of_episodes_without_a_memory(policy, episodes):
    gymnasium.register("Alternating-v0", Alternating)
    try:
        player = Player(EnvironmentConfig(id="Alternating-v0"), load_registry(), seed=0, name="play")

        played = [player.play(policy, range(episodes)) for _ in range(2)]
    finally:
        del gymnasium.registry["Alternating-v0"]

    assert [[3.0] * episodes] * 2 == [[each.episode_return for each in group] for group in played]
