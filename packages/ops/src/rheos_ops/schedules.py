"""Schedules: numbers that change as a run goes on, as functions of its environment steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Constant", "Linear", "Schedule"]

Schedule = Callable[[int], float]
"""From the environment steps that were learned from to a number."""


@dataclass(frozen=True)
class Constant:
    """The same number throughout.

    Example:
        >>> Constant(0.2)(10_000)
        0.2
    """

    value: float

    def __call__(self, env_steps: int) -> float:
        """Return the number."""
        return self.value


@dataclass(frozen=True)
class Linear:
    """From `start` to `end` within `steps` environment steps, then `end`.

    Example:
        >>> rate = Linear(1.0, 0.0, steps=100)
        >>> rate(0), rate(25), rate(100), rate(1_000)
        (1.0, 0.75, 0.0, 0.0)

    Raises:
        ValueError: if `steps` is less than 1.
    """

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"Linear(steps={self.steps}): expected at least 1.")

    def __call__(self, env_steps: int) -> float:
        """Return the number at these environment steps."""
        fraction = min(env_steps / self.steps, 1.0)
        return (1.0 - fraction) * self.start + fraction * self.end
