"""The loss of Q-learning, written once over `xp`: double or not, of the mean or the distribution of returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Coefficients, Networks
from rheos_apex.q_network import QNetwork, mean_of
from rheos_ops.replay_learner import PRIORITIES, TARGET

__all__ = ["NOISE", "TARGET_NOISE", "QLearningLoss", "columns_of"]

NOISE, TARGET_NOISE = "noise", "target_noise"
"""Columns of noise for the layers of the network and of its target, `[1, num_factors]`: one row for all."""


def columns_of(acts: QNetwork) -> tuple[str, ...]:
    """Return the columns of a batch that are learned from."""
    observed = (*acts.torso.columns, *(("action_mask",) if acts.has_mask else ()))
    noise = (NOISE, TARGET_NOISE) if acts.num_factors else ()
    return (*observed, *(f"next_{name}" for name in observed), "actions", "rewards", "discounts", "weights", *noise)


@dataclass(frozen=True)
class QLearningLoss:
    """How far what is said of the actions taken lies from their targets.

    With the return Rₙ of n steps, their discount γⁿ (0 after a terminal state) and importance weights w:

        a*     = argmax_a Q(s', a)           (double), or argmax_a Q⁻(s', a)
        target = Rₙ + γⁿ Q⁻(s', a*)
        loss   = mean(w L(target, Q(s, a)))

    where L and what is added up are those of the value distribution. Of several branches of actions, the target has
    the mean over them, and so has L. The weights are linear in the loss.

    Args:
        acts: the network.
        is_double: whether Q or Q⁻ chooses the next action.

    Source:
        Mnih et al. 2015, doi:10.1038/nature14236; van Hasselt et al. 2016, arXiv:1509.06461; importance weights:
        Schaul et al. 2016, arXiv:1511.05952, algorithm 1.
    """

    acts: QNetwork
    is_double: bool

    def __call__(
        self, xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], coefficients: Coefficients
    ) -> tuple[Array, dict[str, Array]]:
        """Return the loss and its metrics: scalars, and the priorities `[N]`.

        Args:
            xp: the array namespace.
            networks: the native networks, each with its target.
            batch: the columns `columns_of`, and where layers are noisy the noise.
            coefficients: none.
        """
        acts, values = self.acts, self.acts.values
        following = {name.removeprefix("next_"): column for name, column in batch.items() if name.startswith("next_")}
        targets = xp.stop_gradient(self._targets(xp, networks, batch, following))
        outputs = acts.outputs(xp, networks, batch, _factors(batch, NOISE))
        chosen = acts.of_actions(xp, outputs, acts.split(batch["actions"]))
        found = [values.losses(xp, each, targets) for each in chosen]
        losses, priorities = mean_of([loss for loss, _ in found]), mean_of([error for _, error in found])
        means = xp.stop_gradient(mean_of([values.means(xp, xp.expand_dims(each, axis=-1)) for each in chosen]))
        return xp.mean(batch["weights"] * losses), {
            "q_values": xp.mean(means),
            "td_errors": xp.mean(priorities),
            PRIORITIES: priorities,
        }

    def _targets(
        self, xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], following: Mapping[str, Array]
    ) -> Array:
        acts, values = self.acts, self.acts.values
        targets = {name: networks[TARGET + name] for name in acts.networks}
        valued = acts.outputs(xp, targets, following, _factors(batch, TARGET_NOISE))
        choosing = acts.outputs(xp, networks, following, _factors(batch, NOISE)) if self.is_double else valued
        best = acts.best(xp, values.means(xp, choosing), following)
        described = mean_of(acts.of_actions(xp, values.describe(xp, valued), best))
        return values.targets(xp, batch["rewards"], batch["discounts"], described)


def _factors(batch: Mapping[str, Array], name: str) -> Array | None:
    return batch[name][0] if name in batch else None
