"""The losses of Q-learning, written once over `xp`: of transitions, and of sequences that a memory is unrolled over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Coefficients, Networks
from rheos.spaces import ACTION_MASK
from rheos_apex.q_network import QNetwork, mean_of
from rheos_ops.q_learning import rescaled_targets, sequence_priorities
from rheos_ops.replay_learner import PRIORITIES, TARGET

__all__ = ["NOISE", "TARGET_NOISE", "QLearningLoss", "SequenceQLearningLoss", "columns_of", "sequence_columns_of"]

NOISE, TARGET_NOISE = "noise", "target_noise"
"""Columns of noise for the layers of the network and of its target, `[1, num_factors]`: one row for all."""


def columns_of(acts: QNetwork) -> tuple[str, ...]:
    """Return the columns of a batch that are learned from."""
    observed = acts.observed
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


def sequence_columns_of(acts: QNetwork) -> tuple[str, ...]:
    """Return the columns of a batch of sequences that are learned from."""
    of_steps = ("actions", "rewards", "discounts", "bootstraps", "mask")
    return (*acts.observed, "is_first", "memory", *of_steps, "weights")


@dataclass(frozen=True)
class SequenceQLearningLoss:
    """How far what is said of the actions of sequences lies from their targets.

    Both networks are unrolled over a sequence, from the memory that there was when it was acted: first over the steps
    of the burn-in, through which no gradient flows, then over the T steps to learn from. With the observation that
    comes k steps after that of step t, k as `rheos_ops.sequences` says, its return Rₖ and discount γᵏ, and h of
    `rescaled_targets`:

        a*      = argmax_a Q(sₜ₊ₖ, a)           (double), or argmax_a Q⁻(sₜ₊ₖ, a)
        targetₜ = h(Rₖ + γᵏ h⁻¹(Q⁻(sₜ₊ₖ, a*)))
        loss    = Σ w L(targetₜ, Q(sₜ, aₜ)) / Σ 1     over all steps of all sequences, without padding

    L is that of `MeanValues`; of several branches of actions, the target has the mean over them, and so has L. The
    importance weights w, one for each sequence, are linear in the loss.

    Args:
        acts: the network, with a memory.
        is_double: whether Q or Q⁻ chooses the next action.
        burn_in: steps before those that are learned from.
        rescale_epsilon: ε of h; None: nothing is rescaled.
        max_error_share: η of `sequence_priorities`.

    Source:
        Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning", section 2.3 and 3.
    """

    acts: QNetwork
    is_double: bool
    burn_in: int
    rescale_epsilon: float | None
    max_error_share: float

    def __call__(
        self, xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], coefficients: Coefficients
    ) -> tuple[Array, dict[str, Array]]:
        """Return the loss and its metrics: scalars, and the priorities `[N]`.

        Args:
            xp: the array namespace.
            networks: the native networks, each with its target.
            batch: the columns `sequence_columns_of`.
            coefficients: none.
        """
        acts, values, mask = self.acts, self.acts.values, batch["mask"]
        length = mask.shape[1]
        outputs = self._outputs(xp, networks, batch)
        targets = xp.reshape(xp.stop_gradient(self._targets(xp, networks, batch, outputs)), (-1, 1))
        of_steps = xp.reshape(outputs[:, :length], (-1, 1, acts.num_values))
        actions = xp.reshape(batch["actions"], (-1, *batch["actions"].shape[2:]))
        chosen = acts.of_actions(xp, of_steps, acts.split(actions))
        found = [values.losses(xp, each, targets) for each in chosen]
        losses, errors = (xp.reshape(mean_of(each), (-1, length)) for each in zip(*found, strict=True))
        counted = xp.astype(mask, xp.float32)
        total = xp.sum(counted)
        q_values = xp.reshape(xp.stop_gradient(mean_of(chosen)), (-1, length))
        return xp.sum(xp.expand_dims(batch["weights"], axis=-1) * counted * losses) / total, {
            "q_values": xp.sum(counted * q_values) / total,
            "td_errors": xp.sum(counted * errors) / total,
            PRIORITIES: sequence_priorities(xp, errors, mask, max_share=self.max_error_share),
        }

    def _outputs(self, xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array]) -> Array:
        """Return what is said of the actions at the steps to learn from, and at what the last one led to.

        `[N, T + 1, A]`, of which what lies behind the end of an episode means nothing.
        """
        observed = {name: _swapped(xp, batch[name]) for name in self.acts.torso.columns}
        is_first, memory, burn_in = _swapped(xp, batch["is_first"]), batch["memory"], self.burn_in
        if burn_in:
            before = {name: column[:burn_in] for name, column in observed.items()}
            _, memory = self.acts.unroll(xp, networks, before, memory, is_first[:burn_in])
        own = {name: column[burn_in:] for name, column in observed.items()}
        features, _ = self.acts.unroll(xp, networks, own, xp.stop_gradient(memory), is_first[burn_in:])
        rows = xp.reshape(_swapped(xp, features), (-1, features.shape[-1]))
        outputs = self.acts.outputs_of(xp, networks, rows)
        return xp.reshape(outputs, (-1, features.shape[0], self.acts.num_values))

    def _targets(self, xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], outputs: Array) -> Array:
        acts = self.acts
        valued = self._outputs(xp, {name: networks[TARGET + name] for name in acts.networks}, batch)
        num_observed, of_actions = outputs.shape[1], (-1, acts.num_values)
        masks = {}
        if acts.has_mask:
            masks[ACTION_MASK] = xp.reshape(batch[ACTION_MASK][:, self.burn_in :], of_actions)
        best = acts.best(xp, xp.reshape(outputs if self.is_double else valued, of_actions), masks)
        next_values = mean_of(acts.of_actions(xp, xp.reshape(valued, of_actions), best))
        next_values = xp.take_along_axis(xp.reshape(next_values, (-1, num_observed)), batch["bootstraps"], axis=1)
        return rescaled_targets(xp, batch["rewards"], batch["discounts"], next_values, epsilon=self.rescale_epsilon)


def _swapped(xp: ArrayNamespace, x: Array) -> Array:
    """Return `[N, T, ...]` as `[T, N, ...]`, and the other way round."""
    return xp.permute_dims(x, (1, 0, *range(2, len(x.shape))))


def _factors(batch: Mapping[str, Array], name: str) -> Array | None:
    return batch[name][0] if name in batch else None
