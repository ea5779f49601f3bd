"""The loss of PPO, written once over `xp`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Networks
from rheos_ops.advantages import standardize
from rheos_ppo.policy import ActorCritic

__all__ = ["COLUMNS", "PPOLoss"]

COLUMNS = ("observations", "actions", "log_probs", "advantages", "returns")
"""The columns of a batch that the loss reads."""


@dataclass(frozen=True)
class PPOLoss:
    """The clipped surrogate objective with a value loss and an entropy bonus.

    With the ratio r = exp(log π(a|s) - log π_old(a|s)), for a minibatch of N transitions:

        policy_loss = -mean(min(r A, clip(r, 1 - ε, 1 + ε) A))
        value_loss  = mean((V(s) - R)²) / 2
        loss        = policy_loss + c_v value_loss - c_e mean(H(π(.|s)))

    Args:
        acts: the networks and the distribution.
        clip_range: ε, above 0.
        value_coef: c_v, at least 0.
        entropy_coef: c_e, at least 0.
        normalize_advantages: standardize A within the minibatch first.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, equations 7 and 9. approx_kl is the estimator
        mean(r - 1 - log r) of http://joschu.net/blog/kl-approx.html, which is never negative.
    """

    acts: ActorCritic
    clip_range: float
    value_coef: float
    entropy_coef: float
    normalize_advantages: bool = True

    def __call__(
        self, xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        """Return the loss and its metrics, all scalars.

        Args:
            xp: the array namespace.
            networks: native networks by name.
            batch: the columns `COLUMNS`, each `[N, ...]`.
        """
        advantages = batch["advantages"]
        if self.normalize_advantages:
            advantages = standardize(xp, advantages)
        params = self.acts.params(networks, batch["observations"])
        log_ratio = self.acts.distribution.log_prob(xp, params, batch["actions"]) - batch["log_probs"]
        ratio = xp.exp(log_ratio)
        clipped = xp.clip(ratio, 1.0 - self.clip_range, 1.0 + self.clip_range)
        policy_loss = -xp.mean(xp.minimum(ratio * advantages, clipped * advantages))
        value_loss = 0.5 * xp.mean(xp.square(self.acts.values(networks, batch["observations"]) - batch["returns"]))
        entropy = xp.mean(self.acts.distribution.entropy(xp, params))
        loss = policy_loss + self.value_coef * value_loss - self.entropy_coef * entropy
        return loss, {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "approx_kl": xp.mean(xp.stop_gradient(ratio - 1.0 - log_ratio)),
            "clip_fraction": xp.mean(xp.astype(xp.abs(ratio - 1.0) > self.clip_range, xp.float32)),
        }
