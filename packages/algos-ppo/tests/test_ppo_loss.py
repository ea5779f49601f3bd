"""The loss of PPO on NumPy: known answers and limits."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.spaces import Spaces
from rheos_ppo.config import PPOConfig
from rheos_ppo.losses import PPOLoss, PrepareBatch, columns_of
from rheos_ppo.policy import actor_critic

ACTS = actor_critic(Spaces(gym.spaces.Box(-1.0, 1.0, (1,)), gym.spaces.Discrete(2)), PPOConfig())


def networks(logits, values):
    """Networks whose outputs are given, whatever the observations are."""
    return {
        "policy": lambda _: np.asarray(logits, np.float32),
        "value": lambda _: np.asarray(values, np.float32)[:, None],
    }


def batch(*, actions, log_probs, advantages, returns):
    count = len(actions)
    return {
        "observations": np.zeros((count, 1), np.float32),
        "actions": np.asarray(actions, np.int32),
        "log_probs": np.asarray(log_probs, np.float32),
        "advantages": np.asarray(advantages, np.float32),
        "returns": np.asarray(returns, np.float32),
    }


def loss(given, rows, *, clip_range=0.2, entropy_coef=0.01, **settings):
    usual = {"value_coef": 0.5, "normalize_advantages": False}
    return PPOLoss(ACTS, **(usual | settings))(
        xp, given, rows, {"clip_range": clip_range, "entropy_coef": entropy_coef, "learning_rate": 1e-3}
    )


class Recording(dict):
    """Remembers which columns were read."""

    def __init__(self, columns):
        super().__init__(columns)
        self.read = set()

    def __getitem__(self, name):
        self.read.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize("value_clip_range", [None, 0.2])
def test_what_is_kept_of_a_batch_is_what_the_loss_reads(value_clip_range):
    prepare = PrepareBatch(normalize_advantages=False, keeps_values=value_clip_range is not None)
    whole = batch(actions=[0], log_probs=[-0.7], advantages=[1.0], returns=[1.0]) | {"values": np.zeros(1, np.float32)}

    kept, _ = prepare(xp, whole)
    rows = Recording(kept)
    loss(networks([[0.0, 0.0]], [0.0]), rows, value_clip_range=value_clip_range)

    assert set(columns_of(ACTS)) == set(whole)
    assert set(kept) == rows.read


def test_an_unchanged_policy_gives_minus_the_mean_advantage_and_no_divergence():
    half = np.log(0.5)
    rows = batch(actions=[0, 1], log_probs=[half, half], advantages=[1.0, 3.0], returns=[0.0, 0.0])

    _, metrics = loss(networks([[0.0, 0.0]] * 2, [0.0, 0.0]), rows)

    assert metrics["policy_loss"] == pytest.approx(-2.0, abs=1e-6)
    assert metrics["approx_kl"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["clip_fraction"] == 0.0


def test_the_ratio_is_cut_only_where_that_makes_the_objective_smaller():
    # the policy gives p = 1/2; old probabilities 1/4 and 1 give the ratios 2 and 1/2
    rows = batch(
        actions=[0, 0, 0, 0],
        log_probs=np.log([0.25, 0.25, 1.0, 1.0]),
        advantages=[1.0, -1.0, 1.0, -1.0],
        returns=np.zeros(4),
    )

    _, metrics = loss(networks([[0.0, 0.0]] * 4, np.zeros(4)), rows)

    objective = [1.2, -2.0, 0.5, -0.8]  # min(r A, clip(r) A), by hand
    assert metrics["policy_loss"] == pytest.approx(-np.mean(objective), abs=1e-6)
    assert metrics["clip_fraction"] == 1.0


def test_the_loss_is_the_weighted_sum_of_its_three_parts():
    rows = batch(actions=[0], log_probs=[np.log(0.5)], advantages=[1.0], returns=[3.0])

    total, metrics = loss(networks([[0.0, 0.0]], [1.0]), rows, value_coef=0.25, entropy_coef=0.1)

    assert metrics["value_loss"] == pytest.approx(2.0, abs=1e-6)  # (1 - 3)² / 2
    assert metrics["entropy"] == pytest.approx(np.log(2), abs=1e-6)
    assert total == pytest.approx(-1.0 + 0.25 * 2.0 - 0.1 * np.log(2), abs=1e-6)


def test_the_divergence_estimate_is_that_of_schulman_and_never_negative():
    rows = batch(actions=[0, 0], log_probs=np.log([0.25, 1.0]), advantages=[0.0, 0.0], returns=[0.0, 0.0])

    _, metrics = loss(networks([[0.0, 0.0]] * 2, [0.0, 0.0]), rows)

    ratios = np.array([2.0, 0.5])
    assert metrics["approx_kl"] == pytest.approx(np.mean(ratios - 1 - np.log(ratios)), abs=1e-6)


def test_standardized_advantages_do_not_depend_on_their_scale_and_offset():
    half = np.log(0.5)
    given = networks([[1.0, 0.0]] * 3, np.zeros(3))
    advantages = np.array([1.0, 2.0, 4.0])

    losses = [
        loss(
            given,
            batch(actions=[0, 1, 0], log_probs=[half] * 3, advantages=scaled, returns=np.zeros(3)),
            normalize_advantages=True,
        )[1]["policy_loss"]
        for scaled in (advantages, 10 * advantages + 5)
    ]

    assert losses[0] == pytest.approx(losses[1], abs=1e-5)  # float32, numbers of about 1


def test_a_minibatch_of_one_transition_has_a_finite_loss_and_no_policy_gradient():
    rows = batch(actions=[0], log_probs=[np.log(0.5)], advantages=[7.0], returns=[0.0])

    total, metrics = loss(networks([[0.0, 0.0]], [0.0]), rows, normalize_advantages=True)

    assert np.isfinite(total)
    assert metrics["policy_loss"] == 0.0


@pytest.mark.parametrize(
    ("value", "old", "expected"),
    [(0.1, 0.0, 0.9**2), (0.5, 0.0, 0.8**2), (-0.5, 0.0, 1.5**2)],
    ids=["within the range", "moved too far towards the return", "moved too far away from it"],
)
def test_a_clipped_value_gains_nothing_by_moving_further_than_its_range(value, old, expected):
    rows = batch(actions=[0], log_probs=[np.log(0.5)], advantages=[0.0], returns=[1.0])
    rows["values"] = np.array([old], np.float32)

    _, metrics = loss(networks([[0.0, 0.0]], [value]), rows, value_clip_range=0.2)

    assert metrics["value_loss"] == pytest.approx(expected / 2, abs=1e-6)


def test_advantages_of_a_batch_are_standardized_once_over_all_of_it():
    prepare = PrepareBatch(normalize_advantages=True, keeps_values=False)
    whole = batch(actions=[0] * 4, log_probs=[0.0] * 4, advantages=[1.0, 2.0, 3.0, 6.0], returns=[0.0] * 4)

    kept, _ = prepare(xp, whole | {"values": np.zeros(4, np.float32)})

    advantages = np.array([1.0, 2.0, 3.0, 6.0])
    np.testing.assert_allclose((advantages - 3.0) / advantages.std(), kept["advantages"], rtol=1e-6)


def test_the_clip_fraction_of_actions_is_the_share_of_numbers_that_the_environment_did_not_get():
    bounds = np.array([-1.0, -np.inf], np.float32), np.array([1.0, np.inf], np.float32)
    prepare = PrepareBatch(normalize_advantages=False, keeps_values=False, action_bounds=bounds)
    actions = np.array([[0.5, 9.0], [1.5, 9.0], [-1.5, -9.0], [1.0, 0.0]], np.float32)

    _, metrics = prepare(xp, {"actions": actions, "values": np.zeros(4, np.float32), "returns": np.ones(4, np.float32)})

    assert metrics["action_clip_fraction"] == pytest.approx(2 / 4)  # of the four numbers that have bounds
