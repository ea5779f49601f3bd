"""The settings of hill climbing."""

from __future__ import annotations

from dataclasses import dataclass

from rheos.configuration.settings import setting


@dataclass(frozen=True)
class HillClimbConfig:
    """The settings of hill climbing."""

    rollout_steps: int = setting(50, minimum=1, unit="steps", help="steps of each environment in an attempt")
    noise_scale: float = setting(0.3, exclusive_minimum=0.0, help="standard deviation of a change of the weights")
