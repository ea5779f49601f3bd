"""The loss of PPO on NumPy: known answers and limits."""

from __future__ import annotations

import numpy as np
import pytest

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.networks.specs import MLP
from rheos_ops.distributions import Categorical
from rheos_ppo.losses import COLUMNS, PPOLoss
from rheos_ppo.policy import ActorCritic

ACTS = ActorCritic(Categorical(2), {"policy": MLP(1, 2), "value": MLP(1, 1)})


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


def loss(**coefficients):
    usual = {"clip_range": 0.2, "value_coef": 0.5, "entropy_coef": 0.01, "normalize_advantages": False}
    return PPOLoss(ACTS, **(usual | coefficients))


def test_the_columns_are_those_that_the_loss_reads():
    read = set()

    class Recording(dict):
        def __getitem__(self, name):
            read.add(name)
            return super().__getitem__(name)

    rows = Recording(batch(actions=[0], log_probs=[-0.7], advantages=[1.0], returns=[1.0]))
    loss()(xp, networks([[0.0, 0.0]], [0.0]), rows)

    assert set(COLUMNS) == read


def test_an_unchanged_policy_gives_minus_the_mean_advantage_and_no_divergence():
    half = np.log(0.5)
    rows = batch(actions=[0, 1], log_probs=[half, half], advantages=[1.0, 3.0], returns=[0.0, 0.0])

    _, metrics = loss()(xp, networks([[0.0, 0.0]] * 2, [0.0, 0.0]), rows)

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

    _, metrics = loss()(xp, networks([[0.0, 0.0]] * 4, np.zeros(4)), rows)

    objective = [1.2, -2.0, 0.5, -0.8]  # min(r A, clip(r) A), by hand
    assert metrics["policy_loss"] == pytest.approx(-np.mean(objective), abs=1e-6)
    assert metrics["clip_fraction"] == 1.0


def test_the_loss_is_the_weighted_sum_of_its_three_parts():
    rows = batch(actions=[0], log_probs=[np.log(0.5)], advantages=[1.0], returns=[3.0])

    total, metrics = loss(value_coef=0.25, entropy_coef=0.1)(xp, networks([[0.0, 0.0]], [1.0]), rows)

    assert metrics["value_loss"] == pytest.approx(2.0, abs=1e-6)  # (1 - 3)² / 2
    assert metrics["entropy"] == pytest.approx(np.log(2), abs=1e-6)
    assert total == pytest.approx(-1.0 + 0.25 * 2.0 - 0.1 * np.log(2), abs=1e-6)


def test_the_divergence_estimate_is_that_of_schulman_and_never_negative():
    rows = batch(actions=[0, 0], log_probs=np.log([0.25, 1.0]), advantages=[0.0, 0.0], returns=[0.0, 0.0])

    _, metrics = loss()(xp, networks([[0.0, 0.0]] * 2, [0.0, 0.0]), rows)

    ratios = np.array([2.0, 0.5])
    assert metrics["approx_kl"] == pytest.approx(np.mean(ratios - 1 - np.log(ratios)), abs=1e-6)


def test_standardized_advantages_do_not_depend_on_their_scale_and_offset():
    half = np.log(0.5)
    given = networks([[1.0, 0.0]] * 3, np.zeros(3))
    advantages = np.array([1.0, 2.0, 4.0])

    losses = [
        loss(normalize_advantages=True)(
            xp, given, batch(actions=[0, 1, 0], log_probs=[half] * 3, advantages=scaled, returns=np.zeros(3))
        )[1]["policy_loss"]
        for scaled in (advantages, 10 * advantages + 5)
    ]

    assert losses[0] == pytest.approx(losses[1], abs=1e-5)  # float32, numbers of about 1
