"""RolloutWorker: bad numbers and bad environments end a rollout, with worker, environment, step and field named."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rheos.environments.native import AutoresetMode
from rheos.errors import EnvironmentFailed
from rheos.testing.environments import CountingEnv, CountingVectorEnv, FailingEnv, FaultyEnv, FunctionEnvironment
from rheos.testing.policies import counting_policy

NAN, INF = float("nan"), float("inf")
BOUNDED = spaces.Box(-1.0, 99.0, (3,), np.float32)


def observed(*numbers):
    return {"observation": np.array(numbers, np.float32)}


def faulty(at_step, faults, space=BOUNDED, **settings):
    return FaultyEnv(at_step=at_step, faults=faults, observation_space=space, **settings)


def failure_of(worker, rollouts=1):
    """Return what ends one of the first rollouts."""
    batches = (worker.rollout() for _ in range(rollouts))
    with pytest.raises(EnvironmentFailed) as failed:
        list(batches)
    return failed.value


@pytest.mark.parametrize(
    ("faults", "what"),
    [
        ({"reward": NAN}, "reward is nan, expected a finite number"),
        ({"reward": np.float64(-INF)}, "reward is -inf, expected a finite number"),
        ({"reward": 1e300}, "reward is inf, expected a finite number"),  # more than float32 holds
        (observed(0, 0, NAN), "observation is nan at [2], expected a finite number"),
        (observed(INF, 0, 0), "observation is inf at [0], expected a finite number"),
        (observed(0, -INF, 0), "observation is -inf at [1], expected a finite number"),
        (observed(0, 100, 0), "observation is 100.0 at [1], expected a number from -1.0 to 99.0"),
        (observed(-2, 0, 0), "observation is -2.0 at [0], expected a number from -1.0 to 99.0"),
    ],
)
def test_a_bad_number_is_named_with_worker_environment_step_and_field(worker_of, faults, what):
    """Case 11: in one fragment of eight steps, and in the second of two short ones, whose steps count on."""
    for steps, rollouts in [(8, 1), (3, 2)]:
        worker = worker_of(faulty(99, {}), faulty(5, faults), steps=steps, index=3)

        failure = failure_of(worker, rollouts)

        assert str(failure).startswith(f"rollout-3, environment 1, step 5: {what}")


@pytest.mark.parametrize("at_step", [1, 4, 5, 8])
def test_the_first_and_the_last_step_of_a_fragment_are_looked_at_like_any_other(worker_of, at_step):
    for faults in ({"reward": NAN}, observed(NAN, 0, 0)):
        worker = worker_of(faulty(at_step, faults), steps=4)

        assert f"step {at_step}: " in str(failure_of(worker, rollouts=2))


def test_a_bad_number_of_the_first_reset_is_named_as_such(worker_of):
    worker = worker_of(faulty(0, observed(0, NAN, 0)))

    assert "rollout-0, environment 0, reset: observation is nan at [1]" in str(failure_of(worker))


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_bad_number_in_a_vector_environment_is_that_of_its_own_environment(worker_of, mode):
    class Faulty(CountingVectorEnv):
        steps = 0

        def step(self, actions):
            observations, *others = super().step(actions)
            self.steps += 1
            observations[2] = NAN if self.steps == 4 else observations[2]
            return observations, *others

    worker = worker_of(Faulty([3, 3, 9], mode), steps=8)

    assert "rollout-0, environment 2, step 4: observation is nan at [0]" in str(failure_of(worker))


@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_a_bad_number_in_the_last_observation_of_an_episode_is_found_though_no_action_follows(worker_of, ends):
    worker = worker_of(faulty(99, {}), faulty(3, {**observed(0, NAN, 0), ends: True}), steps=8)

    assert "environment 1, step 3: observation is nan at [1]" in str(failure_of(worker))


def test_the_earliest_of_several_bad_numbers_is_named(worker_of):
    worker = worker_of(
        faulty(6, observed(NAN, 0, 0)), faulty(5, {"reward": NAN}), faulty(7, observed(500, 0, 0)), steps=9
    )

    assert "environment 1, step 5: reward" in str(failure_of(worker))


def test_of_one_step_the_observation_is_named_before_the_reward_that_follows_from_it(worker_of):
    worker = worker_of(faulty(2, {"reward": NAN}), faulty(2, {**observed(NAN, 0, 0), "reward": NAN}))

    assert "environment 1, step 2: observation" in str(failure_of(worker))


class Nested(CountingEnv):
    """Observes a dict in which a number goes bad in the second step."""

    def __init__(self, **bad):
        parts = {
            "speed": spaces.Box(-1.0, 9.0, (3,)),
            "deep": spaces.Tuple([spaces.Box(-INF, INF, (2, 2)), spaces.Discrete(4, start=2)]),
            "modes": spaces.MultiDiscrete([2, 3]),
            "pixels": spaces.Box(0, 100, (2, 2), np.uint8),
        }
        super().__init__(observation_space=spaces.Dict(parts))
        self._bad = bad

    def _observation(self):
        good = {
            "speed": np.zeros(3, np.float32),
            "deep": (np.zeros((2, 2), np.float32), 2),
            "modes": np.array([1, 2]),
            "pixels": np.full((2, 2), 100, np.uint8),
        }
        return {**good, **self._bad} if self._count == 2 else good


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({"speed": np.array([0, 0, NAN], np.float32)}, "observation['speed'] is nan at [2], expected"),
        ({"speed": np.array([0, 10, 0], np.float32)}, "observation['speed'] is 10.0 at [1], expected"),
        ({"deep": (np.array([[0, 0], [INF, 0]], np.float32), 2)}, "observation['deep'][0] is inf at [1, 0], expected"),
        ({"deep": (np.zeros((2, 2), np.float32), 1)}, "observation['deep'][1] is 1, expected"),
        ({"deep": (np.zeros((2, 2), np.float32), 6)}, "observation['deep'][1] is 6, expected"),
        ({"modes": np.array([1, -1])}, "observation['modes'] is -1 at [1], expected"),
        ({"modes": np.array([2, 0])}, "observation['modes'] is 2 at [0], expected"),
        ({"pixels": np.array([[0, 0], [0, 101]], np.uint8)}, "observation['pixels'] is 101 at [1, 1], expected"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_field_of_a_nested_observation_is_named_by_its_path(worker_of, bad, what):
    policy = replace(counting_policy(), value=None)
    worker = worker_of(Nested(), Nested(**bad), policy=policy)

    assert f"rollout-0, environment 1, step 2: {what}" in str(failure_of(worker))


class Places(CountingEnv):
    """Observes the count of its steps as one of four values."""

    def __init__(self, time_limit, first=0):
        super().__init__(time_limit, observation_space=spaces.Discrete(4))
        self._first = first

    def _observation(self):
        return self._first + self._count


@pytest.mark.parametrize(
    ("envs", "where"),
    [
        ([Places(2), Places(9)], "environment 1, step 4"),
        ([Places(2), Places(1), Places(4)], "environment 2, step 4"),  # its last observation, which no action follows
        ([Places(2), Places(2, first=4)], "environment 1, reset"),
    ],
)
def test_a_value_that_its_space_has_not_is_named_wherever_it_comes(worker_of, envs, where):
    worker = worker_of(*envs, steps=6)

    assert f"rollout-0, {where}: observation is 4, expected an integer from 0 to 3" == str(failure_of(worker))


def test_bounds_are_not_looked_at_where_the_settings_say_so_and_bad_numbers_still_are(worker_in):
    def environment(*envs):
        made = FunctionEnvironment(iter(envs).__next__, len(envs))
        made.config = replace(made.config, check_bounds=False)
        return made

    batch = worker_in(environment(faulty(2, observed(500, 0, 0)))).rollout()
    failure = failure_of(worker_in(environment(faulty(2, observed(500, NAN, 0)))))

    assert 500 == batch["observations"][2, 0, 0]
    assert "step 2: observation is nan at [1]" in str(failure)


def test_the_settings_of_a_strange_environment_need_not_speak_of_bounds(worker_in):
    environment = FunctionEnvironment(lambda: faulty(2, observed(500, 0, 0)))
    environment.config = SimpleNamespace(num_envs=1)

    assert "step 2: observation is 500.0 at [0]" in str(failure_of(worker_in(environment)))


class Masked(CountingEnv):
    """Allows both actions, but none in a given step of an episode."""

    def __init__(self, forbids_at, time_limit=10, **settings):
        space = spaces.Dict(action_mask=spaces.MultiBinary(2), count=spaces.Box(0, 99, (1,)))
        super().__init__(time_limit, observation_space=space, **settings)
        self._forbids_at = forbids_at

    def _observation(self):
        allowed = self._count != self._forbids_at
        return {"action_mask": np.full(2, allowed, np.int8), "count": np.full(1, self._count, np.float32)}


@pytest.mark.parametrize("steps", [3, 4, 8])
def test_a_mask_that_allows_nothing_where_an_action_is_due_is_refused(worker_of, steps):
    worker = worker_of(Masked(99), Masked(3), steps=steps)

    failure = failure_of(worker, rollouts=3)

    assert "environment 1, step 3: observation['action_mask'] allows no action" in str(failure)


@pytest.mark.parametrize("terminal_step", [3, None])
def test_nothing_needs_to_be_allowed_once_an_episode_has_ended(worker_of, terminal_step):
    worker = worker_of(Masked(3, time_limit=3, terminal_step=terminal_step), steps=4)

    ended = [bool((batch["terminated"] | batch["truncated"]).any()) for batch in (worker.rollout(), worker.rollout())]

    assert [True, True] == ended


class MaskedVectorEnv(CountingVectorEnv):
    """Allows nothing when an episode has ended, and resets itself in the next step."""

    def __init__(self, time_limits):
        super().__init__(time_limits, AutoresetMode.NEXT_STEP)
        single = spaces.Dict(action_mask=spaces.MultiBinary(2), count=self.single_observation_space)
        self.single_observation_space = single
        self.observation_space = gym.vector.utils.batch_space(single, self.num_envs)

    def _observations(self):
        is_allowed = np.repeat(self._counts < self._limits, 2).reshape(-1, 2)
        return {"action_mask": is_allowed.astype(np.int8), "count": super()._observations()}


@pytest.mark.parametrize("steps", [2, 3, 7])
def test_nothing_needs_to_be_allowed_in_a_step_that_only_resets(worker_of, steps):
    worker = worker_of(MaskedVectorEnv([2, 3]), steps=steps)

    episodes = [episode for _ in range(6) for episode in worker.rollout().info.episodes]

    assert {2, 3} == {episode.length for episode in episodes}


def test_what_an_environment_raises_names_the_worker_environment_and_step(worker_of):
    """Case 31."""
    envs = [CountingEnv(), FailingEnv(ZeroDivisionError("division by zero"), at_step=5)]
    worker = worker_of(*envs, steps=3, index=3)

    failure = failure_of(worker, rollouts=2)

    assert "rollout-3, environment 1, step 5: ZeroDivisionError: division by zero" == str(failure)
    assert isinstance(failure.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(("at_reset", "where"), [(1, "environment 1, reset"), (2, "environment 1, step 2")])
def test_a_reset_that_raises_ends_the_rollout(worker_of, at_reset, where):
    """Case 32: never an empty fragment that looks like a good one."""
    worker = worker_of(CountingEnv(2), FailingEnv(OSError("no simulator"), at_reset=at_reset, time_limit=2))

    assert f"rollout-0, {where}: OSError: no simulator" == str(failure_of(worker))


class Picky(FaultyEnv):
    """Raises where it is told to do what is no number."""

    def step(self, action):
        if not np.isfinite(action).all():
            raise ValueError(f"cannot do {action}")
        return super().step(action)


def act_as_observed(xp, networks, columns):
    return {"actions": columns["observations"][:, :1]}


def test_a_bad_number_that_made_the_environment_raise_later_is_named_as_the_cause(worker_of):
    policy = replace(counting_policy(), explore=act_as_observed)
    env = Picky(
        at_step=2, faults=observed(NAN), observation_space=spaces.Box(-INF, INF, (1,)), action_space=spaces.Box(-9, 9)
    )

    failure = failure_of(worker_of(env, steps=8, policy=policy))

    assert "rollout-0, environment 0, step 2: observation is nan at [0], expected a finite number" == str(failure)
    assert "environment 0, step 3: ValueError: cannot do [nan]" in str(failure.__cause__)


def test_a_bad_number_that_made_the_policy_raise_is_named_as_the_cause(worker_of):
    def explore(xp, networks, columns):
        if np.isinf(columns["observations"]).any():
            raise OverflowError("too much")
        return {"actions": xp.astype(columns["noise"] < 0.5, xp.int32)}

    env = FaultyEnv(
        at_step=2,
        faults={"observation": np.array([1e300])},  # more than float32 holds
        observation_space=spaces.Box(-INF, INF, (1,), np.float64),
    )

    failure = failure_of(worker_of(env, policy=replace(counting_policy(), explore=explore)))

    assert "step 2: observation is inf at [0]" in str(failure)
    assert isinstance(failure.__cause__, OverflowError)


def test_what_the_policy_raises_on_good_numbers_is_left_as_it_is(worker_of):
    def explore(xp, networks, columns):
        raise OverflowError("too much")

    worker = worker_of(CountingEnv(), policy=replace(counting_policy(), explore=explore))

    with pytest.raises(OverflowError, match="too much"):
        worker.rollout()


def test_a_fragment_with_a_bad_number_counts_no_episode_and_is_not_valued(worker_of):
    def value(xp, networks, columns):
        raise AssertionError("asked for the value of what is no observation")

    worker = worker_of(
        faulty(5, {"reward": NAN}, time_limit=2), steps=8, policy=replace(counting_policy(), value=value)
    )

    assert "step 5: reward is nan" in str(failure_of(worker))
