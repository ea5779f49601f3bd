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
from rheos_ops.distributions import Categorical, distribution_for

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
        SpaceError: if the actions are not `Discrete`, or the observations hold images.
    """
    distribution = distribution_for(ActionAdapter(spaces.action))
    if not isinstance(distribution, Categorical):
        raise SpaceError(f"action: reinforce takes a Discrete action space, got {spaces.action}.")
    columns = ObservationAdapter(spaces.observation).columns
    if [(column.dtype.kind, len(column.shape)) for column in columns.values()] != [("f", 1)]:
        raise SpaceError(f"observation: reinforce takes numbers, no images, got {spaces.observation}.")
    network = MLP(
        columns["observations"].shape[0], distribution.num_outputs, hidden=(config.hidden_size,), output_scale=0.01
    )
    return SoftmaxPolicy(distribution, {"policy": network})


def reinforce_policy(spaces: Spaces, config: ReinforceConfig) -> PolicySpec:
    """Return how REINFORCE acts in some spaces."""
    acts = softmax_policy(spaces, config)
    return PolicySpec(
        networks=acts.networks, explore=acts.explore, exploit=acts.exploit, draw_noise=acts.distribution.draw_noise
    )
