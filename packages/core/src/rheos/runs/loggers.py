"""Logger: what writes a run's measurements somewhere, beside metrics.csv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["Logger"]


class Logger(Protocol):
    """Writes a run's rows of measurements; made by the factory of a `LoggerSpec`."""

    def log(self, env_steps: int, row: Mapping[str, float]) -> None:
        """Write a row; env steps are its one axis, and only what was measured is in it."""
        ...

    def close(self) -> None:
        """Write what is left, and end."""
        ...
