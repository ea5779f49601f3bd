"""How PPO acts: a policy and a value network apart, and a distribution over the action space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Networks
from rheos.networks.specs import MLP, Activation, NetworkSpec, Parameter
from rheos.policies import PolicySpec
from rheos.spaces import ActionAdapter, ObservationAdapter, Spaces
from rheos_ops.distributions import Categorical, DiagonalGaussian, GaussianParams
from rheos_ppo.config import PPOConfig

__all__ = ["ActorCritic", "actor_critic", "ppo_policy"]


@dataclass(frozen=True)
class ActorCritic:
    """The functions of a policy that acts and of a critic that values, over `xp`."""

    distribution: Categorical | DiagonalGaussian
    networks: Mapping[str, NetworkSpec]

    def params(self, networks: Networks, observations: Array) -> Any:
        """Return the parameters of the distribution over actions, for observations `[B, D]`."""
        outputs = networks["policy"](observations)
        return GaussianParams(outputs, networks["log_std"](observations)) if "log_std" in self.networks else outputs

    def values(self, networks: Networks, observations: Array) -> Array:
        """Return V(s) `[B]` of observations `[B, D]`."""
        return networks["value"](observations)[..., 0]

    def explore(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Sample actions; give them with their log-probabilities and the values of the observations."""
        params = self.params(networks, inputs["observations"])
        actions = self.distribution.sample(xp, params, inputs["noise"])
        return {
            "actions": actions,
            "log_probs": self.distribution.log_prob(xp, params, actions),
            "values": self.values(networks, inputs["observations"]),
        }

    def exploit(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Give the most probable actions."""
        return {"actions": self.distribution.mode(xp, self.params(networks, inputs["observations"]))}


def actor_critic(spaces: Spaces, config: PPOConfig) -> ActorCritic:
    """Make the actor-critic for some spaces.

    Raises:
        SpaceError: if PPO cannot take a space; the message gives the path of the leaf and the reason.
    """
    inputs = ObservationAdapter(spaces.observation).size
    actions = ActionAdapter(spaces.action)
    activation = Activation(config.activation)

    def mlp(outputs: int, output_scale: float) -> MLP:
        return MLP(inputs, outputs, config.hidden_sizes, activation, output_scale=output_scale)

    critic = mlp(1, output_scale=1.0)
    # a small last layer: at the start all actions are about equally likely (Andrychowicz et al. 2021, arXiv:2006.05990)
    if actions.num_values is not None:
        return ActorCritic(
            Categorical(actions.num_values), {"policy": mlp(actions.num_values, output_scale=0.01), "value": critic}
        )
    assert actions.size is not None
    log_std = Parameter((actions.size,), config.initial_log_std)
    return ActorCritic(
        DiagonalGaussian(actions.size),
        {"policy": mlp(actions.size, output_scale=0.01), "value": critic, "log_std": log_std},
    )


def ppo_policy(spaces: Spaces, config: PPOConfig) -> PolicySpec:
    """Return how PPO acts in some spaces.

    Raises:
        SpaceError: if PPO cannot take a space; the message gives the path of the leaf and the reason.
    """
    acts = actor_critic(spaces, config)
    return PolicySpec(
        networks=acts.networks, explore=acts.explore, exploit=acts.exploit, draw_noise=acts.distribution.draw_noise
    )
