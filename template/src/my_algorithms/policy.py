"""How REINFORCE acts: a softmax over the actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from my_algorithms.config import ReinforceConfig
from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Networks
from rheos.errors import SpaceError
from rheos.networks.specs import MLP, NetworkSpec
from rheos.policies import PolicySpec
from rheos.spaces import ActionAdapter, ObservationAdapter, Spaces
from rheos_ops.distributions import Categorical

__all__ = ["SoftmaxPolicy", "reinforce_policy", "softmax_policy"]


@dataclass(frozen=True)
class SoftmaxPolicy:
    """The functions of the policy, over `xp`."""

    distribution: Categorical
    networks: Mapping[str, NetworkSpec]

    def explore(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Sample actions."""
        logits = networks["policy"](inputs["observations"])
        return {"actions": self.distribution.sample(xp, logits, inputs["noise"])}

    def exploit(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Give the most probable actions."""
        return {"actions": self.distribution.mode(xp, networks["policy"](inputs["observations"]))}


def softmax_policy(spaces: Spaces, config: ReinforceConfig) -> SoftmaxPolicy:
    """Make the policy for some spaces.

    Raises:
        SpaceError: if the actions are not `Discrete`.
    """
    num_actions = ActionAdapter(spaces.action).num_values
    if num_actions is None:
        raise SpaceError(f"action: reinforce takes a Discrete action space, got {spaces.action}.")
    inputs = ObservationAdapter(spaces.observation).size
    network = MLP(inputs, num_actions, hidden=(config.hidden_size,), output_scale=0.01)
    return SoftmaxPolicy(Categorical(num_actions), {"policy": network})


def reinforce_policy(spaces: Spaces, config: ReinforceConfig) -> PolicySpec:
    """Return how REINFORCE acts in some spaces."""
    acts = softmax_policy(spaces, config)
    return PolicySpec(
        networks=acts.networks, explore=acts.explore, exploit=acts.exploit, draw_noise=acts.distribution.draw_noise
    )
