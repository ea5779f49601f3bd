"""The loss of REINFORCE, written once over `xp`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from my_algorithms.policy import SoftmaxPolicy
from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Coefficients, Networks
from rheos_ops.advantages import standardize

__all__ = ["COLUMNS", "ReinforceLoss"]

COLUMNS = ("observations", "actions", "returns")
"""The columns of a batch that the loss reads."""


@dataclass(frozen=True)
class ReinforceLoss:
    """The negative log-probability of what was done, weighted by how well it went.

    With the returns standardized over the batch, for N transitions:

        policy_loss = -mean(log π(a|s) R)

    Args:
        acts: the network and the distribution.
    """

    acts: SoftmaxPolicy

    def __call__(
        self, xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], coefficients: Coefficients
    ) -> tuple[Array, dict[str, Array]]:
        """Return the loss and its metrics, all scalars.

        Args:
            xp: the array namespace.
            networks: native networks by name.
            batch: the columns `COLUMNS`, each `[N, ...]`.
            coefficients: numbers that may change during a run; this loss has none.
        """
        logits = networks["policy"](batch["observations"])
        log_probs = self.acts.distribution.log_prob(xp, logits, batch["actions"])
        policy_loss = -xp.mean(log_probs * standardize(xp, batch["returns"]))
        return policy_loss, {
            "policy_loss": policy_loss,
            "entropy": xp.mean(self.acts.distribution.entropy(xp, logits)),
        }
