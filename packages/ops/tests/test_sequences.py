"""sequences and estimate_sequence_priorities, beside a loop that keeps whole episodes in lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos import Batch, BatchInfo
from rheos.errors import ShapeError
from rheos_ops.sequences import estimate_sequence_priorities, sequences

NAMES = ("observations", "actions", "rewards", "terminated", "truncated", "is_transition", "is_first", "memory")
DTYPES = (np.float32, np.int32, np.float32, bool, bool, bool, bool, np.float32)


class Steps:
    """Steps of some environments with random ends; what is observed is the number of the observation, from 1."""

    def __init__(self, num_envs, *, seed=0, has_reset_steps=False, end=0.15):
        self._generator = np.random.default_rng(seed)
        self._has_reset_steps, self._end = has_reset_steps, end
        self._at = [1 + 1000 * env for env in range(num_envs)]
        self._begins = [True] * num_envs
        self._is_resetting = [False] * num_envs
        self.episodes = [[[]] for _ in range(num_envs)]
        """Of each environment, episode by episode: observation, reward, terminated, truncated, next observation."""

    def fragment(self, num_steps):
        rows = [[self._step(env) for env in range(len(self._at))] for _ in range(num_steps)]
        columns = {
            name: np.array([[row[index] for row in step] for step in rows], dtype)
            for index, (name, dtype) in enumerate(
                zip((*NAMES, "next_observations"), (*DTYPES, np.float32), strict=True)
            )
        }
        columns["memory"] = columns["memory"][..., None]
        columns["values"], columns["chosen_values"] = values_of(columns["observations"])
        return Batch(columns, BatchInfo(("rollout-0",)), axis=1)

    def _step(self, env):
        before, is_first = self._at[env], self._begins[env]
        self._at[env] += 1
        if self._is_resetting[env]:
            self._is_resetting[env] = False
            return before, 0, 0.0, False, False, False, True, 0.0, self._at[env]
        reward = float(self._generator.integers(1, 9))
        terminated, truncated = (self._generator.random(2) < self._end).tolist()
        after = self._at[env]
        self.episodes[env][-1].append((before, reward, terminated, truncated, after))
        self._begins[env] = terminated or truncated
        if terminated or truncated:
            self.episodes[env].append([])
            self._is_resetting[env] = self._has_reset_steps
            if not self._has_reset_steps:
                self._at[env] += 1  # the next observation is another one than the last
        return before, before % 7, reward, terminated, truncated, True, is_first, before / 8, after


def values_of(observations):
    """The values of an observation, of the best action and of the one that was taken: exact in float32."""
    return (observations % 16).astype(np.float32), (observations % 16 - observations % 4).astype(np.float32)


def expected(episode, burn_in, length, n_step, discount):
    """The sequences of an episode that are complete, by a loop over its steps."""
    has_ended = bool(episode) and (episode[-1][2] or episode[-1][3])
    found = []
    for begin in range(0, len(episode), length):
        trained = episode[begin : begin + length]
        if not has_ended and begin + length >= len(episode):
            break  # the step behind it is not there yet
        warm = episode[max(begin - burn_in, 0) : begin]
        padding = burn_in - len(warm)
        observed = [0] * padding + [step[0] for step in warm + trained] + [trained[-1][4]]
        steps = []
        for index in range(len(trained)):
            ahead = trained[index : index + n_step]
            total = sum(discount**k * step[1] for k, step in enumerate(ahead))
            after = index + len(ahead)
            is_over = ahead[-1][2]
            steps.append((trained[index][0] % 7, total, 0.0 if is_over else discount ** len(ahead), after))
        first = (warm + trained)[0]
        found.append(
            {
                "observations": observed + [0] * (burn_in + length + 1 - len(observed)),
                "is_first": [place == padding and first is episode[0] for place in range(burn_in + length + 1)],
                "memory": first[0] / 8,
                "steps": steps,
            }
        )
    return found


def found_in(rows, length):
    """The same of the rows that the stage gave; what stands in padded steps is left out."""
    for row in range(len(rows["num_steps"])):
        count = int(rows["num_steps"][row])
        assert [index < count for index in range(length)] == rows["mask"][row].tolist()
        names = ("actions", "rewards", "discounts", "bootstraps")
        yield {
            "observations": rows["observations"][row].tolist(),
            "is_first": rows["is_first"][row].tolist(),
            "memory": float(rows["memory"][row, 0]),
            "steps": list(zip(*(rows[name][row, :count].tolist() for name in names), strict=True)),
        }


def in_order(sequences_found):
    return sorted(sequences_found, key=lambda each: (each["memory"], each["observations"]))


@settings(deadline=None)
@given(
    burn_in=st.integers(0, 4),
    length=st.integers(1, 5),
    n_step=st.integers(1, 6),
    num_envs=st.integers(1, 3),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    seed=st.integers(0, 2**16),
    has_reset_steps=st.booleans(),
)
def test_episodes_are_tiled_by_sequences_each_given_once(
    burn_in, length, n_step, num_envs, lengths, seed, has_reset_steps
):
    steps = Steps(num_envs, seed=seed, has_reset_steps=has_reset_steps)
    stage = sequences(burn_in=burn_in, length=length, n_step=n_step, discount=0.5)

    found = [row for num_steps in lengths for row in found_in(stage(steps.fragment(num_steps)), length)]

    episodes = [episode for own in steps.episodes for episode in own]
    wanted = [row for episode in episodes for row in expected(episode, burn_in, length, n_step, 0.5)]
    assert in_order(wanted) == in_order(found)  # sums of small integers and halves: exact in float32


@settings(deadline=None)
@given(seed=st.integers(0, 2**16), n_step=st.integers(1, 4))
def test_all_steps_of_episodes_that_ended_are_learned_from_once(seed, n_step):
    steps = Steps(2, seed=seed, end=0.2)
    stage = sequences(burn_in=3, length=4, n_step=n_step, discount=0.5)

    rows = [stage(steps.fragment(5)) for _ in range(6)]

    learned = [x for each in rows for x in each["observations"][:, 3:-1][each["mask"]].tolist()]
    ended = [step[0] for own in steps.episodes for episode in own[:-1] for step in episode]
    assert len(set(learned)) == len(learned)
    assert set(ended) <= set(learned)


def test_a_sequence_is_given_with_the_step_behind_it_or_the_end_of_its_episode():
    steps = Steps(1, end=0.0)
    stage = sequences(burn_in=0, length=3, n_step=1, discount=0.5)

    given_rows = [len(stage(steps.fragment(1))["num_steps"]) for _ in range(8)]

    assert [0, 0, 0, 1, 0, 0, 1, 0] == given_rows


def test_columns_of_every_kind_are_padded_with_zeros():
    fragment = Steps(1, end=0.0).fragment(4)
    ends = np.array([[False], [False], [False], [True]])
    image = np.arange(1, 5, dtype=np.uint8)[:, None, None, None]
    fragment = fragment.with_columns(
        truncated=ends, **{"observations.camera": image, "next_observations.camera": image + 1}
    )

    rows = sequences(burn_in=2, length=3, n_step=1, discount=0.5)(fragment)

    assert [[0, 0, 1, 2, 3, 4], [2, 3, 4, 5, 0, 0]] == rows["observations.camera"][:, :, 0, 0].tolist()
    assert np.uint8 == rows["observations.camera"].dtype
    assert [[0, 0, 1, 2, 3, 4], [2, 3, 4, None, 0, 0]] == [
        [None if np.isnan(x) else x for x in row] for row in rows["values"].tolist()
    ]
    assert "terminated" not in rows.columns
    assert 0 == rows.axis


def test_a_stage_that_takes_a_state_forgets_what_it_carried():
    steps, stage = Steps(1, end=0.0), sequences(burn_in=2, length=3, n_step=1, discount=0.5)
    stage(steps.fragment(5))
    stage.load_state_dict(stage.state_dict())
    anew = Steps(1, end=0.0)

    rows = stage(anew.fragment(4))

    assert [[0, 0, 1, 2, 3, 4]] == rows["observations"].tolist()


def test_an_episode_that_is_cut_without_an_end_is_not_joined_to_the_next_one():
    stage = sequences(burn_in=1, length=2, n_step=1, discount=0.5)
    stage(Steps(1, end=0.0).fragment(2))  # a whole sequence, whose value of what followed is awaited

    rows = stage(Steps(1, end=0.0).fragment(3))

    assert [[0, 1, 2, 3]] == rows["observations"].tolist()


@pytest.mark.parametrize("name", ["memory", "is_first", "next_observations"])
def test_a_fragment_that_lacks_what_sequences_need_is_refused(name):
    columns = dict(Steps(1).fragment(2).columns)
    del columns[name]

    with pytest.raises(ShapeError, match=f"sequences: the batch has no column {name}, it has observations"):
        sequences(burn_in=0, length=1, n_step=1, discount=0.9)(Batch(columns, axis=1))


@pytest.mark.parametrize(("setting", "value"), [("burn_in", -1), ("length", 0), ("n_step", 0), ("discount", 1.5)])
def test_settings_outside_their_range_are_refused(setting, value):
    with pytest.raises(ValueError, match=f"{setting}={value}"):
        sequences(**{"burn_in": 0, "length": 1, "n_step": 1, "discount": 0.9, setting: value})


@settings(deadline=None)
@given(
    burn_in=st.integers(0, 3),
    length=st.integers(1, 5),
    n_step=st.integers(1, 6),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    seed=st.integers(0, 2**16),
)
def test_priorities_are_those_of_the_errors_whose_values_are_known(burn_in, length, n_step, lengths, seed):
    steps = Steps(2, seed=seed)
    stage = sequences(burn_in=burn_in, length=length, n_step=n_step, discount=0.5)
    estimate = estimate_sequence_priorities(max_share=0.75, rescale_epsilon=None)

    found = {}
    for num_steps in lengths:
        rows = estimate(stage(steps.fragment(num_steps)))
        first = rows["observations"][:, burn_in].tolist()
        found |= dict(zip(first, rows["priorities"].tolist(), strict=True))

    for own in steps.episodes:
        for episode in own:
            for begin in range(0, len(episode), length):
                if episode[begin][0] in found:
                    wanted = priority(episode, begin, length, n_step, discount=0.5, max_share=0.75)
                    assert pytest.approx(wanted, rel=1e-5) == found.pop(episode[begin][0])
    assert not found


def priority(episode, begin, length, n_step, *, discount, max_share):
    """The priority of the sequence that begins at a step of an episode, by a loop."""
    end, errors = min(begin + length, len(episode)), []
    for t in range(begin, end):
        after = min(t + n_step, end)
        target = sum(discount ** (k - t) * episode[k][1] for k in range(t, after))
        _, _, terminated, truncated, _ = episode[after - 1]
        if truncated and not terminated:
            continue
        if not terminated:
            target += discount ** (after - t) * values_of(np.array(episode[after][0]))[0]
        errors.append(abs(target - values_of(np.array(episode[t][0]))[1]))
    return max_share * max(errors) + (1 - max_share) * np.mean(errors) if errors else 1.0


def test_priorities_of_rescaled_values_are_errors_of_rescaled_targets():
    rows = Batch(
        {
            "values": np.array([[0.0, 0.0, 2.0]], np.float32),
            "chosen_values": np.array([[1.0, 0.5]], np.float32),
            "rewards": np.array([[4.0, 3.0]], np.float32),
            "discounts": np.array([[0.5, 0.0]], np.float32),
            "bootstraps": np.array([[2, 2]], np.int32),
            "mask": np.ones((1, 2), bool),
        }
    )

    found = estimate_sequence_priorities(max_share=1.0, rescale_epsilon=0.0)(rows)

    # with ε = 0, h(x) = √(x + 1) - 1: targets h(4 + 0.5 (3² - 1)) = 2 and h(3) = 1
    assert [pytest.approx(max(2.0 - 1.0, 1.0 - 0.5))] == found["priorities"].tolist()
    assert not {"values", "chosen_values"} & found.columns.keys()
    assert np.float32 == found["priorities"].dtype


def test_priorities_need_values():
    with pytest.raises(ShapeError, match="estimate_sequence_priorities: the batch has no column values"):
        estimate_sequence_priorities(max_share=0.9, rescale_epsilon=None)(Batch({"num_steps": np.zeros(1, np.int32)}))
