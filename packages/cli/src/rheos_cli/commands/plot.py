"""`rheos plot`: draw the learning curves of runs."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs, and where the picture goes."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a run, or of a multirun")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the picture (.png, .svg, .pdf); by default plot.png in the run's folder, or ./curves.png of several runs",
    )


def run(arguments: argparse.Namespace) -> int:
    """Draw one line a run, and say where the picture is."""
    from rheos.errors import UsageError
    from rheos_cli.plots import draw_learning_curves

    runs = [run for path in arguments.runs for run in _runs_of(path)]
    output: Path = arguments.output or (runs[0] / "plot.png" if len(runs) == 1 else Path("curves.png"))
    try:
        draw_learning_curves(runs, output)
    except (OSError, ValueError) as error:
        raise UsageError(f"-o {output}: the picture cannot be written: {error}") from error
    print(output)
    return 0


def _runs_of(path: Path) -> list[Path]:
    """Return the runs of a multirun, in the order of its jobs, or the path itself."""
    if (path / "status.json").exists():
        return [path]
    return sorted((status.parent for status in path.glob("*/status.json")), key=_job) or [path]


def _job(run: Path) -> tuple[int, str]:
    return (int(run.name) if run.name.isdigit() else -1, run.name)
