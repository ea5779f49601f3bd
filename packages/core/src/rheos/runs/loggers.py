"""Logger: what writes a run's measurements somewhere, beside metrics.csv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

__all__ = ["Logger", "ResumableLogger"]


class Logger(Protocol):
    """Writes a run's rows of measurements; made by the factory of a `LoggerSpec`."""

    def log(self, env_steps: int, row: Mapping[str, float]) -> None:
        """Write a row; env steps are its one axis, and only what was measured is in it."""
        ...

    def close(self) -> None:
        """Write what is left, and end."""
        ...


@runtime_checkable
class ResumableLogger(Logger, Protocol):
    """A logger whose rows a checkpoint counts, so that a resumed run has every row once; others just go on."""

    def flush(self) -> None:
        """Write what was logged to the disk; called before a checkpoint is saved."""
        ...

    def resume(self, env_steps: int) -> None:
        """Go on after so many env steps: what was written of later ones is void. Called before the first row."""
        ...
