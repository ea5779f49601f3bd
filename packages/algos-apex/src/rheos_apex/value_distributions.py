"""What is learned of the return of an action: its mean, its distribution on fixed atoms, or its quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos_apex.config import QLearningConfig, ReplayConfig
from rheos_ops.distributional import project_distribution, quantile_huber
from rheos_ops.q_learning import huber

__all__ = ["CategoricalValues", "MeanValues", "QuantileValues", "ValueDistribution", "value_distribution_of"]


class ValueDistribution(Protocol):
    """What `num_outputs` numbers of a network say of the return of an action.

    Outputs are `[N, K, A]`: K numbers for each of A actions. `described` are numbers of which a mean over several
    actions makes sense, which the outputs need not be.
    """

    @property
    def num_outputs(self) -> int:
        """K."""
        ...

    def means(self, xp: ArrayNamespace, outputs: Array) -> Array:
        """Return the expected returns, `[N, A]`."""
        ...

    def describe(self, xp: ArrayNamespace, outputs: Array) -> Array:
        """Return the outputs as what a mean can be taken of, `[N, K, A]`."""
        ...

    def targets(self, xp: ArrayNamespace, rewards: Array, discounts: Array, described: Array) -> Array:
        """Return what r + γ times the described return is, `[N, K]`.

        Args:
            xp: the namespace of the arrays.
            rewards: r, `[N]`.
            discounts: γⁿ, `[N]`; 0 where the episode terminated.
            described: of the action that follows, `[N, K]`.
        """
        ...

    def losses(self, xp: ArrayNamespace, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """Return the loss of each row and how wrong it was, `[N]` each; the second is at least 0 and has no gradient.

        Args:
            xp: the namespace of the arrays.
            outputs: of the action that was taken, `[N, K]`.
            targets: `[N, K]`, constant to the gradient.
        """
        ...


@dataclass(frozen=True)
class MeanValues:
    """The mean alone, by the square of the TD error or its Huber loss; a row is as wrong as the error is large."""

    huber_delta: float | None = None
    """None: the square."""

    @property
    def num_outputs(self) -> int:
        """One."""
        return 1

    def means(self, xp: ArrayNamespace, outputs: Array) -> Array:
        """Return the outputs."""
        return outputs[:, 0, :]

    def describe(self, xp: ArrayNamespace, outputs: Array) -> Array:
        """Return the outputs."""
        return outputs

    def targets(self, xp: ArrayNamespace, rewards: Array, discounts: Array, described: Array) -> Array:
        """Return r + γ Q, `[N, 1]`."""
        return xp.expand_dims(rewards, axis=-1) + xp.expand_dims(discounts, axis=-1) * described

    def losses(self, xp: ArrayNamespace, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """Return half the square or the Huber loss, and the size of the TD error."""
        errors, delta = (targets - outputs)[:, 0], self.huber_delta
        losses = 0.5 * xp.square(errors) if delta is None else huber(xp, errors, delta=delta)
        return losses, xp.abs(xp.stop_gradient(errors))


@dataclass(frozen=True)
class CategoricalValues:
    """Probabilities of evenly spaced returns (C51): outputs are logits, a row is as wrong as its divergence is large.

    Source:
        Bellemare et al. 2017, arXiv:1707.06887, algorithm 1; the divergence as priority, Hessel et al. 2018,
        arXiv:1710.02298.
    """

    num_atoms: int
    low: float
    high: float

    @property
    def num_outputs(self) -> int:
        """One for each atom."""
        return self.num_atoms

    def support(self, xp: ArrayNamespace) -> Array:
        """Return the atoms, `[K]`."""
        step = (self.high - self.low) / (self.num_atoms - 1)
        return xp.asarray([self.low + index * step for index in range(self.num_atoms)], xp.float32)

    def means(self, xp: ArrayNamespace, outputs: Array) -> Array:
        """Return Σ p z."""
        return xp.sum(xp.softmax(outputs, axis=1) * xp.expand_dims(self.support(xp), axis=-1), axis=1)

    def describe(self, xp: ArrayNamespace, outputs: Array) -> Array:
        """Return the probabilities."""
        return xp.softmax(outputs, axis=1)

    def targets(self, xp: ArrayNamespace, rewards: Array, discounts: Array, described: Array) -> Array:
        """Return the probabilities of r + γ z, moved onto the atoms."""
        support = self.support(xp)
        atoms = xp.expand_dims(rewards, axis=-1) + xp.expand_dims(discounts, axis=-1) * support
        return project_distribution(xp, atoms, described, support)

    def losses(self, xp: ArrayNamespace, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """Return the cross-entropy, and by how much it exceeds what a perfect prediction has."""
        losses = -xp.sum(targets * xp.log_softmax(outputs), axis=-1)
        entropies = -xp.sum(targets * xp.log(xp.clip(targets, 1e-12, None)), axis=-1)
        return losses, xp.relu(xp.stop_gradient(losses) - entropies)


@dataclass(frozen=True)
class QuantileValues:
    """Quantiles of the return (QR-DQN); a row is as wrong as its loss is large.

    Source:
        Dabney et al. 2018, arXiv:1710.10044.
    """

    num_quantiles: int
    huber_delta: float = 1.0

    @property
    def num_outputs(self) -> int:
        """One for each quantile."""
        return self.num_quantiles

    def means(self, xp: ArrayNamespace, outputs: Array) -> Array:
        """Return the mean of the quantiles."""
        return xp.mean(outputs, axis=1)

    def describe(self, xp: ArrayNamespace, outputs: Array) -> Array:
        """Return the quantiles."""
        return outputs

    def targets(self, xp: ArrayNamespace, rewards: Array, discounts: Array, described: Array) -> Array:
        """Return r + γ θ."""
        return xp.expand_dims(rewards, axis=-1) + xp.expand_dims(discounts, axis=-1) * described

    def losses(self, xp: ArrayNamespace, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """Return the quantile regression loss, twice."""
        losses = quantile_huber(xp, outputs, targets, kappa=self.huber_delta)
        return losses, xp.stop_gradient(losses)


def value_distribution_of(config: ReplayConfig) -> ValueDistribution:
    """Return what the settings say is learned: the mean, where they have no word for it."""
    if not isinstance(config, QLearningConfig):
        return MeanValues(config.huber_delta)
    if config.value_distribution == "categorical":
        return CategoricalValues(config.num_atoms, config.value_min, config.value_max)
    if config.value_distribution == "quantile":
        return QuantileValues(config.num_atoms, config.huber_delta or 1.0)
    return MeanValues(config.huber_delta)
