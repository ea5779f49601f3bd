"""RunStatus: how a run stands, as status.json tells it, and RunResult, how it ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

__all__ = ["RunResult", "RunState", "RunStatus"]


class RunState(StrEnum):
    """Where a run is in its life."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """How a run stands.

    `episode_return_mean` is over the last 100 episodes, None before the first has ended; `weights_sha256` is that
    of the newest checkpoint, None before the first; `best_env_steps` names the best one, in `checkpoints/`, by its
    evaluation or, in a run without evaluations, by its `episode_return_mean`.

    Example:
        >>> RunStatus(state=RunState.DONE, reason="stop.env_steps=100 reached", env_steps=104).to_json()["state"]
        'done'
    """

    state: RunState = RunState.RUNNING
    reason: str = ""
    env_steps: int = 0
    wall_s: float = 0.0
    episode_return_mean: float | None = None
    weights_sha256: str | None = None
    best_env_steps: int | None = None
    updates: int = 0
    episodes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return what JSON can say; a mean that is not finite, which JSON cannot, becomes null."""
        mean = self.episode_return_mean
        finite = mean if mean is not None and math.isfinite(mean) else None
        own = {field.name: getattr(self, field.name) for field in fields(RunStatus)}
        return own | {"state": self.state.value, "episode_return_mean": finite}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> RunStatus:
        """Return the status that `to_json` gave; keys of later versions are passed over.

        Raises:
            ValueError: if the state is none of `RunState`.
            KeyError: if there is no state.
        """
        known = {field.name for field in fields(RunStatus)}
        values: dict[str, Any] = {name: value for name, value in data.items() if name in known}
        values["state"] = RunState(data["state"])
        return RunStatus(**values)


@dataclass(frozen=True, kw_only=True)
class RunResult(RunStatus):
    """How a run ended, and where it lies."""

    run_dir: Path

    @staticmethod
    def of(status: RunStatus, run_dir: Path) -> RunResult:
        """Return a status together with the folder of its run."""
        return RunResult(**asdict(status), run_dir=run_dir)
