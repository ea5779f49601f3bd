"""check_environment: one broken environment for each check, and sound ones that pass."""

from __future__ import annotations

import random
import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rheos.environments.checking import Verdict, check_environment
from rheos.environments.native import AutoresetMode
from rheos.testing.environments import CountingVectorEnv, SoundEnv

QUICK = 0.2
"""Seconds of stepping; hundreds of steps of the environments here."""


class NoInfo(SoundEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class FourValues(SoundEnv):
    def step(self, action):
        return super().step(action)[:4]


class NaNReward(SoundEnv):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float("nan") if self.count == 3 else 1.0, *rest


class TextReward(SoundEnv):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, "one", *rest


class TooFar(SoundEnv):
    def observe(self):
        return super().observe() + np.float32(5.0)


class OtherShape(SoundEnv):
    def observe(self):
        return np.zeros(3, np.float32)


class Raises(SoundEnv):
    def step(self, action):
        raise ZeroDivisionError("division by zero")


class RaisesAtTheBound(SoundEnv):
    action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)

    def step(self, action):
        if abs(action[0]) >= 2.0:
            raise ValueError("too hard")
        return super().step(action)


class Endless(SoundEnv):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, False, info


class Unseeded(SoundEnv):
    def observe(self):
        return np.array([random.uniform(-1, 1)] * 2, np.float32)


class AlwaysTheSame(SoundEnv):
    def observe(self):
        return np.zeros(2, np.float32)


class WritesOver(SoundEnv):
    def observe(self):
        if not hasattr(self, "buffer"):
            self.buffer = np.zeros(2, np.float32)
        self.buffer[:] = super().observe()
        return self.buffer


class TakesText(SoundEnv):
    action_space = spaces.Text(5)


class CannotClose(SoundEnv):
    def close(self):
        raise OSError("busy")


class CannotBeFilmed(SoundEnv):
    metadata = {"render_modes": ["human"]}  # noqa: RUF012


def cannot_be_made():
    raise ImportError("no simulator")


def found(make, make_vector=None):
    return {finding.check: finding for finding in check_environment(make, make_vector, seconds=QUICK)}


def test_a_sound_environment_has_no_findings_but_good_ones():
    assert {Verdict.OK} == {finding.verdict for finding in found(SoundEnv).values()}


@pytest.mark.parametrize(
    ("make", "check", "message"),
    [
        (cannot_be_made, "made", "ImportError: no simulator"),
        (TakesText, "spaces", r"action: got Text"),
        (NoInfo, "reset", r"reset\(\) gave"),
        (OtherShape, "reset", r"observation has shape \(3,\), its space \(2,\)"),
        (TooFar, "reset", "observation is .*, expected a number from -1.0 to 1.0"),
        (FourValues, "steps", r"step 1: step\(\) gave 4 values, expected 5"),
        (TextReward, "steps", "step 1: reward is 'one'"),
        (NaNReward, "steps", "step 3: reward is nan"),
        (Raises, "steps", "step 1 raised ZeroDivisionError: division by zero"),
        (RaisesAtTheBound, "actions", "ValueError: too hard"),
        (CannotClose, "close", "OSError: busy"),
    ],
)
def test_what_would_end_a_run_is_a_problem_that_says_where_and_what(make, check, message):
    finding = found(make)[check]

    assert Verdict.PROBLEM == finding.verdict
    assert re.search(message, finding.message), finding.message


@pytest.mark.parametrize(
    ("make", "check", "message"),
    [
        (Endless, "episodes", "none ended"),
        (Unseeded, "seeds", "the same seed and actions gave something else in reset"),
        (Unseeded, "randomness", "np.random or random"),
        (AlwaysTheSame, "seeds", "another seed gave the same episode"),
        (WritesOver, "copies", "written over"),
        (CannotBeFilmed, "rendering", "without rgb_array"),
    ],
)
def test_what_may_surprise_is_a_warning(make, check, message):
    finding = found(make)[check]

    assert Verdict.WARNING == finding.verdict
    assert message in finding.message


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", "MountainCar-v0"])
def test_gymnasiums_own_environments_have_no_problem(env_id):
    def make_vector(num_envs):
        return gym.make_vec(env_id, num_envs, vectorization_mode="vector_entry_point")

    has_vector = gym.spec(env_id).vector_entry_point is not None
    findings = found(lambda: gym.make(env_id), make_vector if has_vector else None)

    assert [] == [finding for finding in findings.values() if finding.verdict is Verdict.PROBLEM]
    assert has_vector == ("vector steps" in findings)


def test_a_vector_environment_that_does_not_say_when_it_resets_is_a_problem():
    class Silent(CountingVectorEnv):
        def __init__(self, num_envs):
            super().__init__([3] * num_envs, AutoresetMode.NEXT_STEP)
            self.metadata = {}

    finding = found(SoundEnv, Silent)["vector steps"]

    assert Verdict.PROBLEM == finding.verdict
    assert "autoreset_mode" in finding.message


def test_a_vector_environment_that_sees_something_else_than_one_alone_is_a_warning():
    finding = found(SoundEnv, lambda num: CountingVectorEnv([3] * num, AutoresetMode.SAME_STEP))["vector spaces"]

    assert Verdict.WARNING == finding.verdict
