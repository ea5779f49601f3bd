"""n_step_rows and estimate_priorities, beside a loop that keeps every step in lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos import Batch, BatchInfo
from rheos.errors import ShapeError
from rheos_ops.n_step import estimate_priorities, n_step_rows


class Steps:
    """Steps of some environments with random ends; what is observed is the number of the observation."""

    def __init__(self, num_envs, *, seed, has_reset_steps):
        self._generator = np.random.default_rng(seed)
        self._has_reset_steps = has_reset_steps
        self._at = [1000 * env for env in range(num_envs)]
        self._is_resetting = [False] * num_envs
        self.told = [[] for _ in range(num_envs)]
        """Of each environment: observation, reward, terminated, truncated and next observation of every transition."""

    def fragment(self, num_steps):
        rows = [[self._step(env) for env in range(len(self._at))] for _ in range(num_steps)]
        names = ("observations", "actions", "rewards", "terminated", "truncated", "is_transition", "next_observations")
        dtypes = (np.int64, np.int32, np.float32, bool, bool, bool, np.int64)
        columns = {
            name: np.array([[row[index] for row in step] for step in rows], dtype)
            for index, (name, dtype) in enumerate(zip(names, dtypes, strict=True))
        }
        return Batch(columns, BatchInfo(("rollout-0",)), axis=1)

    def _step(self, env):
        before = self._at[env]
        self._at[env] += 1
        if self._is_resetting[env]:
            self._is_resetting[env] = False
            return before, 0, 0.0, False, False, False, self._at[env]
        reward = float(self._generator.integers(1, 9))
        terminated, truncated = (self._generator.random(2) < 0.15).tolist()
        after = self._at[env]
        self.told[env].append((before, reward, terminated, truncated, after))
        if terminated or truncated:
            self._is_resetting[env] = self._has_reset_steps
            if not self._has_reset_steps:
                self._at[env] += 1  # the next observation is another one than the last
        return before, before % 7, reward, terminated, truncated, True, after


def expected(told, n_step, discount):
    """The transitions of one environment whose return is known: (observation, return, discount, k, what followed)."""
    found = []
    for begin in range(len(told)):
        total = 0.0
        for k, (_, reward, terminated, truncated, after) in enumerate(told[begin : begin + n_step], 1):
            total += discount ** (k - 1) * reward
            if terminated or truncated or k == n_step:
                found.append((told[begin][0], total, 0.0 if terminated else discount**k, k, after))
                break
    return found


def transitions_of(rows):
    return [
        (
            int(rows["observations"][row]),
            float(rows["rewards"][row]),
            float(rows["discounts"][row]),
            int(k),
            int(rows["observations"][row + k]),
        )
        for row, k in enumerate(rows["num_steps"])
        if k > 0
    ]


@given(
    n_step=st.integers(1, 6),
    num_envs=st.integers(1, 3),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=6),
    seed=st.integers(0, 2**16),
    has_reset_steps=st.booleans(),
)
def test_every_transition_is_given_once_with_its_return_and_what_followed(
    n_step, num_envs, lengths, seed, has_reset_steps
):
    steps, stage = Steps(num_envs, seed=seed, has_reset_steps=has_reset_steps), n_step_rows(n_step=n_step, discount=0.5)

    given_rows = [row for length in lengths for row in transitions_of(stage(steps.fragment(length)))]

    wanted = [row for told in steps.told for row in expected(told, n_step, 0.5)]
    assert sorted(wanted) == sorted(given_rows)  # sums of small integers and halves: exact in float32


def test_rows_go_from_environment_to_environment_and_share_their_observations():
    steps = Steps(2, seed=1, has_reset_steps=False)
    fragment = steps.fragment(3).with_columns(terminated=np.zeros((3, 2), bool), truncated=np.zeros((3, 2), bool))

    rows = n_step_rows(n_step=1, discount=0.9)(fragment)

    first, last = fragment["observations"], fragment["next_observations"][-1]
    assert [*first[:, 0], last[0], *first[:, 1], last[1]] == rows["observations"].tolist()
    assert [1, 1, 1, 0, 1, 1, 1, 0] == rows["num_steps"].tolist()
    assert rows.axis == 0
    assert {"observations", "actions", "rewards", "discounts", "num_steps"} == rows.columns.keys()


def test_a_column_without_what_it_led_to_belongs_to_the_step_alone():
    fragment = Steps(1, seed=1, has_reset_steps=False).fragment(4)

    rows = n_step_rows(n_step=1, discount=0.9)(fragment)

    taken = rows["num_steps"] > 0
    np.testing.assert_array_equal(rows["observations"][taken] % 7, rows["actions"][taken])


def test_a_stage_that_takes_a_state_forgets_what_it_carried():
    steps, stage = Steps(1, seed=3, has_reset_steps=False), n_step_rows(n_step=4, discount=0.5)
    stage(steps.fragment(3))
    steps.told[0].clear()

    stage.load_state_dict(stage.state_dict())

    fragment = steps.fragment(6)
    assert expected(steps.told[0], 4, 0.5) == transitions_of(stage(fragment))


def test_a_fragment_without_what_steps_led_to_is_refused():
    batch = Batch({"observations": np.zeros((2, 1)), "rewards": np.zeros((2, 1))}, axis=1)

    with pytest.raises(ShapeError, match="no column next_observations, it has observations, rewards"):
        n_step_rows(n_step=1, discount=0.9)(batch)


@pytest.mark.parametrize(("setting", "value"), [("n_step", 0), ("discount", 1.5)])
def test_settings_outside_their_range_are_refused(setting, value):
    with pytest.raises(ValueError, match=f"{setting}={value}"):
        n_step_rows(**{"n_step": 1, "discount": 0.9, setting: value})


def test_priorities_are_the_td_errors_of_the_network_that_acted():
    rows = Batch(
        {
            "num_steps": np.array([2, 1, 0], np.int32),
            "rewards": np.array([1.0, 2.0, 0.0], np.float32),
            "discounts": np.array([0.25, 0.0, 0.0], np.float32),
            "values": np.array([5.0, 6.0, 8.0], np.float32),
            "chosen_values": np.array([4.0, 1.0, 0.0], np.float32),
        }
    )

    found = estimate_priorities(rows)

    assert [abs(1.0 + 0.25 * 8.0 - 4.0), abs(2.0 - 1.0), 0.0] == found["priorities"].tolist()
    assert not {"values", "chosen_values"} & found.columns.keys()
    assert found["priorities"].dtype == np.float32


def test_priorities_need_values():
    with pytest.raises(ShapeError, match="estimate_priorities: the batch has no column values"):
        estimate_priorities(Batch({"num_steps": np.zeros(1, np.int32)}))
