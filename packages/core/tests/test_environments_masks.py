"""Masks of allowed actions reach the observation of every environment that is registered with Gymnasium, checked."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rheos.configuration.run_config import EnvironmentConfig
from rheos.environments.gym import make_environment
from rheos.environments.masks import ActionMasks
from rheos.environments.native import NativeEnvironments
from rheos.environments.serial import SerialEnvironments
from rheos.errors import ConfigError, EnvironmentFailed
from rheos.testing.environments import CountingEnv

CART_POLES = "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv"


class Corridor(CountingEnv):
    """Its way back opens after the first step; says so in both ways."""

    def __init__(self, mask=None, action_space=None):
        super().__init__(time_limit=3, action_space=action_space)
        self._mask = mask

    def action_masks(self):
        return np.array([self._count > 0, True]) if self._mask is None else self._mask

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed, options=options)
        return observation, {"action_mask": self.action_masks()}

    def step(self, action):
        *rest, _ = super().step(action)
        return *rest, {"action_mask": self.action_masks()}


@pytest.fixture(autouse=True)
def registered():
    gym.register("Corridor-v0", entry_point=Corridor, vector_entry_point=CART_POLES)
    gym.register("OnlyTogether-v0", vector_entry_point=CART_POLES)
    yield
    del gym.registry["Corridor-v0"], gym.registry["OnlyTogether-v0"]


def describe(env_id="Corridor-v0", **settings):
    return make_environment(EnvironmentConfig(**{"id": env_id, "num_envs": 2, **settings}))


def serial(*envs):
    return SerialEnvironments([lambda env=env: env for env in envs], seed=0, worker="rollout-1")


@pytest.mark.parametrize("source", ["info", "method"])
@pytest.mark.parametrize(
    ("vectorization", "kind"),
    [("auto", SerialEnvironments), ("sync", SerialEnvironments), ("async", NativeEnvironments)],
)
def test_masks_are_read_of_single_environments_also_where_there_is_a_vector_entry_point(vectorization, kind, source):
    environment = describe(vectorization=vectorization, action_masks=source)
    environments = environment.make(0, "rollout-1")

    first = environments.reset()["action_mask"].tolist()
    second = environments.step(np.ones(2, np.int64)).observations["action_mask"].tolist()
    environments.close()

    assert isinstance(environments, kind)
    assert environment.spaces() == environments.spaces
    assert spaces.MultiBinary(2) == environments.spaces.observation["action_mask"]
    assert ([[0, 1], [0, 1]], [[1, 1], [1, 1]]) == (first, second)


def test_without_the_setting_nothing_is_masked_and_auto_steps_all_at_once():
    environments = describe().make(0, "rollout-1")
    environments.close()

    assert isinstance(environments, NativeEnvironments)
    assert isinstance(environments.spaces.observation, spaces.Box)


def test_a_vector_entry_point_that_was_asked_for_is_refused_since_it_has_no_masks():
    with pytest.raises(ConfigError, match=r"^env\.action_masks: got 'info', .* Choose env\.vectorization=auto, sync"):
        describe(vectorization="vector_entry_point", action_masks="info")


@pytest.mark.parametrize("vectorization", ["auto", "sync", "async"])
def test_an_environment_with_a_vector_entry_point_only_is_refused_since_it_has_no_masks(vectorization):
    with pytest.raises(ConfigError, match=r"^env\.action_masks: got 'info', .* 'OnlyTogether-v0' has a vector entry"):
        describe("OnlyTogether-v0", vectorization=vectorization, action_masks="info")


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_an_environment_without_the_method_is_refused_before_it_is_stepped(vectorization):
    with pytest.raises(ConfigError, match=r"^env\.action_masks: got 'method', but .* no method action_masks\(\)"):
        describe("CartPole-v1", vectorization=vectorization, action_masks="method").spaces()
    with pytest.raises(ConfigError, match=r"^env\.action_masks: got 'method', but .* no method action_masks\(\)"):
        describe("CartPole-v1", vectorization=vectorization, action_masks="method").make(0, "rollout-1")


def test_the_method_may_be_that_of_a_wrapper_inside():
    class Masker(gym.Wrapper):
        def action_masks(self):
            return [True, False]

    wrapped = ActionMasks(gym.wrappers.TimeLimit(Masker(CountingEnv()), 5), "method")

    np.testing.assert_array_equal([1, 0], wrapped.reset()[0]["action_mask"])


@pytest.mark.parametrize(
    "mask",
    [
        np.array([1, 0, 0, 1, 1]),
        [1, 0, 0, 1, 1],
        np.array([1.0, 0.0, 0.0, 1.0, 1.0]),
        (np.array([1, 0], np.int8), np.array([0, 1, 1], np.int8)),
        [[True, False], [False, True, True]],
    ],
    ids=["an array", "a list", "floats", "an array each", "a list each"],
)
def test_masks_of_several_choices_come_together_or_one_by_one(mask):
    wrapped = ActionMasks(Corridor(mask, spaces.MultiDiscrete([2, 3])), "info")

    given = wrapped.reset()[0]["action_mask"]

    assert np.int8 == given.dtype
    np.testing.assert_array_equal([1, 0, 0, 1, 1], given)


@pytest.mark.parametrize("mask", [[2, 1], [-1, 1], [0.5, 1], [np.nan, 1]], ids=str)
def test_a_mask_of_something_else_than_0_and_1_is_named(mask):
    environments = serial(Corridor(), ActionMasks(Corridor(mask), "info"))

    with pytest.raises(
        EnvironmentFailed, match=r"^rollout-1, environment 1, reset: ValueError: the action mask is \[.*, expected 0"
    ):
        environments.reset()


def test_a_mask_that_stops_to_come_is_named_with_environment_and_step():
    class Forgets(Corridor):
        def step(self, action):
            *rest, info = super().step(action)
            return *rest, info if self._count < 2 else {}

    environments = serial(*(ActionMasks(env, "info") for env in (Corridor(), Forgets())))
    environments.reset()
    environments.step(np.ones(2, np.int64))

    with pytest.raises(EnvironmentFailed) as caught:
        environments.step(np.ones(2, np.int64))

    what = "ValueError: info has no 'action_mask', which env.action_masks=info reads"
    assert f"rollout-1, environment 1, step 2: {what}" == str(caught.value)


@pytest.mark.parametrize("source", ["info", "method"])
def test_the_last_observation_of_an_episode_has_the_mask_of_its_own_state(source):
    class Closes(Corridor):
        def action_masks(self):
            return np.array([self._count < 3, True])

    environments = serial(ActionMasks(Closes(), source))
    environments.reset()

    steps = [environments.step(np.ones(1, np.int64)) for _ in range(3)]

    np.testing.assert_array_equal([[0, 1]], steps[-1].final_observations["action_mask"])
    np.testing.assert_array_equal([[3]], steps[-1].final_observations["observation"])
    np.testing.assert_array_equal([[1, 1]], steps[-1].observations["action_mask"])


@pytest.mark.parametrize("actions", [spaces.Box(-1, 1, (3,)), spaces.MultiBinary(3)], ids=str)
def test_actions_of_which_none_can_be_masked_are_refused(actions):
    with pytest.raises(ConfigError, match=r"^env\.action_masks: got 'info', but actions are "):
        ActionMasks(Corridor(action_space=actions), "info")


@pytest.mark.parametrize("source", ["info", "method"])
@pytest.mark.parametrize("mask", [np.ones(3), np.ones((2, 2)), 1, []], ids=["three", "four", "one", "none"])
def test_a_mask_of_another_size_is_named_with_what_is_expected(source, mask):
    with pytest.raises(
        EnvironmentFailed, match=r"environment 0, reset: ValueError: the action mask has \d .*expected 2"
    ):
        serial(ActionMasks(Corridor(mask), source)).reset()


@pytest.mark.parametrize("source", ["info", "method"])
def test_what_is_no_step_of_a_masked_environment_is_named(source):
    class Old(Corridor):
        def step(self, action):
            return super().step(action)[1:]

    environments = serial(ActionMasks(Old(), source))
    environments.reset()

    with pytest.raises(EnvironmentFailed, match=r"environment 0, step 1: TypeError: step\(\) gave 4 values"):
        environments.step(np.ones(1, np.int64))


def test_an_environment_that_is_refused_is_closed():
    env = Corridor(action_space=spaces.Box(-1, 1))
    gym.register("Refused-v0", entry_point=lambda: env)

    with pytest.raises(ConfigError):
        describe("Refused-v0", action_masks="info").make(0, "rollout-1")

    del gym.registry["Refused-v0"]
    assert env.is_closed
