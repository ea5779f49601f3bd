"""ReinforceConfig: the settings of REINFORCE, with unit and range."""

from __future__ import annotations

from dataclasses import dataclass

from rheos.configuration.settings import setting

__all__ = ["ReinforceConfig"]


@dataclass(frozen=True)
class ReinforceConfig:
    """The settings of REINFORCE."""

    rollout_steps: int = setting(256, minimum=1, unit="steps", help="steps of each environment in a rollout")
    discount: float = setting(0.99, minimum=0.0, maximum=1.0, help="weight of a reward one environment step later")
    learning_rate: float = setting(1e-2, exclusive_minimum=0.0, help="step size of Adam")
    hidden_size: int = setting(64, minimum=1, unit="units", help="of the policy's one hidden layer")
