"""QNetwork: values of all actions from observations, over `xp`, by which is acted and learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Networks
from rheos.errors import SpaceError
from rheos.networks.specs import MLP, Activation, NetworkSpec
from rheos.spaces import ACTION_MASK, ActionAdapter, ObservationAdapter, Spaces
from rheos_apex.config import QLearningConfig
from rheos_apex.noisy import NoisyMLP, draw_factors
from rheos_apex.value_distributions import ValueDistribution, value_distribution_of
from rheos_ops.q_learning import dueling_q_values
from rheos_ops.torsos import Torso, make_torso

__all__ = ["QNetwork", "q_network"]

_HIDDEN_SIZES = (64, 64)
_NOT_ALLOWED = -1e9
"""What the value of an action that is not allowed counts as where the best one is looked for."""


@dataclass(frozen=True)
class QNetwork:
    """What is expected of every action, and the best actions by it.

    Actions are a choice in each of several branches (one for a Discrete space), of `branches[d]` values in the d-th:
    A in all. Rows are `[N, ...]`.

    Source:
        Branches: Tavakoli et al. 2018, arXiv:1711.08946, with the mean over the branches as target.
    """

    networks: Mapping[str, NetworkSpec]
    torso: Torso
    branches: tuple[int, ...]
    values: ValueDistribution
    is_dueling: bool
    is_single: bool
    """Whether an action is one number, not a row of them."""
    has_mask: bool = False
    """Whether the column `action_mask` says which actions are allowed."""
    noisy: Mapping[str, NoisyMLP] | None = None
    """The layers with noise, in place of the networks of these names."""

    @property
    def num_values(self) -> int:
        """A: the values of all branches."""
        return sum(self.branches)

    @property
    def num_factors(self) -> int:
        """How many numbers of noise its layers take."""
        return sum(layer.num_factors for layer in (self.noisy or {}).values())

    def outputs(
        self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array], factors: Array | None = None
    ) -> Array:
        """Return what the network says of each action, `[N, K, A]`, as `values` reads it.

        Args:
            xp: the namespace of the arrays.
            networks: native networks by name.
            inputs: columns of observations.
            factors: noise of `draw_factors`, `[num_factors]`; None gives what is expected of noisy layers.
        """
        features = self.torso(xp, networks, inputs)
        if "trunk" in self.networks:
            features = networks["trunk"](features)
        size = self.values.num_outputs
        names = ("value", "advantages") if self.is_dueling else ("q",)
        given = []
        begin = 0
        for name in names:
            layer = None if self.noisy is None else self.noisy[name]
            if layer is None:
                given.append(networks[name](features))
            else:
                end = begin + layer.num_factors
                given.append(layer(xp, networks, features, None if factors is None else factors[begin:end]))
                begin = end
        of_actions = xp.reshape(given[-1], (-1, size, self.num_values))
        if not self.is_dueling:
            return of_actions
        return xp.concat([dueling_q_values(xp, given[0], of_actions[..., branch]) for branch in self.slices], axis=-1)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where each branch lies among the values."""
        return tuple(slice(end - size, end) for end, size in zip(accumulate(self.branches), self.branches, strict=True))

    def best(self, xp: ArrayNamespace, values: Array, inputs: Mapping[str, Array]) -> list[Array]:
        """Return the best value of each branch among those that are allowed, int32 `[N]` each.

        Args:
            xp: the namespace of the arrays.
            values: `[N, A]`.
            inputs: columns of observations, which may have a mask.
        """
        if self.has_mask:
            values = xp.where(inputs[ACTION_MASK], values, _NOT_ALLOWED)
        return [xp.argmax(values[:, branch]) for branch in self.slices]

    def of_actions(self, xp: ArrayNamespace, numbers: Array, actions: Sequence[Array]) -> list[Array]:
        """Return from numbers for all actions, `[N, ..., A]`, those of the chosen one of each branch, `[N, ...]`."""
        return [
            self._of_action(xp, numbers[..., branch], action)
            for branch, action in zip(self.slices, actions, strict=True)
        ]

    @staticmethod
    def _of_action(xp: ArrayNamespace, numbers: Array, action: Array) -> Array:
        if len(numbers.shape) == 2:
            return xp.pick(numbers, action)
        if numbers.shape[1] == 1:
            return xp.expand_dims(xp.pick(numbers[:, 0], action), axis=-1)
        is_chosen = xp.expand_dims(xp.one_hot(action, numbers.shape[-1]), axis=1)
        return xp.sum(numbers * is_chosen, axis=-1)

    def split(self, actions: Array) -> list[Array]:
        """Return encoded actions branch by branch, `[N]` each."""
        return [actions] if self.is_single else [actions[:, index] for index in range(len(self.branches))]

    def joined(self, xp: ArrayNamespace, actions: Sequence[Array]) -> Array:
        """Return actions as they are encoded."""
        return actions[0] if self.is_single else xp.stack(actions, axis=-1)

    # how it acts

    def exploit(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Give the best actions."""
        means = self.values.means(xp, self.outputs(xp, networks, inputs))
        return {"actions": self.joined(xp, self.best(xp, means, inputs))}

    def explore(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Give the best actions, and where `epsilons` `[N]` says so random ones, which are all alike."""
        return {"actions": self.joined(xp, self._explored(xp, networks, inputs)[1])}

    def explore_with_values(
        self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Give actions as `explore` does, `values` of the best ones and `chosen_values` of those, `[N]` each."""
        means, actions = self._explored(xp, networks, inputs)
        best = self.of_actions(xp, means, self.best(xp, means, inputs))
        return {
            "actions": self.joined(xp, actions),
            "values": mean_of(best),
            "chosen_values": mean_of(self.of_actions(xp, means, actions)),
        }

    def value(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Give the values of the best actions, `[N]`."""
        means = self.values.means(xp, self.outputs(xp, networks, inputs))
        return {"values": mean_of(self.of_actions(xp, means, self.best(xp, means, inputs)))}

    def draw_noise(self, generator: np.random.Generator, num: int) -> npt.NDArray[np.float32]:
        """Draw noise for `num` actions, `[num, 1 + A + num_factors]`: whether to explore, what, and for the layers."""
        uniform = generator.random((num, 1 + self.num_values), np.float32)
        if not self.num_factors:
            return uniform
        return np.concatenate([uniform, draw_factors(generator, num, self.num_factors)], axis=1)

    def _explored(
        self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]
    ) -> tuple[Array, list[Array]]:
        noise, end = inputs["noise"], 1 + self.num_values
        factors = noise[0, end:] if self.num_factors else None  # the same for all rows
        means = self.values.means(xp, self.outputs(xp, networks, inputs, factors))
        best = self.best(xp, means, inputs)
        if "epsilons" not in inputs:
            return means, best
        is_random = noise[:, 0] < inputs["epsilons"]
        random = self.best(xp, noise[:, 1:end], inputs)
        return means, [xp.where(is_random, other, first) for other, first in zip(random, best, strict=True)]


def mean_of(numbers: Sequence[Array]) -> Array:
    """Return the mean of arrays of one shape."""
    total = numbers[0]
    for array in numbers[1:]:
        total = total + array
    return total if len(numbers) == 1 else total / len(numbers)


def q_network(spaces: Spaces, config: QLearningConfig) -> QNetwork:
    """Make the network for some spaces.

    Raises:
        SpaceError: if the actions are neither Discrete nor MultiDiscrete; the message says which they are.
    """
    columns = ObservationAdapter(spaces.observation, spaces.action).columns
    adapter = ActionAdapter(spaces.action)
    branches = _branches(spaces.action)
    torso = make_torso(columns, filters=config.filters)
    hidden = config.hidden_sizes
    if hidden is None:
        hidden = () if torso.is_only_images else _HIDDEN_SIZES
    values = value_distribution_of(config)
    activation = Activation(config.activation)
    sizes = {"q": values.num_outputs * sum(branches)}
    if config.dueling:
        sizes = {"value": values.num_outputs, "advantages": sizes["q"]}
    own = hidden[-1:] if config.dueling or config.noisy else ()  # layers of each head
    shared = hidden[: len(hidden) - len(own)]

    networks = dict(torso.networks)
    size = torso.size
    if shared:
        networks["trunk"] = MLP(size, shared[-1], shared[:-1], activation, output_scale=2.0**0.5, activates_output=True)
        size = shared[-1]
    noisy = None
    if config.noisy:
        noisy = {name: NoisyMLP(name, size, n, own, activation, config.noisy_sigma) for name, n in sizes.items()}
        for layer in noisy.values():
            networks |= layer.networks
    else:
        networks |= {name: MLP(size, outputs, own, activation) for name, outputs in sizes.items()}
    return QNetwork(
        networks=networks,
        torso=torso,
        branches=branches,
        values=values,
        is_dueling=config.dueling,
        is_single=adapter.shape == (),
        has_mask=ACTION_MASK in columns,
        noisy=noisy,
    )


def _branches(space: gym.Space[object]) -> tuple[int, ...]:
    if isinstance(space, gym.spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, gym.spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return tuple(int(n) for n in space.nvec)
    raise SpaceError(
        f"action: got {space}, expected Discrete or MultiDiscrete: Q-learning compares the values of all actions. For "
        "other actions take algo=ppo."
    )
