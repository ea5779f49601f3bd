"""The plugin of rheos-algos-apex."""

from __future__ import annotations

from rheos.plugins.hooks import hookimpl
from rheos.plugins.specs import AlgorithmSpec

__all__ = ["rheos_algorithms"]


@hookimpl
def rheos_algorithms() -> list[AlgorithmSpec]:
    """Offer DQN, its presets, Ape-X and R2D2."""
    return [
        _dqn("dqn", "deep Q-learning (Mnih et al. 2015), its improvements as switches", "DQNConfig"),
        _dqn("rainbow", "DQN with six improvements at once (Hessel et al. 2018)", "RainbowConfig"),
        _dqn("qrdqn", "DQN that learns quantiles of the return (Dabney et al. 2018)", "QRDQNConfig"),
        AlgorithmSpec(
            name="apex",
            summary="Ape-X (Horgan et al. 2018): many workers, prioritised replay and a learner, each at its own pace",
            config="rheos_apex.config:ApexConfig",
            roles="rheos_apex.roles:apex_roles",
            flow="rheos_apex.flow:apex",
            policy="rheos_apex.policy:q_policy",
        ),
        AlgorithmSpec(
            name="r2d2",
            summary="R2D2 (Kapturowski et al. 2019): Ape-X with a memory, which learns from sequences",
            config="rheos_apex.config:R2D2Config",
            roles="rheos_apex.roles:r2d2_roles",
            flow="rheos_apex.flow:r2d2",
            policy="rheos_apex.policy:q_policy",
        ),
    ]


def _dqn(name: str, summary: str, config: str) -> AlgorithmSpec:
    return AlgorithmSpec(
        name=name,
        summary=summary,
        config=f"rheos_apex.config:{config}",
        roles="rheos_apex.roles:dqn_roles",
        flow="rheos_apex.flow:dqn",
        policy="rheos_apex.policy:q_policy",
    )
