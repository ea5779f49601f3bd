"""The plugin: what the package offers."""

from __future__ import annotations

from rheos import hookimpl
from rheos.plugins.specs import AlgorithmSpec


@hookimpl
def rheos_algorithms() -> list[AlgorithmSpec]:
    """Offer hill climbing."""
    return [
        AlgorithmSpec(
            name="hillclimb",
            summary="keeps the best of some random changes of the weights",
            config="hillclimb.config:HillClimbConfig",
            roles="hillclimb.climbing:hillclimb_roles",
            flow="hillclimb.climbing:hillclimb",
            policy="hillclimb.climbing:linear_policy",
        )
    ]
