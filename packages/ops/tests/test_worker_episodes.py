"""RolloutWorker at the ends of episodes, in every way in which environments reset themselves.

The observation is the number of steps of the episode, and the policy values it as that number: so the value of what an
action led to is always one more, whatever ended, and however the environments reset themselves.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.batches import Episode
from rheos.environments.native import AutoresetMode
from rheos.testing.environments import CountingEnv, CountingVectorEnv
from rheos.testing.policies import counting_policy, counting_weights
from rheos_ops.advantages import generalized_advantages
from rheos_ops.stages import estimate_advantages

LIMITS = {2, 3, 7}
"""Of the environments of `worker_of_kind`."""


def column(batch, name):
    """A column of a worker with a single environment, as a list."""
    return batch[name][:, 0].tolist()


def test_the_step_in_which_an_environment_resets_itself_is_no_transition(worker_of):
    """Case 8."""
    worker = worker_of(CountingVectorEnv([2], AutoresetMode.NEXT_STEP), steps=4)

    batch = worker.rollout()

    assert [0, 1, 2, 0] == batch["observations"][:, 0, 0].tolist()
    assert [1, 1, 0, 1] == column(batch, "rewards")
    assert [False, True, False, False] == column(batch, "truncated")
    assert [True, True, False, True] == column(batch, "is_transition")
    assert (3, (Episode(2.0, 2),)) == (batch.info.env_steps, batch.info.episodes)


def test_a_truncated_episode_bootstraps_from_its_last_observation_and_not_from_the_first_of_the_next(worker_of):
    """Case 9."""
    worker = worker_of(CountingVectorEnv([2], AutoresetMode.SAME_STEP), steps=4)

    batch = worker.rollout()

    assert [0, 1, 0, 1] == batch["observations"][:, 0, 0].tolist()
    assert [1, 2, 1, 2] == column(batch, "next_values")
    assert (4, (Episode(2.0, 2),) * 2) == (batch.info.env_steps, batch.info.episodes)


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 21])
def test_the_next_value_is_that_of_what_the_action_led_to_in_every_mode_and_at_every_cut(worker_of_kind, steps):
    worker = worker_of_kind(steps=steps)

    for batch in [worker.rollout() for _ in range(8)]:
        real = batch["is_transition"]
        np.testing.assert_array_equal(batch["observations"][..., 0][real], batch["values"][real])
        np.testing.assert_array_equal(batch["observations"][..., 0][real] + 1, batch["next_values"][real])


def test_nothing_follows_after_a_terminal_state(worker_of_kind):
    worker = worker_of_kind(terminates=True, steps=21)

    batch = worker.rollout()

    assert batch["terminated"].any()
    assert not batch["truncated"].any()
    assert [0.0] == np.unique(batch["next_values"][batch["terminated"]]).tolist()


def test_an_episode_that_terminates_at_its_time_limit_has_terminated(worker_of):
    batch = worker_of(CountingEnv(2, terminal_step=2), steps=2).rollout()

    assert [1, 0] == column(batch, "next_values")


def test_environments_that_end_at_once_one_by_termination_and_one_by_time_keep_their_own_last_values(worker_of):
    batch = worker_of(CountingEnv(3), CountingEnv(99, terminal_step=3), CountingEnv(4), steps=6).rollout()

    np.testing.assert_array_equal([[1, 1, 1], [2, 2, 2], [3, 0, 3]], batch["next_values"][:3])


def test_every_way_to_reset_tells_the_same_episodes(worker_of_kind):
    worker = worker_of_kind(steps=6)

    episodes = [episode for _ in range(14) for episode in worker.rollout().info.episodes]

    assert {episode.length for episode in episodes} == LIMITS
    assert all(episode.length == episode.episode_return for episode in episodes)


def value_nothing_but_bias(xp, networks, columns):
    return {"values": xp.zeros_like(columns["observations"][:, 0]) + networks["bias"](columns["observations"])}


@pytest.mark.parametrize("steps", [40, 3])
def test_rewards_for_ever_under_a_time_limit_are_worth_a_hundred_at_discount_099(worker_of, steps):
    """Case 1: with V fitted to its own targets, truncation must give 1 / (1 - 0.99), not the 10 rewards until it."""
    bias = 0.0
    policy = replace(counting_policy(), value=value_nothing_but_bias)
    worker = worker_of(CountingEnv(10), CountingEnv(10), steps=steps, policy=policy)
    names = ("rewards", "values", "next_values", "terminated", "truncated")

    for _ in range(1200):
        worker.load(counting_weights(bias))
        batch = worker.rollout()
        bias += generalized_advantages(numpy_xp, *(batch[n] for n in names), discount=0.99, lambda_=0.95).mean()

    np.testing.assert_allclose(bias, 100.0, atol=0.1)  # a part of the way is left after so many rounds


def test_advantages_of_an_episode_do_not_see_the_next_one_and_yet_bootstrap(worker_of):
    """Case 3: two truncated episodes of ten steps in one fragment are worth what each is worth alone."""
    estimate = estimate_advantages(discount=0.9, lambda_=0.8)
    batch = estimate(worker_of(CountingEnv(10), steps=20).rollout())
    alone = estimate(worker_of(CountingEnv(10), steps=10).rollout())

    np.testing.assert_array_equal(alone["advantages"], batch["advantages"][:10])
    np.testing.assert_array_equal(alone["advantages"], batch["advantages"][10:])
    # of the last step: r + γ V(10) - V(9)
    np.testing.assert_allclose([1 + 0.9 * 10 - 9] * 2, batch["advantages"][[9, 19], 0], atol=1e-6)  # float32


def test_a_reward_in_the_last_step_of_a_fragment_is_kept_with_its_bootstrap(worker_of):
    """Case 5."""

    class AtTheEnd(CountingEnv):
        def step(self, action):
            observation, _, *others = super().step(action)
            return observation, 7.0 if self._count == 4 else 0.0, *others

    batch = estimate_advantages(discount=0.5, lambda_=1.0)(worker_of(AtTheEnd(99), steps=4).rollout())

    assert [0, 0, 0, 7] == column(batch, "rewards")
    assert 4.0 == batch["next_values"][-1, 0]
    np.testing.assert_allclose(7 + 0.5 * 4 - 3, batch["advantages"][-1, 0], atol=1e-6)  # float32


def test_last_observations_are_kept_also_where_the_environment_writes_over_them(worker_of):
    class InPlace(CountingEnv):
        def __init__(self):
            super().__init__(2)
            self._array = np.zeros(1, np.float32)

        def _observation(self):
            self._array[0] = self._count
            return self._array

    batch = worker_of(InPlace(), steps=4).rollout()

    assert [0, 1, 0, 1] == batch["observations"][:, 0, 0].tolist()
    assert [1, 2, 1, 2] == column(batch, "next_values")


def test_last_observations_of_a_dict_are_valued_as_they_were(worker_of):
    class Nested(CountingEnv):
        def __init__(self, time_limit):
            number = spaces.Box(0, np.inf, (1,))
            image = spaces.Box(0, 255, (2, 2), np.uint8)
            super().__init__(time_limit, observation_space=spaces.Dict(a=number, image=image))

        def _observation(self):
            return {"a": np.full(1, self._count, np.float32), "image": np.full((2, 2), 10 * self._count, np.uint8)}

    def value_both(xp, networks, columns):
        images = xp.astype(columns["observations.image"][:, 1, 1], xp.float32)
        return {"values": columns["observations"][:, 0] + images}

    policy = replace(counting_policy(), value=value_both)

    batch = worker_of(Nested(2), Nested(3), steps=4, policy=policy).rollout()

    np.testing.assert_array_equal([[11, 11], [22, 22], [11, 33], [22, 11]], batch["next_values"])


def test_observations_are_valued_all_at_once_and_only_truncated_ones_beside_them(worker_of):
    calls = []

    def value(xp, networks, columns):
        calls.append(columns["observations"][:, 0].tolist())
        return {"values": columns["observations"][:, 0]}

    policy = replace(counting_policy(), value=value)
    worker = worker_of(CountingEnv(3), CountingEnv(99, terminal_step=2), steps=4, policy=policy)

    worker.rollout()

    assert [[0, 0, 1, 1, 2, 0, 0, 1, 1, 0], [3]] == calls


@pytest.mark.parametrize(("limit", "value"), [("_VALUED_BYTES", 4500), ("_VALUED_ROWS", 3)])
def test_a_large_fragment_is_valued_in_parts_that_give_the_same(worker_of, monkeypatch, limit, value):
    sizes = []

    def value_first(xp, networks, columns):
        images = columns["observations"]
        sizes.append(len(images))
        return {"values": xp.astype(images[:, 0], xp.float32)}

    space = spaces.Box(0, 255, (1000,), np.uint8)
    policy = replace(counting_policy(), value=value_first)
    monkeypatch.setattr(f"rheos_ops.workers.{limit}", value)

    batch = worker_of(CountingEnv(99, observation_space=space), steps=9, policy=policy).rollout()

    assert [4, 4, 2] == sizes  # nine rows and what the last action led to, of 1000 bytes each
    assert list(range(9)) == column(batch, "values")
    assert list(range(1, 10)) == column(batch, "next_values")
