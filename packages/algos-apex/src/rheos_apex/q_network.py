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
from rheos.networks.specs import LSTM, MLP, Activation, NetworkSpec
from rheos.spaces import ACTION_MASK, ActionAdapter, ObservationAdapter, Spaces
from rheos_apex.config import QLearningConfig, R2D2Config, ReplayConfig
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

    With an LSTM between torso and heads it has a memory: what is said of an action depends on the steps before. Then
    the functions by which it acts also take the columns `memory` `[N, S]` and `is_first` `[N]`, and give `memory`.

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
    lstm: LSTM | None = None
    """The memory, a network of this name, too."""

    @property
    def observed(self) -> tuple[str, ...]:
        """The columns of observations that it reads."""
        return (*self.torso.columns, *((ACTION_MASK,) if self.has_mask else ()))

    @property
    def memory_size(self) -> int:
        """S: the numbers of its memory; 0 without one."""
        return 0 if self.lstm is None else self.lstm.state_size

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
            inputs: columns of observations, and of the memory where there is one.
            factors: noise of `draw_factors`, `[num_factors]`; None gives what is expected of noisy layers.
        """
        return self._step(xp, networks, inputs, factors)[0]

    def unroll(
        self, xp: ArrayNamespace, networks: Networks, observed: Mapping[str, Array], memory: Array, is_first: Array
    ) -> tuple[Array, Array]:
        """Return the features of the LSTM, `[T, N, units]`, which `outputs_of` reads, and the memory after all steps.

        Args:
            xp: the namespace of the arrays.
            networks: native networks by name.
            observed: columns of observations, `[T, N, ...]`.
            memory: before the first step, `[N, S]`.
            is_first: `[T, N]`, bool: whether an episode begins, before which the memory is 0.
        """
        rows = {name: xp.reshape(column, (-1, *column.shape[2:])) for name, column in observed.items()}
        features = self._features(xp, networks, rows)
        by_step = xp.reshape(features, (is_first.shape[0], -1, features.shape[-1]))
        unrolled: tuple[Array, Array] = networks["lstm"](by_step, memory, is_first)
        return unrolled

    def outputs_of(
        self, xp: ArrayNamespace, networks: Networks, features: Array, factors: Array | None = None
    ) -> Array:
        """Return what the heads make of features `[N, ...]`: see `outputs`."""
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
        outputs, remembered = self._step(xp, networks, inputs, None)
        means = self.values.means(xp, outputs)
        return {"actions": self.joined(xp, self.best(xp, means, inputs)), **remembered}

    def explore(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Give the best actions, and where `epsilons` `[N]` says so random ones, which are all alike."""
        _, actions, remembered = self._explored(xp, networks, inputs)
        return {"actions": self.joined(xp, actions), **remembered}

    def explore_with_values(
        self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Give actions as `explore` does, `values` of the best ones and `chosen_values` of those, `[N]` each."""
        means, actions, remembered = self._explored(xp, networks, inputs)
        best = self.of_actions(xp, means, self.best(xp, means, inputs))
        return {
            "actions": self.joined(xp, actions),
            "values": mean_of(best),
            "chosen_values": mean_of(self.of_actions(xp, means, actions)),
            **remembered,
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

    def _features(self, xp: ArrayNamespace, networks: Networks, observed: Mapping[str, Array]) -> Array:
        """Return what torso and trunk make of observations, `[N, ...]`."""
        features = self.torso(xp, networks, observed)
        return networks["trunk"](features) if "trunk" in self.networks else features

    def _step(
        self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array], factors: Array | None
    ) -> tuple[Array, dict[str, Array]]:
        """Return the outputs `[N, K, A]`, and the memory afterwards, where there is one."""
        features = self._features(xp, networks, inputs)
        if self.lstm is None:
            return self.outputs_of(xp, networks, features, factors), {}
        is_first = xp.expand_dims(inputs["is_first"], axis=0)
        features, memory = networks["lstm"](xp.expand_dims(features, axis=0), inputs["memory"], is_first)
        return self.outputs_of(xp, networks, features[0], factors), {"memory": memory}

    def _explored(
        self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]
    ) -> tuple[Array, list[Array], dict[str, Array]]:
        noise, end = inputs["noise"], 1 + self.num_values
        factors = noise[0, end:] if self.num_factors else None  # the same for all rows
        outputs, remembered = self._step(xp, networks, inputs, factors)
        means = self.values.means(xp, outputs)
        best = self.best(xp, means, inputs)
        if "epsilons" not in inputs:
            return means, best, remembered
        is_random = noise[:, 0] < inputs["epsilons"]
        random = self.best(xp, noise[:, 1:end], inputs)
        actions = [xp.where(is_random, other, first) for other, first in zip(random, best, strict=True)]
        return means, actions, remembered


def mean_of(numbers: Sequence[Array]) -> Array:
    """Return the mean of arrays of one shape."""
    total = numbers[0]
    for array in numbers[1:]:
        total = total + array
    return total if len(numbers) == 1 else total / len(numbers)


def q_network(spaces: Spaces, config: ReplayConfig) -> QNetwork:
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
    sigma = config.noisy_sigma if isinstance(config, QLearningConfig) and config.noisy else None
    own = hidden[-1:] if config.dueling or sigma is not None else ()  # layers of each head
    shared = hidden[: len(hidden) - len(own)]

    networks = dict(torso.networks)
    size = torso.size
    if shared:
        networks["trunk"] = MLP(size, shared[-1], shared[:-1], activation, output_scale=2.0**0.5, activates_output=True)
        size = shared[-1]
    lstm = None
    if isinstance(config, R2D2Config):
        networks["lstm"] = lstm = LSTM(size, config.lstm_units)
        size = config.lstm_units
    noisy = None
    if sigma is not None:
        noisy = {name: NoisyMLP(name, size, n, own, activation, sigma) for name, n in sizes.items()}
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
        lstm=lstm,
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
