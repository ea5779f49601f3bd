"""When a run ends: at the first of its stop conditions that is met."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rheos.runs.totals import EPISODE_WINDOW

if TYPE_CHECKING:
    from rheos.configuration.run_config import StopConfig
    from rheos.runs.totals import Totals

__all__ = ["remaining_s", "stop_reason"]


def stop_reason(stop: StopConfig, totals: Totals, wall_s: float) -> str | None:
    """Return which condition is met, in words, or None.

    A reached return comes first: a run that reaches it with its last step has solved its task. It is held against
    the mean of the last 100 episodes, once there are as many.
    """
    mean = totals.episode_return_mean
    if stop.episode_return is not None and mean is not None and totals.has_full_window and mean >= stop.episode_return:
        return (
            f"stop.episode_return={stop.episode_return:g} reached: "
            f"mean return {mean:.1f} over the last {EPISODE_WINDOW} episodes"
        )
    if stop.env_steps is not None and totals.env_steps >= stop.env_steps:
        return f"stop.env_steps={stop.env_steps} reached"
    if stop.seconds is not None and wall_s >= stop.seconds:
        return f"stop.seconds={stop.seconds:g} reached"
    return None


def remaining_s(stop: StopConfig, wall_s: float) -> float | None:
    """Return how long the next item may take at most, in seconds; None: as long as it takes."""
    return None if stop.seconds is None else max(stop.seconds - wall_s, 0.0)
