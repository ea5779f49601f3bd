"""How PPO acts: a policy and a value function over the features of a torso, and a distribution over actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Networks
from rheos.errors import ConfigError
from rheos.networks.specs import MLP, Activation, NetworkSpec, Normalizer, Parameter
from rheos.policies import PolicySpec
from rheos.spaces import ActionAdapter, Column, ObservationAdapter, Spaces
from rheos_ops.distributions import Categorical, Distribution, MultiCategorical, distribution_for
from rheos_ops.torsos import NativeTorso, Torso, make_native_torso, make_torso
from rheos_ppo.config import PPOConfig

__all__ = ["REWARD_NORMALIZER", "ActorCritic", "actor_critic", "ppo_policy"]

REWARD_NORMALIZER = "reward_normalizer"
"""The name of the network that normalises rewards."""

_HIDDEN_SIZES = (64, 64)
_RESIDUAL = "resnet"


@dataclass(frozen=True)
class ActorCritic:
    """The functions of a policy that acts and of a critic that values, over `xp`.

    Columns are rows `[N, ...]`. Where policy and value share their trunk, it is run once for both.
    """

    distribution: Distribution
    networks: Mapping[str, NetworkSpec]
    policy_torso: Torso | NativeTorso
    value_torso: Torso | NativeTorso
    """The policy's own where they share it."""
    has_mask: bool = False
    """Whether the column `action_mask` says which actions are allowed."""

    def params(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> Array:
        """Return the parameters of the distribution over actions, `[N, P]`."""
        return self._params(xp, networks, inputs, self._features(xp, networks, inputs, self.policy_torso))

    def values(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> Array:
        """Return V(s), `[N]`."""
        return networks["value"](self._features(xp, networks, inputs, self.value_torso))[..., 0]

    def params_and_values(
        self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]
    ) -> tuple[Array, Array]:
        """Return both, for less than one after the other where they share a trunk."""
        if self.value_torso is not self.policy_torso:
            return self.params(xp, networks, inputs), self.values(xp, networks, inputs)
        features = self._features(xp, networks, inputs, self.policy_torso)
        return self._params(xp, networks, inputs, features), networks["value"](features)[..., 0]

    def explore(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Sample actions; give them with the parameters that they were drawn by."""
        params = self.params(xp, networks, inputs)
        return {"actions": self.distribution.sample(xp, params, inputs["noise"]), "params": params}

    def annotate(self, xp: ArrayNamespace, networks: Networks, columns: Mapping[str, Array]) -> dict[str, Array]:
        """Give the log-probabilities of the actions that were drawn, and the rewards normalised where asked for."""
        log_probs = self.distribution.log_prob(xp, columns["params"], columns["actions"])
        if REWARD_NORMALIZER not in self.networks:
            return {"log_probs": log_probs}
        rewards = networks[REWARD_NORMALIZER](xp.expand_dims(columns["rewards"], axis=-1))
        return {"log_probs": log_probs, "normalized_rewards": rewards[..., 0]}

    def value(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Give the values of observations."""
        return {"values": self.values(xp, networks, inputs)}

    def exploit(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Give the most probable actions."""
        return {"actions": self.distribution.mode(xp, self.params(xp, networks, inputs))}

    def _features(
        self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array], torso: Torso | NativeTorso
    ) -> Array:
        features = torso(xp, networks, inputs)
        return networks["trunk"](features) if "trunk" in self.networks else features

    def _params(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array], features: Array) -> Array:
        outputs = networks["policy"](features)
        if self.has_mask:
            assert isinstance(self.distribution, Categorical | MultiCategorical)
            return self.distribution.mask(xp, outputs, inputs["action_mask"])
        size = self.distribution.num_log_stds
        if not size:
            return outputs
        log_std = networks["log_std"](features) + xp.zeros_like(outputs[..., :1])
        return xp.concat([outputs, log_std], axis=-1)


def actor_critic(spaces: Spaces, config: PPOConfig) -> ActorCritic:
    """Make the actor-critic for some spaces.

    Raises:
        SpaceError: if PPO cannot take a space; the message gives the path of the leaf and the reason.
        ConfigError: if settings of the torso contradict each other.
    """
    columns = ObservationAdapter(spaces.observation, spaces.action).columns
    distribution = distribution_for(ActionAdapter(spaces.action), squash=config.squash_actions)

    policy_torso = _torso(columns, config)
    is_shared = bool(policy_torso.images) if config.shared_trunk is None else config.shared_trunk
    value_torso = policy_torso if is_shared else _torso(columns, config, prefix="value_")
    hidden = config.hidden_sizes
    if hidden is None:
        hidden = () if policy_torso.is_only_images else _HIDDEN_SIZES
    activation = Activation(config.activation)
    networks = {**policy_torso.networks, **value_torso.networks}
    size = policy_torso.size
    if is_shared and hidden:
        networks["trunk"] = MLP(size, hidden[-1], hidden[:-1], activation, output_scale=2.0**0.5, activates_output=True)
        size, hidden = hidden[-1], ()
    # a small last layer: at the start all actions are about equally likely (Andrychowicz et al. 2021, arXiv:2006.05990)
    networks["policy"] = MLP(size, distribution.num_outputs, hidden, activation, output_scale=0.01)
    networks["value"] = MLP(size, 1, hidden, activation)
    if distribution.num_log_stds:
        networks["log_std"] = Parameter((distribution.num_log_stds,), config.initial_log_std)
    if config.normalize_rewards:
        networks[REWARD_NORMALIZER] = Normalizer(1)
    return ActorCritic(distribution, networks, policy_torso, value_torso, has_mask="action_mask" in columns)


def _torso(columns: Mapping[str, Column], config: PPOConfig, *, prefix: str = "") -> Torso | NativeTorso:
    reference, size = config.torso, config.torso_outputs
    is_own = reference is not None and reference != _RESIDUAL
    others = {
        "algo.filters": config.filters is not None and reference is not None,
        "algo.normalize_observations": config.normalize_observations and is_own,
        "algo.torso_outputs": size is not None and not is_own,
    }
    for name, is_without_effect in others.items():
        if is_without_effect:
            raise ConfigError(f"{name} has no effect with algo.torso={reference or 'null'}: leave it at its default.")
    if reference is None or not is_own:
        return make_torso(
            columns,
            prefix=prefix,
            filters=config.filters,
            is_residual=reference == _RESIDUAL,
            normalizes=config.normalize_observations,
        )
    if ":" not in reference:
        raise ConfigError(f"algo.torso: got {reference!r}, expected resnet, package.module:function, or null.")
    if size is None:
        raise ConfigError(f"algo.torso_outputs: expected the number of features that {reference} gives, got null.")
    return make_native_torso(columns, reference, size, prefix=prefix)


def ppo_policy(spaces: Spaces, config: PPOConfig) -> PolicySpec:
    """Return how PPO acts in some spaces.

    Raises:
        SpaceError: if PPO cannot take a space; the message gives the path of the leaf and the reason.
    """
    acts = actor_critic(spaces, config)
    return PolicySpec(
        networks=acts.networks,
        explore=acts.explore,
        exploit=acts.exploit,
        draw_noise=acts.distribution.draw_noise,
        annotate=acts.annotate,
        value=acts.value,
    )
