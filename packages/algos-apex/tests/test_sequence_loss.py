"""SequenceQLearningLoss, beside loops over sequences, on networks whose values are written down."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.spaces import Spaces
from rheos_apex.config import R2D2Config
from rheos_apex.losses import SequenceQLearningLoss, sequence_columns_of
from rheos_apex.q_network import q_network

BURN_IN, LENGTH, ROWS, OBSERVED = 2, 3, 4, 30
NUMBERS = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
MASKED = gym.spaces.Dict(observation=NUMBERS, action_mask=gym.spaces.MultiBinary(3))
DISCRETE, BRANCHES = gym.spaces.Discrete(3), gym.spaces.MultiDiscrete([2, 2])


class Table:
    """Heads that give a row of a table for each observation, which is the number of the row."""

    def __init__(self, rows):
        self._rows = rows

    def __call__(self, x):
        return self._rows[x[:, 0].astype(int)]


def adding(x, state, is_first):
    """A memory that adds up: the features of a step are the sum of the observations since its episode began."""
    outputs, total = [], state[:, :1]
    for x_t, is_first_t in zip(x, is_first, strict=True):
        total = np.where(is_first_t[:, None], 0.0, total) + x_t
        outputs.append(total)
    return np.array(outputs), np.concatenate([total, total], axis=-1)


def loss_of(batch, tables, *, action=DISCRETE, observation=NUMBERS, is_double=True, burn_in=BURN_IN, **others):
    config = R2D2Config(hidden_sizes=(), dueling=False, lstm_units=1)
    acts = q_network(Spaces(observation, action), config)
    given_settings = {"rescale_epsilon": None, "max_error_share": 0.75, **others}
    loss = SequenceQLearningLoss(acts, is_double, burn_in, **given_settings)
    online, target = (Table(rows) for rows in tables)
    networks = {"lstm": adding, "target_lstm": adding, "q": online, "target_q": target}
    assert set(sequence_columns_of(acts)) <= batch.keys()
    return loss(xp, networks, batch, {})


def drawn(seed, *, action=DISCRETE):
    """A batch of sequences as they come from replay, and the tables of two networks."""
    generator = np.random.default_rng(seed)
    num_steps = generator.integers(1, LENGTH + 1, ROWS)
    slots = np.arange(LENGTH)
    bootstraps = np.minimum(slots + generator.integers(1, 3), num_steps[:, None])
    mask = slots < num_steps[:, None]
    branches = [3] if action is DISCRETE else [2, 2]
    actions = generator.integers(branches, size=(ROWS, LENGTH, len(branches)), dtype=np.int32)
    is_first = np.zeros((ROWS, BURN_IN + LENGTH + 1), bool)
    is_first[:2, BURN_IN] = True  # of these the burn-in is padding
    batch = {
        "observations": generator.integers(0, 4, (ROWS, BURN_IN + LENGTH + 1, 1)).astype(np.float32),
        "is_first": is_first,
        "memory": generator.integers(0, 4, (ROWS, 2)).astype(np.float32),
        "actions": actions[..., 0] if action is DISCRETE else actions,
        "rewards": generator.integers(-4, 5, (ROWS, LENGTH)).astype(np.float32),
        "discounts": generator.choice([0.0, 0.5], (ROWS, LENGTH)).astype(np.float32),
        "bootstraps": np.where(mask, bootstraps, slots).astype(np.int32),
        "mask": mask,
        "weights": generator.choice([0.25, 0.5, 1.0], ROWS).astype(np.float32),
        "action_mask": np.ones((ROWS, BURN_IN + LENGTH + 1, sum(branches)), bool),
    }
    tables = generator.integers(-8, 9, (2, OBSERVED, sum(branches))).astype(np.float32)
    return batch, tables


def expected(batch, tables, *, is_double, branches=(3,), rescale=lambda x: x, unscale=lambda x: x, max_share=0.75):
    """The loss and the priorities, by loops."""
    online, target = tables
    slices = [slice(sum(branches[:index]), sum(branches[: index + 1])) for index in range(len(branches))]
    actions = batch["actions"].reshape(ROWS, LENGTH, len(branches))
    losses, priorities, total = 0.0, [], 0
    for row in range(ROWS):
        count, sums = batch["memory"][row, 0], []
        for observation, is_first in zip(batch["observations"][row, :, 0], batch["is_first"][row], strict=True):
            count = observation if is_first else count + observation
            sums.append(int(count))
        sums, errors = sums[BURN_IN:], []
        allowed = batch["action_mask"][row, BURN_IN:]
        for t in np.flatnonzero(batch["mask"][row]):
            after = batch["bootstraps"][row, t]
            chooses = np.where(allowed[after], (online if is_double else target)[sums[after]], -np.inf)
            values = [target[sums[after], own][np.argmax(chooses[own])] for own in slices]
            goal = rescale(batch["rewards"][row, t] + batch["discounts"][row, t] * unscale(np.mean(values)))
            own_errors = [
                abs(goal - online[sums[t], own][action]) for own, action in zip(slices, actions[row, t], strict=True)
            ]
            errors.append(np.mean(own_errors))
            losses += batch["weights"][row] * 0.5 * np.mean(np.square(own_errors))
            total += 1
        priorities.append(max_share * max(errors) + (1 - max_share) * np.mean(errors))
    return losses / total, priorities


@settings(deadline=None)
@given(seed=st.integers(0, 2**16), is_double=st.booleans())
def test_the_loss_and_the_priorities_are_those_of_a_loop(seed, is_double):
    batch, tables = drawn(seed)

    loss, metrics = loss_of(batch, tables, is_double=is_double)

    wanted, priorities = expected(batch, tables, is_double=is_double)
    assert wanted == pytest.approx(float(loss), rel=1e-5)
    np.testing.assert_allclose(priorities, metrics["priorities"], rtol=1e-5)


def test_rescaled_values_are_compared_as_they_are_rescaled():
    batch, tables = drawn(3)

    loss, _ = loss_of(batch, tables, rescale_epsilon=0.0)

    wanted, _ = expected(
        batch,
        tables,
        is_double=True,
        rescale=lambda x: np.sign(x) * (np.sqrt(abs(x) + 1) - 1),
        unscale=lambda x: np.sign(x) * ((abs(x) + 1) ** 2 - 1),
    )
    assert wanted == pytest.approx(float(loss), rel=1e-5)


def test_what_is_not_allowed_is_not_chosen_to_be_valued():
    batch, tables = drawn(4)
    batch["action_mask"] = np.random.default_rng(0).random(batch["action_mask"].shape) < 0.5
    batch["action_mask"][..., 1] = True

    loss, _ = loss_of(batch, tables, observation=MASKED)

    wanted, _ = expected(batch, tables, is_double=True)
    assert wanted == pytest.approx(float(loss), rel=1e-5)


def test_of_several_branches_the_target_and_the_loss_have_the_mean():
    batch, tables = drawn(5, action=BRANCHES)

    loss, metrics = loss_of(batch, tables, action=BRANCHES)

    wanted, priorities = expected(batch, tables, is_double=True, branches=(2, 2))
    assert wanted == pytest.approx(float(loss), rel=1e-5)
    np.testing.assert_allclose(priorities, metrics["priorities"], rtol=1e-5)


@settings(deadline=None)
@given(seed=st.integers(0, 2**16))
def test_what_stands_in_padded_steps_changes_nothing(seed):
    batch, tables = drawn(seed)
    generator = np.random.default_rng(seed + 1)
    other = {name: column.copy() for name, column in batch.items()}
    padded = ~batch["mask"]
    for name, most in (("actions", 3), ("rewards", 9), ("discounts", 2), ("bootstraps", LENGTH + 1)):
        other[name][padded] = generator.integers(0, most, int(padded.sum()))
    other["observations"][:2, :BURN_IN] = generator.integers(0, 4, (2, BURN_IN, 1))
    other["memory"][:2] = generator.integers(0, 4, (2, 2))
    behind = np.zeros(batch["is_first"].shape, bool)
    behind[:, BURN_IN + 1 :] = padded
    other["observations"][behind] = generator.integers(0, 4, (int(behind.sum()), 1))

    loss, metrics = loss_of(batch, tables)
    again, again_metrics = loss_of(other, tables)

    assert loss == again
    for name, metric in metrics.items():
        np.testing.assert_array_equal(metric, again_metrics[name], err_msg=name)


def test_importance_weights_are_linear_in_the_loss_and_leave_priorities_alone():
    batch, tables = drawn(6)
    of_rows = [loss_of(batch | {"weights": row}, tables) for row in np.eye(ROWS, dtype=np.float32)]

    loss, metrics = loss_of(batch, tables)

    assert loss == pytest.approx(sum(w * own for w, (own, _) in zip(batch["weights"], of_rows, strict=True)), rel=1e-5)
    np.testing.assert_array_equal(of_rows[0][1]["priorities"], metrics["priorities"])


def test_the_mean_is_over_the_steps_that_are_there():
    batch, tables = drawn(7)
    wider = {
        name: np.concatenate([column, column[:, -1:]], axis=1) if column.shape[1:2] == (LENGTH,) else column
        for name, column in batch.items()
    }
    for name in ("observations", "is_first", "action_mask"):
        wider[name] = np.concatenate([batch[name], batch[name][:, -1:]], axis=1)
    wider["mask"][:, -1] = False

    assert loss_of(batch, tables)[0] == pytest.approx(float(loss_of(wider, tables)[0]), rel=1e-6)


def test_without_a_burn_in_it_begins_with_what_was_stored():
    batch, tables = drawn(8)
    short = dict(batch)
    for name in ("observations", "is_first", "action_mask"):
        short[name] = batch[name][:, BURN_IN:]
    short["memory"] = np.repeat(batch["memory"][:, :1] + batch["observations"][:, :BURN_IN].sum(axis=1), 2, axis=1)

    assert loss_of(batch, tables)[0] == loss_of(short, tables, burn_in=0)[0]
