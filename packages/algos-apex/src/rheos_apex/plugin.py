"""The plugin of rheos-algos-apex."""

from __future__ import annotations

from rheos.plugins.hooks import hookimpl
from rheos.plugins.specs import AlgorithmSpec

__all__ = ["rheos_algorithms"]


@hookimpl
def rheos_algorithms() -> list[AlgorithmSpec]:
    """Offer DQN, its presets, Ape-X and R2D2."""
    return [
        _spec("dqn", "deep Q-learning (Mnih et al. 2015), its improvements as switches", "DQNConfig"),
        _spec("rainbow", "DQN with six improvements at once (Hessel et al. 2018)", "RainbowConfig"),
        _spec("qrdqn", "DQN that learns quantiles of the return (Dabney et al. 2018)", "QRDQNConfig"),
        _spec(
            "apex",
            "Ape-X (Horgan et al. 2018): many workers, prioritised replay and a learner, each at its own pace",
            "ApexConfig",
            program="apex",
        ),
        _spec(
            "r2d2",
            "R2D2 (Kapturowski et al. 2019): Ape-X with a memory, which learns from sequences",
            "R2D2Config",
            program="r2d2",
        ),
    ]


def _spec(name: str, summary: str, config: str, *, program: str = "dqn") -> AlgorithmSpec:
    return AlgorithmSpec(
        name=name,
        summary=summary,
        config=f"rheos_apex.config:{config}",
        roles=f"rheos_apex.roles:{program}_roles",
        flow=f"rheos_apex.flow:{program}",
        policy="rheos_apex.policy:q_policy",
    )
