"""What an environment gives in place of a transition is refused by the name of the field, however it is stepped."""

from __future__ import annotations

import multiprocessing
from functools import partial

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from rheos.environments.native import AutoresetMode, NativeEnvironments
from rheos.environments.processes import ProcessEnvironments
from rheos.environments.serial import SerialEnvironments
from rheos.errors import EnvironmentFailed
from rheos.testing.environments import CountingEnv, CountingVectorEnv

ZERO = np.zeros(1, np.float32)


class Steps(CountingEnv):
    """Gives `stepped` in its second step."""

    def __init__(self, stepped):
        super().__init__()
        self._stepped = stepped

    def step(self, action):
        good = super().step(action)
        return self._stepped if self._count == 2 else good


class Resets(CountingEnv):
    """Gives `started` in its second reset, at the end of an episode of two steps."""

    def __init__(self, started):
        super().__init__(time_limit=2)
        self._started = started

    def reset(self, *, seed=None, options=None):
        good = super().reset(seed=seed, options=options)
        return self._started if len(self.seeds) == 2 else good


def serial(*envs):
    return SerialEnvironments([lambda env=env: env for env in envs], seed=0, worker="rollout-1")


def in_processes(*envs):
    processes = ProcessEnvironments([partial(_identity, env) for env in envs])
    return NativeEnvironments(processes, seed=0, worker="rollout-1", one_seed_each=True)


def _identity(env):
    return env


def run(environments, steps=3):
    try:
        environments.reset()
        return [environments.step(np.zeros(environments.num_envs, np.int64)) for _ in range(steps)]
    finally:
        environments.close()
        assert [] == multiprocessing.active_children()


BAD_STEPS = {
    "four values": ((ZERO, 1.0, False, {}), "step() gave 4 values, expected 5: observation, reward, terminated, "),
    "six values": ((ZERO, 1.0, False, False, {}, {}), "step() gave 6 values, expected 5: observation, reward, "),
    "nothing": (None, "step() gave a NoneType, expected 5 values: observation, reward, terminated, truncated, info"),
    "no reward": ((ZERO, None, False, False, {}), "reward is None (NoneType), expected a number"),
    "a text": ((ZERO, "1.0", False, False, {}), "reward is '1.0' (str), expected a number"),
    "two rewards": ((ZERO, np.zeros(2), False, False, {}), "reward is array([0., 0.]) (ndarray), expected a number"),
    "a dict": ((ZERO, {"x": 1.0}, False, False, {}), "reward is {'x': 1.0} (dict), expected a number"),
    "ragged": ((ZERO, [[1.0], [1.0, 2.0]], False, False, {}), "reward is [[1.0], [1.0, 2.0]] (list), expected a"),
    "complex": ((ZERO, 1j, False, False, {}), "reward is 1j (complex), expected a number"),
    "no flag": ((ZERO, 1.0, None, False, {}), "terminated is None (NoneType), expected True or False"),
    "a word": ((ZERO, 1.0, "no", False, {}), "terminated is 'no' (str), expected True or False"),
    "two": ((ZERO, 1.0, 2, False, {}), "terminated is 2, expected True or False"),
    "NaN": ((ZERO, 1.0, False, np.nan, {}), "truncated is nan, expected True or False"),
    "info in place of a flag": ((ZERO, 1.0, False, {}, {}), "truncated is {} (dict), expected True or False"),
}


@pytest.mark.parametrize("case", BAD_STEPS.values(), ids=BAD_STEPS)
def test_what_is_no_step_is_named(case):
    stepped, what = case

    with pytest.raises(EnvironmentFailed) as caught:
        run(serial(CountingEnv(), Steps(stepped)))

    assert str(caught.value).startswith(f"rollout-1, environment 1, step 2: TypeError: {what}")


@pytest.mark.parametrize("case", ["four values", "no reward", "a word"])
def test_what_is_no_step_is_named_by_an_environment_in_a_process_too(case):
    stepped, what = BAD_STEPS[case]

    with pytest.raises(EnvironmentFailed) as caught:
        run(in_processes(CountingEnv(), Steps(stepped)))

    assert str(caught.value).startswith(f"rollout-1, environment 1, step 2: TypeError: {what}")


@pytest.mark.parametrize("make", [serial, in_processes])
@pytest.mark.parametrize(
    ("started", "what"),
    [
        (np.zeros(1, np.float32), "reset() gave a ndarray, expected 2 values: observation, info"),
        ((ZERO,), "reset() gave 1 values, expected 2: observation, info"),
        ((ZERO, {}, {}), "reset() gave 3 values, expected 2: observation, info"),
    ],
    ids=["an observation", "too few", "too many"],
)
def test_what_is_no_reset_is_named(make, started, what):
    with pytest.raises(EnvironmentFailed) as caught:
        run(make(CountingEnv(), Resets(started)))

    assert f"rollout-1, environment 1, step 2: TypeError: {what}" == str(caught.value)


def test_a_reset_that_always_fails_is_told_at_once_by_its_own_words():
    class NeverStarts(CountingEnv):
        def reset(self, *, seed=None, options=None):
            raise ConnectionError("no simulator")

    for make in (serial, in_processes):
        with pytest.raises(
            EnvironmentFailed, match=r"^rollout-1, environment 1, reset: ConnectionError: no simulator$"
        ):
            run(make(CountingEnv(), NeverStarts()))


REWARDS = [1, True, 1.0, np.float64(1), np.float32(1), np.int8(1), np.ones(1), np.ones((1, 1)), [1.0]]


@pytest.mark.parametrize("make", [serial, in_processes])
def test_rewards_of_any_type_are_float32(make):
    for reward in REWARDS if make is serial else REWARDS[-3:]:
        _, step = run(make(Steps((ZERO, reward, False, False, {}))), 2)

        assert np.float32 == step.rewards.dtype
        assert [1.0] == step.rewards.tolist()


@pytest.mark.parametrize("flag", [True, 1, 1.0, np.True_, np.int64(1), np.array([True]), [True]], ids=repr)
def test_flags_of_any_type_are_bools(flag):
    _, step = run(serial(Steps((ZERO, 1.0, flag, not np.all(flag), {}))), 2)

    assert (np.bool_, np.bool_) == (step.terminated.dtype, step.truncated.dtype)
    assert [(True, False)] == [*zip(step.terminated, step.truncated, strict=True)]


class VectorSteps(CountingVectorEnv):
    """Bends what it gives in its second step."""

    def __init__(self, bend, mode=AutoresetMode.NEXT_STEP, limits=(9, 9), space=None):
        super().__init__(limits, mode)
        if space is not None:
            self.single_observation_space = space
            self.observation_space = batch_space(space, self.num_envs)
        self._bend, self._num_steps = bend, 0

    def step(self, actions):
        good = super().step(actions)
        self._num_steps += 1
        return self._bend(*good) if self._num_steps == 2 else good


BAD_VECTOR_STEPS = {
    "four values": (lambda o, r, te, tr, i: (o, r, te, i), "TypeError: step() gave 4 values, expected 5: observation"),
    "rewards of two axes": (
        lambda o, r, te, tr, i: (o, r[:, None], te, tr, i),
        "ShapeError: reward has shape (2, 1), expected (2,)",
    ),
    "one reward": (lambda o, r, te, tr, i: (o, 1.0, te, tr, i), "ShapeError: reward has shape (), expected (2,)"),
    "no rewards": (
        lambda o, r, te, tr, i: (o, [None, None], te, tr, i),
        "TypeError: reward has dtype object, expected numbers",
    ),
    "texts": (lambda o, r, te, tr, i: (o, ["1", "2"], te, tr, i), "TypeError: reward has dtype <U1, expected numbers"),
    "too few flags": (
        lambda o, r, te, tr, i: (o, r, te[:1], tr, i),
        "ShapeError: terminated has shape (1,), expected (2,)",
    ),
    "words": (
        lambda o, r, te, tr, i: (o, r, te, ["no", "no"], i),
        "TypeError: truncated has dtype <U2, expected bools",
    ),
    "twos": (
        lambda o, r, te, tr, i: (o, r, te, np.array([0, 2]), i),
        "TypeError: truncated is 2 in environment 1, expected True or False",
    ),
    "another shape": (
        lambda o, r, te, tr, i: (o[:, :, None], r, te, tr, i),
        "ShapeError: the observation has shape (2, 1, 1), its space (2, 1).",
    ),
    "of one environment": (
        lambda o, r, te, tr, i: (o[0], r, te, tr, i),
        "ShapeError: the observation has shape (1,), its space (2, 1).",
    ),
    "ragged": (
        lambda o, r, te, tr, i: ([[1.0], [1.0, 2.0]], r, te, tr, i),
        "ShapeError: the observation is no array of shape (2, 1): ",
    ),
    "another dtype": (
        lambda o, r, te, tr, i: (o.astype(str), r, te, tr, i),
        "TypeError: the observation has dtype <U32, its space float32, which cannot hold it",
    ),
}


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("case", BAD_VECTOR_STEPS.values(), ids=BAD_VECTOR_STEPS)
def test_what_is_no_step_of_a_vector_environment_is_named(case, mode):
    bend, what = case

    with pytest.raises(EnvironmentFailed) as caught:
        run(NativeEnvironments(VectorSteps(bend, mode), seed=0, worker="rollout-1"))

    assert str(caught.value).startswith(f"rollout-1, step 2: {what}")


def test_flags_of_a_vector_environment_may_be_integers():
    env = VectorSteps(lambda o, r, te, tr, i: (o, r.astype(np.int64), te.astype(np.int8), np.array([0.0, 1.0]), i))

    _, step = run(NativeEnvironments(env, seed=0, worker="rollout-1"), 2)

    assert (np.float32, np.bool_, np.bool_) == (step.rewards.dtype, step.terminated.dtype, step.truncated.dtype)
    assert [False, True] == step.truncated.tolist()


def test_bytes_of_a_vector_environment_are_not_wrapped():
    env = VectorSteps(
        lambda o, *rest: (np.full((2, 1), 300, np.uint16), *rest), space=spaces.Box(0, 255, (1,), np.uint8)
    )
    env._observations = lambda: np.zeros((2, 1), np.uint8)

    with pytest.raises(EnvironmentFailed, match=r"^rollout-1, step 2: OverflowError: the observation holds 300 to 300"):
        run(NativeEnvironments(env, seed=0, worker="rollout-1"))


@pytest.mark.parametrize("final", [np.zeros((2, 1, 1)), np.zeros((1, 1)), np.array([["a"], ["b"]])], ids=str)
def test_last_observations_that_come_as_one_array_are_looked_at_too(final):
    env = VectorSteps(lambda o, r, te, tr, i: (o, r, te, tr, {"final_obs": final}), AutoresetMode.SAME_STEP, (2, 9))

    with pytest.raises(EnvironmentFailed, match=r"^rollout-1, step 2: (Shape|Type)Error: the observation has "):
        run(NativeEnvironments(env, seed=0, worker="rollout-1"))


def test_what_a_vector_environment_is_reset_to_is_looked_at_too():
    env = CountingVectorEnv([2, 2], AutoresetMode.DISABLED)
    good = env.reset
    env.reset = lambda *, seed=None, options=None: good() if options is None else (np.zeros(2), {})

    with pytest.raises(EnvironmentFailed, match=r"^rollout-1, step 2: ShapeError: the observation has shape \(2,\)"):
        run(NativeEnvironments(env, seed=0, worker="rollout-1"))


@pytest.mark.parametrize("given", [{"x": ZERO}, ZERO, None, (ZERO, ZERO)], ids=["dict", "array", "None", "tuple"])
def test_a_leaf_that_an_observation_lacks_is_named(given):
    space = spaces.Dict(speed=spaces.Box(-1, 1, (1,)), x=spaces.Box(-1, 1, (1,)))
    env = Steps((given, 1.0, False, False, {}))
    env.observation_space = space
    env._observation = lambda: {"speed": ZERO, "x": ZERO}

    with pytest.raises(EnvironmentFailed) as caught:
        run(serial(env))

    kind = type(given).__name__
    assert (
        f"rollout-1, environment 0, step 2: TypeError: the observation is a {kind} without observation['speed']."
        == str(caught.value)
    )
