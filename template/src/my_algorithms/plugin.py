"""What this package offers, as names and strings: it is imported whenever Rheos starts, so it imports nothing heavy."""

from __future__ import annotations

from rheos.plugins.hooks import hookimpl
from rheos.plugins.specs import AlgorithmSpec

__all__ = ["rheos_algorithms"]


@hookimpl
def rheos_algorithms() -> list[AlgorithmSpec]:
    """Offer REINFORCE."""
    return [
        AlgorithmSpec(
            name="reinforce",
            summary="the plain policy gradient (Williams 1992)",
            config="my_algorithms.config:ReinforceConfig",
            roles="my_algorithms.roles:reinforce_roles",
            flow="my_algorithms.flow:reinforce",
            policy="my_algorithms.policy:reinforce_policy",
        )
    ]
