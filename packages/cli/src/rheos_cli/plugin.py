"""The plugin of rheos-cli: the TensorBoard logger, and a picture of the learning curve when a run has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rheos.plugins.hooks import hookimpl
from rheos.plugins.specs import LoggerSpec

if TYPE_CHECKING:
    from rheos.runs.run import Run

__all__ = ["rheos_loggers", "rheos_run_ended"]


@hookimpl
def rheos_loggers() -> list[LoggerSpec]:
    """Offer TensorBoard files."""
    return [
        LoggerSpec(
            name="tensorboard",
            summary="event files in the run's folder `tb/`; the axis is env steps",
            factory="rheos_cli.tensorboard:make_logger",
        )
    ]


@hookimpl
def rheos_run_ended(run: Run) -> None:
    """Draw plot.png, however the run ended, unless it never began and left nothing."""
    if not run.folder.metrics_path.exists():
        return
    from rheos_cli.plots import draw_learning_curves

    draw_learning_curves([run.folder.path], run.folder.plot_path)
