"""The TensorBoard logger: event files in the run's folder tb/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tensorboardX import SummaryWriter

__all__ = ["TensorBoardLogger", "make_logger"]

_RUN = frozenset({"env_steps_per_s", "episodes", "updates", "lag_mean", "lag_max", "wall_s", "restarts", "lost"})


class TensorBoardLogger:
    """Writes every measurement as a scalar over env steps: `episode/...`, `run/...`, and the algorithm's `train/...`.

    There is a file for each part of a run between two checkpoints, since only a closed one is surely on the disk. The
    first one of a run that is resumed begins with a mark: of the files before it, TensorBoard leaves out what is from
    later env steps.

    Args:
        folder: where the event files go; made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: SummaryWriter | None = None
        self._purge_step: int | None = None

    def flush(self) -> None:
        """Write what was logged to the disk, and end the file: its writer's own `flush` leaves out what is queued."""
        self.close()
        self._writer = self._purge_step = None

    def resume(self, env_steps: int) -> None:
        """Have what was written of later env steps left out."""
        self._purge_step = env_steps + 1

    def log(self, env_steps: int, row: Mapping[str, float]) -> None:
        """Write a row; env steps themselves are the axis."""
        if self._writer is None:
            number = len(list(self._folder.glob("events.*")))  # else a name, which has whole seconds, might be taken
            self._writer = SummaryWriter(
                str(self._folder), purge_step=self._purge_step, filename_suffix=f".{number:04d}"
            )
        for name, value in row.items():
            if name != "env_steps":
                self._writer.add_scalar(_tag(name), value, global_step=env_steps)

    def close(self) -> None:
        """Write what is left, and end."""
        if self._writer is not None:
            self._writer.close()


def make_logger(run_dir: Path) -> TensorBoardLogger:
    """Make the logger of a run."""
    return TensorBoardLogger(run_dir / "tb")


def _tag(name: str) -> str:
    if name.startswith("episode_"):
        return f"episode/{name.removeprefix('episode_')}"
    if name.startswith("busy/"):
        return name
    return f"run/{name}" if name in _RUN else f"train/{name}"
