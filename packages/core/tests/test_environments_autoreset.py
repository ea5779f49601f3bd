"""However a vector environment resets itself, what comes out is one story."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rheos.environments.native import AutoresetMode, NativeEnvironments
from rheos.environments.serial import SerialEnvironments
from rheos.errors import ConfigError, EnvironmentFailed
from rheos.testing.environments import CountingEnv, CountingVectorEnv

knows_modes = pytest.mark.skipif(not hasattr(gym.vector, "AutoresetMode"), reason="Gymnasium 1.0 knows one mode only")

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


def story(environments, steps):
    """Each step as (observation, reward, truncated, is_transition, final observations) of the first environment."""
    environments.reset()
    told = []
    for _ in range(steps):
        step = environments.step(np.zeros(environments.num_envs, np.int64))
        final = None if step.final_observations is None else step.final_observations.ravel().tolist()
        told.append(
            (
                step.observations[0].item(),
                step.rewards[0].item(),
                step.truncated[0].item(),
                step.is_transition[0].item(),
                final,
            )
        )
    return told


def native(mode, *time_limits, **settings):
    return NativeEnvironments(CountingVectorEnv(time_limits, mode, **settings), seed=0, worker="rollout-0")


def serial(*envs):
    return SerialEnvironments([lambda env=env: env for env in envs], seed=0, worker="rollout-0")


def test_in_next_step_mode_the_reset_is_no_transition():
    assert [
        (1, 1, False, True, None),
        (2, 1, True, True, None),
        (0, 0, False, False, None),
        (1, 1, False, True, None),
        (2, 1, True, True, None),
        (0, 0, False, False, None),
    ] == story(native(NEXT_STEP, 2), 6)


@pytest.mark.parametrize("mode", [SAME_STEP, DISABLED])
def test_in_the_other_modes_every_step_is_a_transition_and_the_last_observation_comes_beside(mode):
    assert [
        (1, 1, False, True, None),
        (0, 1, True, True, [2]),
        (1, 1, False, True, None),
        (0, 1, True, True, [2]),
    ] == story(native(mode, 2), 4)


def test_single_environments_tell_what_same_step_mode_tells():
    limits = (2, 3, 5)

    assert story(native(SAME_STEP, *limits), 20) == story(serial(*map(CountingEnv, limits)), 20)


@pytest.mark.parametrize("mode", [SAME_STEP, DISABLED])
def test_final_observations_are_those_of_the_environments_that_ended_in_their_order(mode):
    finals = [final for *_, final in story(native(mode, 4, 6, 3), 8)]

    assert [None, None, [3], [4], None, [6, 3], None, [4]] == finals


def test_termination_and_truncation_are_told_apart():
    by_limit, by_goal = native(SAME_STEP, 2), native(SAME_STEP, 2, terminates=True)
    for environments in (by_limit, by_goal):
        environments.reset()
        environments.step(np.zeros(1, np.int64))

    steps = [environments.step(np.zeros(1, np.int64)) for environments in (by_limit, by_goal)]

    assert [(False, True), (True, False)] == [(step.terminated.item(), step.truncated.item()) for step in steps]


def test_what_a_reset_step_claims_is_not_believed():
    class Careless(CountingVectorEnv):
        def step(self, actions):
            observations, _, terminated, truncated, info = super().step(actions)
            return observations, np.full(1, 9.0), terminated, truncated | (observations[:, 0] == 0), info

    environments = NativeEnvironments(Careless([2], NEXT_STEP), seed=0, worker="rollout-0")

    assert [
        (1, 9, False, True, None),
        (2, 9, True, True, None),
        (0, 0, False, False, None),
        (1, 9, False, True, None),
    ] == story(environments, 4)


def test_rewards_of_any_type_are_float32():
    for reward in (1, np.float64(1), np.int64(1), True):
        environments = serial(CountingEnv(reward=reward))
        environments.reset()

        step = environments.step(np.zeros(1, np.int64))

        assert np.float32 == step.rewards.dtype
        assert [1.0] == step.rewards.tolist()


@knows_modes
@pytest.mark.parametrize("mode", ["next_step", None, 3])
def test_a_vector_environment_that_does_not_say_how_it_resets_is_refused(mode):
    env = CountingVectorEnv([2], NEXT_STEP)
    env.metadata = {"autoreset_mode": mode}

    with pytest.raises(ConfigError, match=r"^env.vectorization: CountingVectorEnv has metadata\['autoreset_mode'\]"):
        NativeEnvironments(env, seed=0, worker="rollout-0")
    assert env.closed


@knows_modes
def test_gymnasiums_own_enum_is_understood():
    env = CountingVectorEnv([2], NEXT_STEP)
    env.metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    with pytest.raises(EnvironmentFailed, match=r"^rollout-0, step 2: an episode ended without info\['final_obs'\]"):
        story(NativeEnvironments(env, seed=0, worker="rollout-0"), 2)


def test_final_observations_may_come_as_one_array():
    class AsArray(CountingVectorEnv):
        def step(self, actions):
            *rest, info = super().step(actions)
            if info:
                info = {"final_obs": np.array([np.zeros(1) if row is None else row for row in info["final_obs"]])}
            return *rest, info

    environments = NativeEnvironments(AsArray([2, 5], SAME_STEP), seed=0, worker="rollout-0")

    assert [None, [2.0]] == [final for *_, final in story(environments, 2)]


@knows_modes
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_gymnasiums_sync_vector_environment_counts_the_same_episodes_in_every_mode(mode):
    limits = (2, 3)
    env = gym.vector.SyncVectorEnv(
        [lambda limit=limit: CountingEnv(limit) for limit in limits],
        autoreset_mode=gym.vector.AutoresetMode(mode.value),
    )
    environments = NativeEnvironments(env, seed=0, worker="rollout-0", one_seed_each=True)
    environments.reset()

    steps = [environments.step(np.zeros(2, np.int64)) for _ in range(24)]

    transitions = sum(step.is_transition.astype(int) for step in steps)
    ends = sum(step.truncated.astype(int) for step in steps)
    returns = sum(step.rewards for step in steps)
    resets_cost_a_step = mode is NEXT_STEP
    assert ([16, 18] if resets_cost_a_step else [24, 24]) == transitions.tolist() == returns.tolist()
    assert ([8, 6] if resets_cost_a_step else [12, 8]) == ends.tolist()
    environments.close()


def test_dict_observations_pass_through_with_their_last_ones():
    class Nested(CountingEnv):
        def __init__(self):
            super().__init__(time_limit=2)
            self.observation_space = spaces.Dict(n=spaces.Discrete(9), both=spaces.Tuple([spaces.Box(0, 9, (1,))]))

        def _observation(self):
            return {"n": self._count, "both": (np.array([self._count], np.float32),)}

    environments = serial(Nested(), Nested())
    environments.reset()
    environments.step(np.zeros(2, np.int64))

    step = environments.step(np.zeros(2, np.int64))

    np.testing.assert_array_equal([0, 0], step.observations["n"])
    np.testing.assert_array_equal([2, 2], step.final_observations["n"])
    np.testing.assert_array_equal([[2], [2]], step.final_observations["both"][0])


def test_an_environment_that_reuses_its_array_does_not_overwrite_its_last_observation():
    class Reusing(CountingEnv):
        array = np.zeros(1, np.float32)

        def _observation(self):
            self.array[0] = self._count
            return self.array

    environments = serial(Reusing(time_limit=2))
    environments.reset()

    steps = [environments.step(np.zeros(1, np.int64)) for _ in range(2)]

    assert [2.0] == steps[1].final_observations.ravel().tolist()
    assert [1.0] == steps[0].observations.ravel().tolist()


def test_every_environment_is_seeded_with_a_seed_of_its_own_and_not_again_after_an_episode():
    envs = [CountingEnv(time_limit=2) for _ in range(3)]
    environments = serial(*envs)

    story(environments, 4)

    first, *later = zip(*(env.seeds for env in envs), strict=True)
    assert 3 == len(set(first))
    assert [(None, None, None)] * 2 == later


def seeds_of(make, counts):
    """The seeds that the environments get in resets of these counts."""
    environments, env = make()
    for count in counts:
        environments.reset(count)
    return env.seeds


def a_vector():
    env = CountingVectorEnv([2, 2], DISABLED)
    return NativeEnvironments(env, seed=0, worker="rollout-0"), env


def a_vector_of_many_seeds():
    env = CountingVectorEnv([2, 2], DISABLED)
    return NativeEnvironments(env, seed=0, worker="rollout-0", one_seed_each=True), env


def one_alone():
    env = CountingEnv()
    return serial(env), env


@pytest.mark.parametrize("make", [a_vector, a_vector_of_many_seeds, one_alone])
def test_a_reset_is_seeded_by_how_many_were_before_and_by_nothing_else(make):
    zero, one, two = seeds_of(make, [0, 1, 2])

    assert zero != one != two != zero
    assert [two, zero] == seeds_of(make, [2, 0])


def test_a_vector_environment_is_seeded_once():
    env = CountingVectorEnv([2, 2], DISABLED)
    environments = NativeEnvironments(env, seed=0, worker="rollout-0")

    story(environments, 3)

    seed, *later = env.seeds
    assert isinstance(seed, int)
    assert [None] == later
