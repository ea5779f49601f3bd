"""What an environment raises comes out with worker, environment, step and cause."""

from __future__ import annotations

import traceback

import numpy as np
import pytest
from gymnasium import spaces

from rheos.environments.native import AutoresetMode, NativeEnvironments
from rheos.environments.serial import SerialEnvironments
from rheos.errors import EnvironmentFailed
from rheos.testing.environments import CountingEnv, CountingVectorEnv, FailingEnv


def serial(*envs):
    return SerialEnvironments([lambda env=env: env for env in envs], seed=0, worker="rollout-1")


def run(environments, steps):
    environments.reset()
    for _ in range(steps):
        environments.step(np.zeros(environments.num_envs, np.int64))


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (KeyError("x"), "KeyError: 'x'"),
        (StopIteration(), "StopIteration"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_an_error_in_a_step_names_worker_environment_step_and_cause(error, cause):
    environments = serial(CountingEnv(), CountingEnv(), FailingEnv(error, at_step=5))

    with pytest.raises(EnvironmentFailed) as caught:
        run(environments, 9)

    assert f"rollout-1, environment 2, step 5: {cause}" == str(caught.value)
    assert error is caught.value.__cause__


def test_the_traceback_of_the_environment_is_shown():
    with pytest.raises(EnvironmentFailed) as caught:
        run(serial(FailingEnv(ZeroDivisionError("division by zero"), at_step=1)), 1)

    assert "raise self._error" in "".join(traceback.format_exception(caught.value))


def test_an_error_in_the_first_reset_is_one_in_reset():
    environments = serial(CountingEnv(), FailingEnv(OSError("no map"), at_reset=1))

    with pytest.raises(EnvironmentFailed, match=r"^rollout-1, environment 1, reset: OSError: no map$"):
        environments.reset()


def test_an_error_in_a_later_reset_names_the_step_that_it_belongs_to():
    environments = serial(FailingEnv(OSError("no map"), at_reset=2, time_limit=3))

    with pytest.raises(EnvironmentFailed, match=r"^rollout-1, environment 0, step 3: OSError: no map$"):
        run(environments, 9)


def test_ctrl_c_is_not_the_environments_failure():
    environments = serial(FailingEnv(KeyboardInterrupt(), at_step=1))

    with pytest.raises(KeyboardInterrupt):
        run(environments, 1)


@pytest.mark.parametrize("shape", [(1,), (2, 1), ()])
def test_an_observation_of_another_shape_than_the_spaces_is_not_broadcast(shape):
    env = CountingEnv(observation_space=spaces.Box(0, 9, shape))
    environments = serial(env)
    environments.reset()
    env.observation_space = spaces.Box(0, 9, (3,))  # what it gives from now on

    with pytest.raises(EnvironmentFailed, match=r"environment 0, step 1: ShapeError: the observation has shape \(3,\)"):
        environments.step(np.zeros(1, np.int64))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_an_error_of_a_vector_environment_names_worker_and_step(mode):
    class Failing(CountingVectorEnv):
        def step(self, actions):
            if self._counts[0] == 3:
                raise ValueError("bad state")
            return super().step(actions)

    environments = NativeEnvironments(Failing([9, 9], mode), seed=0, worker="rollout-1")

    with pytest.raises(EnvironmentFailed, match=r"^rollout-1, step 4: ValueError: bad state$") as caught:
        run(environments, 9)

    assert isinstance(caught.value.__cause__, ValueError)


def test_a_vector_environment_with_rewards_of_a_wrong_shape_is_named():
    class Wrong(CountingVectorEnv):
        def step(self, actions):
            observations, rewards, *rest = super().step(actions)
            return observations, rewards[:, None], *rest

    environments = NativeEnvironments(Wrong([9, 9], AutoresetMode.NEXT_STEP), seed=0, worker="rollout-1")

    with pytest.raises(EnvironmentFailed, match=r"^rollout-1, step 1: got the shapes rewards \(2, 1\), "):
        run(environments, 1)


def test_closing_closes_every_environment_though_one_fails_and_may_be_repeated():
    class Stuck(CountingEnv):
        def close(self):
            raise OSError("window is gone")

    envs = [CountingEnv(), Stuck(), CountingEnv()]
    environments = serial(*envs)

    with pytest.raises(EnvironmentFailed, match="OSError: window is gone"):
        environments.close()
    environments.close()

    assert [True, False, True] == [env.is_closed for env in envs]
