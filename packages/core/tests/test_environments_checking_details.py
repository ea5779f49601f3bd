"""check_environment: what it must not take for a problem, and what it must not overlook."""

from __future__ import annotations

import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rheos.environments.checking import check_environment
from rheos.environments.findings import Verdict
from rheos.environments.native import AutoresetMode
from rheos.testing.environments import CountingEnv, CountingVectorEnv, SoundEnv


class Masked(SoundEnv):
    observation_space = spaces.Dict(place=SoundEnv.observation_space, action_mask=spaces.MultiBinary(2))

    def step(self, action):
        assert action == 1, "not allowed"
        return super().step(action)

    def observe(self):
        return {"place": super().observe(), "action_mask": np.array([0, 1], np.int8)}


class Exits(SoundEnv):
    def step(self, action):
        sys.exit(3)


class NoSpace(SoundEnv):
    observation_space = None


class Wide(SoundEnv):
    def observe(self):
        return super().observe().astype(np.float64)


class DrawsWhenMade(SoundEnv):
    def __init__(self):
        self.shift = np.random.default_rng().uniform(-0.4, 0.4)

    def observe(self):
        return (super().observe() * 0.5 + self.shift).astype(np.float32)


class SeedsItself(SoundEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=7 if seed is None else seed)


class NoSuchThing:
    pass


def found(make, make_vector=None, seconds=0.2):
    return {finding.check: finding for finding in check_environment(make, make_vector, seconds=seconds)}


def test_only_what_the_mask_allows_is_drawn():
    assert {Verdict.OK} == {finding.verdict for finding in found(Masked).values()}


@pytest.mark.parametrize(
    ("make", "check", "message"),
    [
        (Exits, "steps", "step 1 raised SystemExit: 3 (test_environments_checking_details.py:"),
        (NoSpace, "spaces", "observation_space is None, expected a space of Gymnasium"),
        (NoSuchThing, "made", "got a NoSuchThing, expected a gymnasium.Env"),
    ],
)
def test_a_problem_says_what_and_where(make, check, message):
    finding = found(make)[check]

    assert Verdict.PROBLEM == finding.verdict
    assert message in finding.message


@pytest.mark.parametrize(
    ("make", "check", "message"),
    [
        (Wide, "types", "observation is float64, its space float32"),
        (DrawsWhenMade, "seeds", "a second environment, made alike, gave something else in reset"),
        (SeedsItself, "seeds", "every reset without a seed starts the same episode"),
    ],
)
def test_what_only_a_second_look_shows_is_a_warning(make, check, message):
    finding = found(make)[check]

    assert Verdict.WARNING == finding.verdict
    assert message in finding.message


def test_an_end_that_is_declared_but_far_away_is_no_warning():
    env = CountingEnv(10**9)
    env.spec = gym.envs.registration.EnvSpec("Far-v0", max_episode_steps=10**8)

    assert Verdict.OK == found(lambda: env)["episodes"].verdict


def test_choices_of_several_values_are_drawn_for_vector_environments():
    class Choices(CountingVectorEnv):
        def __init__(self, num_envs):
            super().__init__([3] * num_envs, AutoresetMode.SAME_STEP)
            self.single_action_space = spaces.MultiDiscrete([2, 3])
            self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)

    assert Verdict.OK == found(SoundEnv, Choices)["vector steps"].verdict


def test_resetting_in_the_same_step_while_declaring_the_next_one_is_a_problem():
    class Misdeclared(CountingVectorEnv):
        def __init__(self, num_envs):
            super().__init__([3] * num_envs, AutoresetMode.SAME_STEP)
            self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP.value}

    finding = found(SoundEnv, Misdeclared)["autoreset"]

    assert Verdict.PROBLEM == finding.verdict
    assert "step 3: says AutoresetMode.NEXT_STEP, but gives final_obs" in finding.message


def test_an_environment_that_exists_only_as_many_is_checked_as_many():
    findings = found(None, lambda num: CountingVectorEnv([3] * num, AutoresetMode.SAME_STEP))

    assert {"vector steps": Verdict.OK} == {check: finding.verdict for check, finding in findings.items()}
