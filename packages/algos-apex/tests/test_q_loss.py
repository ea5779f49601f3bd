"""QLearningLoss, each of its switches alone, on networks whose values are written down."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.spaces import Spaces
from rheos_apex.config import DQNConfig
from rheos_apex.losses import NOISE, QLearningLoss, columns_of
from rheos_apex.q_network import q_network

DISCRETE = gym.spaces.Discrete(2)
NUMBERS = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)


class Table:
    """A network that gives a row of a table for each observation, which is the number of the row."""

    def __init__(self, *rows):
        self._rows = np.array(rows, np.float32)

    def __call__(self, x):
        return self._rows[x[:, 0].astype(int)]


def loss_of(online, target, batch, *, is_double=True, action=DISCRETE, **settings):
    config = DQNConfig(**{"hidden_sizes": (), "huber_delta": 100.0, **settings})
    acts = q_network(Spaces(NUMBERS, action), config)
    columns = {name: np.asarray(column) for name, column in batch.items()}
    for name in ("observations", "next_observations"):
        columns[name] = columns[name].astype(np.float32)[:, None]
    for name in ("rewards", "discounts", "weights"):
        columns[name] = columns[name].astype(np.float32)
    return QLearningLoss(acts, is_double)(xp, {"q": Table(*online), "target_q": Table(*target)}, columns, {})


ONE = {
    "observations": [0],
    "next_observations": [1],
    "actions": [1],
    "rewards": [1.0],
    "discounts": [0.5],
    "weights": [1.0],
}


@pytest.mark.parametrize(("is_double", "value"), [(True, 10.0), (False, 20.0)])
def test_with_double_the_network_that_learns_chooses_and_the_target_values(is_double, value):
    online, target = [(0.0, 3.0), (5.0, 4.0)], [(0.0, 0.0), (10.0, 20.0)]

    loss, metrics = loss_of(online, target, ONE, is_double=is_double)

    error = 1.0 + 0.5 * value - 3.0
    assert loss == pytest.approx(0.5 * error**2)
    assert [pytest.approx(abs(error))] == metrics["priorities"].tolist()
    assert metrics["q_values"] == pytest.approx(3.0)


@pytest.mark.parametrize(("huber_delta", "loss"), [(None, 0.5 * 13.0**2), (2.0, 2.0 * (13.0 - 1.0))])
def test_large_errors_count_as_squares_or_linearly(huber_delta, loss):
    found, metrics = loss_of([(0.0, 3.0), (5.0, 4.0)], [(0.0, 0.0), (30.0, 0.0)], ONE, huber_delta=huber_delta)

    assert found == pytest.approx(loss)  # the error is 1 + 0.5 * 30 - 3
    assert metrics["priorities"][0] == pytest.approx(13.0)


def test_what_terminated_has_no_value_after_it():
    loss, _ = loss_of([(0.0, 3.0), (5.0, 4.0)], [(0.0, 0.0), (10.0, 20.0)], ONE | {"discounts": [0.0]})

    assert loss == pytest.approx(0.5 * (1.0 - 3.0) ** 2)


def test_importance_weights_are_linear_in_the_loss_and_leave_priorities_alone():
    batch = {
        "observations": [0, 1],
        "next_observations": [1, 0],
        "actions": [0, 1],
        "rewards": [1.0, -1.0],
        "discounts": [0.5, 0.9],
    }
    tables = [(0.0, 3.0), (5.0, 4.0)], [(1.0, 0.0), (10.0, 20.0)]

    first, second, both = (loss_of(*tables, batch | {"weights": weights}) for weights in ([1, 0], [0, 1], [0.25, 0.5]))

    assert both[0] == pytest.approx(0.25 * first[0] + 0.5 * second[0])
    np.testing.assert_array_equal(first[1]["priorities"], both[1]["priorities"])


def test_of_several_branches_the_target_has_the_mean():
    branches = gym.spaces.MultiDiscrete([2, 2])
    online, target = [(0.0, 3.0, 1.0, 0.0), (5.0, 4.0, 0.0, 1.0)], [(0.0,) * 4, (10.0, 20.0, 30.0, 40.0)]

    loss, metrics = loss_of(online, target, ONE | {"actions": [[1, 0]]}, action=branches)

    value = 1.0 + 0.5 * (10.0 + 40.0) / 2
    errors = [value - 3.0, value - 1.0]
    assert loss == pytest.approx(np.mean([0.5 * error**2 for error in errors]))
    assert metrics["priorities"][0] == pytest.approx(np.mean(errors))


def test_a_categorical_target_is_the_distribution_of_what_follows_moved_and_projected():
    settings = {"value_distribution": "categorical", "num_atoms": 3, "value_min": 0.0, "value_max": 2.0}
    sure = 100.0  # of an atom: its probability is 1 in float32
    online = [(0.0,) * 6, (0.0,) * 6]
    target = [(0.0,) * 6, (sure, 0.0, 0.0, 0.0, 0.0, sure)]  # `[K, A]`: the first action 0, the second 2 for sure

    loss, metrics = loss_of(online, target, ONE | {"rewards": [0.25]}, is_double=False, **settings)

    probs = np.array([0.0, 0.75, 0.25])  # 0.25 + 0.5 * 2 = 1.25 between the atoms 1 and 2
    cross_entropy = -(probs * np.log(1 / 3)).sum()
    entropy = -(probs[1:] * np.log(probs[1:])).sum()
    assert loss == pytest.approx(cross_entropy, rel=1e-5)
    assert metrics["priorities"][0] == pytest.approx(cross_entropy - entropy, rel=1e-4)
    assert metrics["q_values"] == pytest.approx(1.0)


def test_quantile_targets_are_those_of_what_follows():
    settings = {"value_distribution": "quantile", "num_atoms": 2}
    online = [(0.0, 1.0, 0.0, 2.0), (0.0,) * 4]  # `[K, A]`: quantiles 1 and 2 of the second action
    target = [(0.0,) * 4, (0.0, 4.0, 0.0, 8.0)]

    loss, _ = loss_of(online, target, ONE, is_double=False, **settings)

    targets, quantiles = (1.0 + 0.5 * 4.0, 1.0 + 0.5 * 8.0), ((0.25, 1.0), (0.75, 2.0))
    wanted = sum(level * np.mean([0.5 * (goal - value) ** 2 for goal in targets]) for level, value in quantiles)
    assert loss == pytest.approx(wanted / 100.0, rel=1e-5)  # errors are all above 0, and κ is 100


def test_noise_is_read_where_layers_are_noisy_only():
    plain, noisy = (q_network(Spaces(NUMBERS, DISCRETE), DQNConfig(noisy=is_noisy)) for is_noisy in (False, True))

    assert NOISE not in columns_of(plain)
    assert NOISE in columns_of(noisy)
