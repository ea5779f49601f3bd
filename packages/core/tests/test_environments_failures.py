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


class PanicError(BaseException):
    """As extensions in Rust raise it: no Exception."""


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
        (SystemExit("bye"), "SystemExit: bye"),
        (SystemExit(0), "SystemExit: 0"),
        (GeneratorExit(), "GeneratorExit"),
        (PanicError("index out of bounds"), "PanicError: index out of bounds"),
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


def run_and_close(environments):
    run(environments, 1)
    environments.close()


class EndingVectorEnv(CountingVectorEnv):
    """Raises `error` in the method `where`."""

    def __init__(self, error, where):
        super().__init__([9, 9], AutoresetMode.NEXT_STEP)

        def end(*_args, **_kwargs):
            raise error

        setattr(self, where, end)


@pytest.mark.parametrize("where", ["reset", "step", "close"])
def test_a_vector_environment_that_exits_has_failed(where):
    environments = NativeEnvironments(EndingVectorEnv(SystemExit("bye"), where), seed=0, worker="rollout-1")

    with pytest.raises(EnvironmentFailed, match=r"^rollout-1, (reset|step 1): SystemExit: bye$"):
        run_and_close(environments)


@pytest.mark.parametrize("where", ["reset", "step", "close"])
def test_an_environment_that_exits_has_failed(where):
    env = CountingEnv()
    setattr(env, where, EndingVectorEnv(SystemExit("bye"), where).__dict__[where])
    environments = serial(env)

    with pytest.raises(EnvironmentFailed, match=r"^rollout-1(, environment 0)?, (reset|step 1): SystemExit: bye$"):
        run_and_close(environments)


@pytest.mark.parametrize("where", ["reset", "step", "close"])
def test_ctrl_c_is_not_the_environments_failure(where):
    vector = EndingVectorEnv(KeyboardInterrupt(), where)
    env = CountingEnv()
    setattr(env, where, vector.__dict__[where])

    for environments in (serial(env), NativeEnvironments(vector, seed=0, worker="rollout-1")):
        with pytest.raises(KeyboardInterrupt):
            run_and_close(environments)


class Gives(CountingEnv):
    """Its observations are those of a list, in turn: the first when it is reset."""

    def __init__(self, space, *observations, **settings):
        super().__init__(**settings)
        self.observation_space = space
        self._given = iter(observations)

    def _observation(self):
        return next(self._given)


BYTES = spaces.Box(0, 255, (2,), np.uint8)
FITTING, FLOATS, WIDE = np.array([1, 2], np.uint8), np.array([0.7, 300.2]), np.array([1, 300], np.uint16)
BENT = {
    "floats for bytes": (BYTES, FITTING, FLOATS, "TypeError: the observation has dtype float64, its space uint8"),
    "wide integers": (BYTES, FITTING, WIDE, "OverflowError: the observation holds 1 to 300, .* only 0 to 255"),
    "a list": (BYTES, FITTING, [0.7, 300.2], "TypeError: the observation has dtype float64"),
    "negative integers": (BYTES, FITTING, np.array([-1, 2], np.int16), "TypeError: the observation has dtype int16"),
    "a fraction": (spaces.Discrete(3), 1, 1.5, "TypeError: the observation has dtype float64, its space int64"),
    "in a dict": (
        spaces.Dict(camera=BYTES, speed=spaces.Box(-1, 1, ())),
        {"camera": FITTING, "speed": np.float32(0)},
        {"camera": WIDE, "speed": np.float32(0)},
        r"OverflowError: the observation\['camera'\] holds 1 to 300",
    ),
}


@pytest.mark.parametrize("case", BENT.values(), ids=BENT)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_observation_that_its_spaces_dtype_cannot_hold_is_no_smaller_number(case, at):
    space, fitting, bent, message = case
    observations = [fitting] * at + [bent]

    with pytest.raises(EnvironmentFailed, match=f"environment 1, {f'step {at}' if at else 'reset'}: {message}"):
        run(serial(Gives(space, *[fitting] * 3), Gives(space, *observations)), 2)


def test_the_last_observation_of_an_episode_is_looked_at_too():
    environments = serial(Gives(BYTES, FITTING, WIDE, FITTING, time_limit=1))

    with pytest.raises(EnvironmentFailed, match="environment 0, step 1: OverflowError: the observation holds 1 to 300"):
        run(environments, 1)


def test_a_last_observation_that_a_vector_environment_gives_is_looked_at_too():
    class Wide(CountingVectorEnv):
        def step(self, actions):
            *rest, info = super().step(actions)
            info["final_obs"] = np.array([np.array([300], np.uint16), None], object)
            return *rest, info

        def _observations(self):
            return super()._observations().astype(np.uint8)

    env = Wide([1, 9], AutoresetMode.SAME_STEP)
    env.single_observation_space = spaces.Box(0, 255, (1,), np.uint8)

    with pytest.raises(EnvironmentFailed, match="step 1: OverflowError: the observation holds 300 to 300"):
        run(NativeEnvironments(env, seed=0, worker="rollout-1"), 1)


@pytest.mark.parametrize(
    ("space", "given"),
    [
        (BYTES, np.array([1, 255], np.uint16)),
        (spaces.Box(-1, 1, (2,)), np.array([0.5, -0.5])),
        (spaces.Box(-1, 1, (2,)), [0.5, -0.5]),
        (spaces.Box(-9, 9, (2,)), np.array([3, -3])),
        (spaces.Box(-9, 9, (0,), np.int8), np.array([], np.int16)),
        (spaces.MultiBinary(2), np.array([1, 0])),
        (spaces.Discrete(3, start=5), 7),
    ],
)
def test_an_observation_of_another_dtype_whose_values_fit_is_taken(space, given):
    environments = serial(Gives(space, *[given] * 3))
    environments.reset()

    steps = [environments.step(np.zeros(1, np.int64)) for _ in range(2)]

    for step in steps:
        assert space.dtype == step.observations.dtype
        np.testing.assert_array_equal(np.asarray(given, space.dtype), step.observations[0])


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
