"""TimeLeft: how many seconds a run has yet to go, steady enough to be read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rheos.configuration.run_config import StopConfig

__all__ = ["TimeLeft"]

_SMOOTHING_S = 10.0


class TimeLeft:
    """Estimates when a run stops: at `stop.env_steps` or `stop.seconds`, whichever comes first.

    Its speed is a mean over about the last ten seconds, evaluations included.

    Example:
        >>> from rheos.configuration.run_config import StopConfig
        >>> time_left = TimeLeft(StopConfig(env_steps=1000))
        >>> time_left.update(env_steps=200, wall_s=2.0)
        >>> time_left.at(2.0), time_left.at(3.0)
        (8.0, 7.0)
    """

    def __init__(self, stop: StopConfig) -> None:
        self._stop = stop
        self._env_steps = 0.0
        self._wall_s = 0.0
        self._speed: float | None = None

    def update(self, env_steps: float, wall_s: float) -> None:
        """Take in how far the run is."""
        seconds = wall_s - self._wall_s
        if seconds <= 0:
            return
        speed = (env_steps - self._env_steps) / seconds
        weight = 1.0 if self._speed is None else 1.0 - math.exp(-seconds / _SMOOTHING_S)
        self._speed = weight * speed + (1.0 - weight) * (self._speed or 0.0)
        self._env_steps, self._wall_s = env_steps, wall_s

    def at(self, wall_s: float) -> float | None:
        """Return the seconds left, not negative; None where nothing says when the run stops, or how fast it is."""
        left: list[float] = []
        if self._stop.env_steps is not None and self._speed:
            left.append((self._stop.env_steps - self._env_steps) / self._speed - (wall_s - self._wall_s))
        if self._stop.seconds is not None:
            left.append(self._stop.seconds - wall_s)
        return max(min(left), 0.0) if left else None
