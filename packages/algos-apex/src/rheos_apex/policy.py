"""How the family acts: greedily, and to explore at random now and then, or with noise in its layers."""

from __future__ import annotations

from rheos.policies import PolicySpec
from rheos.spaces import Spaces
from rheos_apex.config import ReplayConfig
from rheos_apex.q_network import q_network

__all__ = ["q_policy"]


def q_policy(spaces: Spaces, config: ReplayConfig, *, gives_values: bool = False) -> PolicySpec:
    """Return how to act in some spaces.

    Args:
        spaces: of the environment.
        config: of the algorithm.
        gives_values: whether the worker needs `values` and `chosen_values`, of which it makes priorities.

    Raises:
        SpaceError: if a space cannot be taken; the message gives the path of the leaf and the reason.
    """
    acts = q_network(spaces, config)
    return PolicySpec(
        networks=acts.networks,
        explore=acts.explore_with_values if gives_values else acts.explore,
        exploit=acts.exploit,
        draw_noise=acts.draw_noise,
        value=acts.value if gives_values and not acts.memory_size else None,
        memory_size=acts.memory_size,
    )
