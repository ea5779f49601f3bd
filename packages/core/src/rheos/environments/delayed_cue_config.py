"""DelayedCueConfig: the settings of the delayed cue, as `env=delayed-cue` has them."""

from __future__ import annotations

from dataclasses import dataclass

from rheos.configuration.run_config import EnvironmentConfig
from rheos.configuration.settings import setting

__all__ = ["DelayedCueConfig"]


@dataclass(frozen=True)
class DelayedCueConfig(EnvironmentConfig):
    """How many cues there are, and for how long one has to be remembered."""

    name: str = setting("delayed-cue", help="the plugin that makes the environments")
    id: str = setting("delayed-cue", choices=("delayed-cue",), help="there is one")
    num_cues: int = setting(4, minimum=2, help="cues, of which one is shown; chance names it once in so many")
    delay: int = setting(10, minimum=1, unit="env steps", help="from the cue to the answer")
    vectorization: str = setting("auto", choices=("auto",), help="all at once")
    action_masks: str = setting("none", choices=("none",), help="there are none")
