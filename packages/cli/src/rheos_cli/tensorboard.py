"""The TensorBoard logger: event files in the run's folder tb/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tensorboardX import SummaryWriter

__all__ = ["TensorBoardLogger", "make_logger"]

_RUN = frozenset({"env_steps_per_s", "episodes", "updates", "lag_mean", "lag_max", "wall_s"})


class TensorBoardLogger:
    """Writes every measurement as a scalar over env steps: `episode/...`, `run/...`, and the algorithm's `train/...`.

    Args:
        folder: where the event files go; made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._writer = SummaryWriter(str(folder))

    def log(self, env_steps: int, row: Mapping[str, float]) -> None:
        """Write a row; env steps themselves are the axis."""
        for name, value in row.items():
            if name != "env_steps":
                self._writer.add_scalar(_tag(name), value, global_step=env_steps)

    def close(self) -> None:
        """Write what is left, and end."""
        self._writer.close()


def make_logger(run_dir: Path) -> TensorBoardLogger:
    """Make the logger of a run."""
    return TensorBoardLogger(run_dir / "tb")


def _tag(name: str) -> str:
    if name.startswith("episode_"):
        return f"episode/{name.removeprefix('episode_')}"
    return f"run/{name}" if name in _RUN else f"train/{name}"
