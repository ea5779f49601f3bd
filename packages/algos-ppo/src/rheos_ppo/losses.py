"""The loss of PPO, written once over `xp`, and what is done to a batch before it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Coefficients, Networks
from rheos_ops.advantages import explained_variance, standardize
from rheos_ppo.policy import ActorCritic

__all__ = ["PPOLoss", "PrepareBatch", "columns_of"]


def columns_of(acts: ActorCritic) -> tuple[str, ...]:
    """Return the columns of a batch that PPO learns from; the first ones are those of the observations."""
    mask = ("action_mask",) if acts.has_mask else ()
    return (*acts.policy_torso.columns, *mask, "actions", "log_probs", "values", "advantages", "returns")


@dataclass(frozen=True)
class PPOLoss:
    """The clipped surrogate objective with a value loss and an entropy bonus.

    With the ratio r = exp(log π(a|s) - log π_old(a|s)), for a minibatch of N transitions:

        policy_loss = -mean(min(r A, clip(r, 1 - ε, 1 + ε) A))
        value_loss  = mean((V(s) - R)²) / 2
        loss        = policy_loss + c_v value_loss - c_e mean(H(π(.|s)))

    With a value clip range ε_v, the squared error is max((V - R)², (V_old + clip(V - V_old, -ε_v, ε_v) - R)²).

    ε and c_e are the coefficients `clip_range` and `entropy_coef`, since they may change during a run.

    Args:
        acts: the networks and the distribution.
        value_coef: c_v, at least 0.
        value_clip_range: ε_v, above 0, in the unit of the returns; None does not clip.
        normalize_advantages: standardize A within the minibatch first.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, equations 7 and 9; the clipped value loss is that of its authors'
        code (Engstrom et al. 2020, arXiv:2005.12729). approx_kl is the estimator mean(r - 1 - log r) of
        http://joschu.net/blog/kl-approx.html, which is never negative.
    """

    acts: ActorCritic
    value_coef: float
    value_clip_range: float | None = None
    normalize_advantages: bool = True

    def __call__(
        self, xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], coefficients: Coefficients
    ) -> tuple[Array, dict[str, Array]]:
        """Return the loss and its metrics, all scalars.

        Args:
            xp: the array namespace.
            networks: native networks by name.
            batch: the columns `columns_of`, each `[N, ...]`; `values` only where they are clipped.
            coefficients: `clip_range` and `entropy_coef`.
        """
        advantages, clip_range = batch["advantages"], coefficients["clip_range"]
        if self.normalize_advantages:
            advantages = standardize(xp, advantages)
        params, values = self.acts.params_and_values(xp, networks, batch)
        log_ratio = self.acts.distribution.log_prob(xp, params, batch["actions"]) - batch["log_probs"]
        ratio = xp.exp(log_ratio)
        clipped = xp.clip(ratio, 1.0 - clip_range, 1.0 + clip_range)
        policy_loss = -xp.mean(xp.minimum(ratio * advantages, clipped * advantages))
        value_loss = 0.5 * xp.mean(self._squared_errors(xp, values, batch))
        entropy = xp.mean(self.acts.distribution.entropy(xp, params))
        loss = policy_loss + self.value_coef * value_loss - coefficients["entropy_coef"] * entropy
        beyond, log_ratio = xp.stop_gradient(ratio) - 1.0, xp.stop_gradient(log_ratio)
        return loss, {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "approx_kl": xp.mean(beyond - log_ratio),
            "clip_fraction": xp.mean(xp.astype(xp.abs(beyond) > clip_range, xp.float32)),
        }

    def _squared_errors(self, xp: ArrayNamespace, values: Array, batch: Mapping[str, Array]) -> Array:
        errors = xp.square(values - batch["returns"])
        if self.value_clip_range is None:
            return errors
        moved = xp.clip(values - batch["values"], -self.value_clip_range, self.value_clip_range)
        return xp.maximum(errors, xp.square(batch["values"] + moved - batch["returns"]))


@dataclass(frozen=True)
class PrepareBatch:
    """What is done once to the rows of a batch before they are cut into minibatches, and measured of them.

    `explained_variance` tells how well the values foretold the returns: 1 - Var(R - V) / Var(R).
    `action_clip_fraction` is the share of the numbers with a bound that lay beyond it, so that the environment got
    another action than was drawn.

    Args:
        normalize_advantages: standardize the advantages over the whole batch.
        keeps_values: whether the loss reads `values`.
        action_bounds: `[size]` each, the lowest and highest numbers that reach the environment as they are, infinite
            where there is no bound; None where nothing is clipped.
    """

    normalize_advantages: bool
    keeps_values: bool
    action_bounds: tuple[Array, Array] | None = None

    def __call__(self, xp: ArrayNamespace, columns: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the columns to learn from and the metrics of the batch."""
        metrics = {"explained_variance": explained_variance(xp, columns["values"], columns["returns"])}
        if self.action_bounds is not None:
            low, high = (xp.asarray(bound) for bound in self.action_bounds)
            is_outside = xp.astype((columns["actions"] < low) | (columns["actions"] > high), xp.float32)
            is_bounded = xp.astype((low > -math.inf) | (high < math.inf), xp.float32)
            metrics["action_clip_fraction"] = xp.sum(xp.mean(is_outside, axis=0)) / xp.sum(is_bounded)
        kept = dict(columns)
        if not self.keeps_values:
            del kept["values"]
        if self.normalize_advantages:
            kept["advantages"] = standardize(xp, kept["advantages"])
        return kept, metrics
