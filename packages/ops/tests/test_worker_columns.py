"""RolloutWorker: what stands in the columns of a fragment, and in which dtype."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces

from rheos.batches import Episode
from rheos.testing.environments import CountingEnv
from rheos.testing.policies import counting_policy, counting_weights
from rheos_ops.distributions import DiagonalGaussian

OWN = {"observations", "rewards", "terminated", "truncated", "is_transition"}


def column(batch, name):
    """A column of a worker with a single environment, as a list."""
    return batch[name][:, 0].tolist()


def acting_as_drawn(noise, dtype="float32"):
    """Make a policy whose actions are these, one after the other."""

    def explore(xp, networks, columns):
        return {"actions": xp.astype(columns["noise"], getattr(xp, dtype))}

    return replace(counting_policy(), explore=explore, draw_noise=lambda _, num: np.array(noise, np.float32)[:num])


def test_discrete_actions_reach_the_environment_from_start_on(worker_of):
    """Case 16."""
    env = CountingEnv(action_space=spaces.Discrete(3, start=5))

    batch = worker_of(env, steps=12, policy=acting_as_drawn([0, 1, 2] * 4, "int32")).rollout()

    assert [5, 6, 7] * 4 == env.actions
    assert [0, 1, 2] * 4 == column(batch, "actions")
    assert np.int32 == batch["actions"].dtype


def test_a_box_gets_the_clipped_action_and_the_batch_keeps_the_sampled_one(worker_of):
    """Case 14."""
    env = CountingEnv(action_space=spaces.Box(0, 10, (1,)))
    drawn = np.array([[-2], [-1], [0.5], [3]], np.float32)

    batch = worker_of(env, steps=4, policy=acting_as_drawn(drawn)).rollout()

    assert [0.0, 0.0, 7.5, 10.0] == [action.item() for action in env.actions]
    np.testing.assert_array_equal(drawn, batch["actions"][:, 0])


def test_the_log_probability_is_that_of_the_sample_before_it_was_clipped(worker_of):
    """Case 14: with a mean of 0 and a deviation of 1, the sample is the noise itself."""
    normal = DiagonalGaussian(1)

    def explore(xp, networks, columns):
        params = xp.zeros((len(columns["observations"]), 2))
        return {"actions": normal.sample(xp, params, columns["noise"]), "params": params}

    def annotate(xp, networks, columns):
        return {"log_probs": normal.log_prob(xp, columns["params"], columns["actions"])}

    drawn = np.array([[-2], [-1], [0.5], [3]], np.float32)
    policy = replace(counting_policy(), explore=explore, annotate=annotate, draw_noise=lambda _, num: drawn)
    env = CountingEnv(action_space=spaces.Box(-1, 1, (1,)))

    batch = worker_of(env, steps=4, policy=policy).rollout()

    assert [-1.0, -1.0, 0.5, 1.0] == [action.item() for action in env.actions]
    expected = -0.5 * drawn[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(expected, batch["log_probs"][:, 0], rtol=1e-6)  # float32


def test_actions_of_a_tree_reach_the_environment_as_it_names_them(worker_of):
    """Case 17."""
    env = CountingEnv(action_space=spaces.Dict(gear=spaces.Discrete(3, start=1), wheel=spaces.Box(0, 10, (1,))))

    batch = worker_of(env, steps=2, policy=acting_as_drawn([[0, -1], [2, 0]])).rollout()

    assert [(1, 0.0), (3, 5.0)] == [(int(action["gear"]), action["wheel"].item()) for action in env.actions]
    np.testing.assert_array_equal([[0, -1], [2, 0]], batch["actions"][:, 0])


class Corridor(CountingEnv):
    """Observes which of four places it is in, the first of which is 5."""

    def __init__(self):
        super().__init__(time_limit=3, observation_space=spaces.Discrete(4, start=5))

    def _observation(self):
        return 5 + self._count


def test_discrete_observations_are_one_hot_from_start(worker_of):
    """Case 16."""
    batch = worker_of(Corridor(), steps=4).rollout()

    np.testing.assert_array_equal(np.eye(4)[[0, 1, 2, 0]], batch["observations"][:, 0])


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.int8])
@pytest.mark.parametrize("reward", [1, np.int64(1), np.float64(1.0), np.float32(1.0), True])
def test_every_number_is_cast_once_at_the_boundary(worker_of, dtype, reward):
    """Case 12."""
    env = CountingEnv(3, reward=reward, observation_space=spaces.Box(0, 99, (1, 2), dtype))

    batch = worker_of(env, steps=4).rollout()

    floats = {batch[name].dtype for name in ("observations", "rewards", "values", "next_values")}
    assert {np.dtype(np.float32)} == floats
    assert [[0, 0], [1, 1], [2, 2], [0, 0]] == batch["observations"][:, 0].tolist()
    assert [1, 1, 1, 1] == column(batch, "rewards")
    assert (Episode(3.0, 3),) == batch.info.episodes


def test_bytes_stay_bytes_in_their_own_shape(worker_of):
    """Case 12."""
    env = CountingEnv(3, observation_space=spaces.Box(0, 255, (2, 3, 1), np.uint8))

    batch = worker_of(env, steps=4, policy=replace(counting_policy(), value=None)).rollout()

    assert (np.uint8, (4, 1, 2, 3, 1)) == (batch["observations"].dtype, batch["observations"].shape)
    assert [0, 1, 2, 0] == batch["observations"][:, 0, 1, 2, 0].tolist()


def test_an_environment_that_gives_float32_where_its_space_says_float64_is_taken(worker_of):
    """Case 12."""

    class Careless(CountingEnv):
        def _observation(self):
            return np.array([self._count], np.float32)

    env = Careless(observation_space=spaces.Box(0, 9, (1,), np.float64))

    assert [0, 1, 2] == worker_of(env, steps=3).rollout()["observations"][:, 0, 0].tolist()


class Camera(CountingEnv):
    """Observes a speed, an image, and which actions are allowed: 0 first, 1 afterwards."""

    def __init__(self, time_limit=10):
        space = spaces.Dict(
            action_mask=spaces.MultiBinary(2),
            camera=spaces.Box(0, 255, (2, 2, 3), np.uint8),
            speed=spaces.Box(0, 99, (1,)),
        )
        super().__init__(time_limit, observation_space=space)

    def _observation(self):
        return {
            "action_mask": np.array([self._count == 0, self._count > 0], np.int8),
            "camera": np.full((2, 2, 3), 100 + self._count, np.uint8),
            "speed": np.full(1, self._count, np.float32),
        }


def test_an_image_and_a_mask_are_columns_beside_the_numbers_and_the_policy_sees_each_of_them(worker_of):
    seen = []

    def explore(xp, networks, columns):
        seen.append({name: array.shape for name, array in columns.items()})
        return {"actions": xp.argmax(xp.astype(columns["action_mask"], xp.float32))}

    env = Camera()

    batch = worker_of(env, steps=3, policy=replace(counting_policy(), explore=explore)).rollout()

    shapes = {"observations": (1, 1), "observations.camera": (1, 2, 2, 3), "action_mask": (1, 2), "noise": (1,)}
    assert [shapes] * 3 == seen
    assert [0, 1, 1] == [int(action) for action in env.actions] == column(batch, "actions")
    assert [0, 1, 2] == batch["observations"][:, 0, 0].tolist()
    assert [100, 101, 102] == batch["observations.camera"][:, 0, 1, 1, 2].tolist()
    assert [[True, False], [False, True], [False, True]] == batch["action_mask"][:, 0].tolist()
    assert (np.uint8, np.bool_) == (batch["observations.camera"].dtype, batch["action_mask"].dtype)
    assert "noise" not in batch.columns


def test_everything_that_the_policy_gives_is_a_column_and_without_value_there_are_no_values(worker_of):
    def explore(xp, networks, columns):
        return {"actions": xp.astype(columns["noise"], xp.int32), "q_values": xp.zeros((2, 3))}

    policy = replace(counting_policy(), explore=explore, value=None)

    batch = worker_of(CountingEnv(), CountingEnv(), steps=4, policy=policy).rollout()

    assert OWN | {"actions", "q_values"} == set(batch.columns)
    assert (4, 2, 3) == batch["q_values"].shape


def test_what_annotate_gives_for_all_rows_at_once_stands_there_instead(worker_of):
    calls = []

    def explore(xp, networks, columns):
        return {"actions": xp.astype(columns["noise"] < 0.5, xp.int32), "params": columns["observations"] * 10}

    def annotate(xp, networks, columns):
        calls.append({name: array.shape for name, array in columns.items()})
        return {
            "marks": columns["params"] + columns["observations"],
            "doubled": 2 * columns["rewards"] + networks["bias"](columns["observations"]),
        }

    policy = replace(counting_policy(), explore=explore, annotate=annotate)
    worker = worker_of(CountingEnv(), CountingEnv(2), steps=3, policy=policy)
    worker.load(counting_weights(bias=5.0))

    batch = worker.rollout()

    observed = {"observations": (6, 1), "rewards": (6,), "actions": (6,), "params": (6, 1)}
    assert [observed] == calls
    assert OWN | {"actions", "marks", "doubled", "values", "next_values"} == set(batch.columns)
    assert [[0, 0], [11, 11], [22, 0]] == batch["marks"][..., 0].tolist()
    assert [[7, 7]] * 3 == batch["doubled"].tolist()


def test_noise_is_drawn_once_for_a_whole_fragment(worker_of):
    asked = []

    def draw_noise(generator, num):
        asked.append(num)
        return generator.random(num, np.float32)

    worker = worker_of(CountingEnv(), CountingEnv(), steps=4, policy=replace(counting_policy(), draw_noise=draw_noise))

    worker.rollout()

    assert [8] == asked
