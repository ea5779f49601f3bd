"""The plugin of rheos-algos-ppo."""

from __future__ import annotations

from rheos.plugins.hooks import hookimpl
from rheos.plugins.specs import AlgorithmSpec

__all__ = ["rheos_algorithms"]


@hookimpl
def rheos_algorithms() -> list[AlgorithmSpec]:
    """Offer PPO."""
    return [
        AlgorithmSpec(
            name="ppo",
            summary="proximal policy optimisation (Schulman et al. 2017), synchronous and on-policy",
            config="rheos_ppo.config:PPOConfig",
            roles="rheos_ppo.roles:ppo_roles",
            flow="rheos_ppo.flow:ppo",
            policy="rheos_ppo.policy:ppo_policy",
        )
    ]
