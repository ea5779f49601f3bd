"""`rheos plot`: draw the learning curves of runs."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs, and where the picture goes."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a run")
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

    runs: list[Path] = arguments.runs
    output: Path = arguments.output or (runs[0] / "plot.png" if len(runs) == 1 else Path("curves.png"))
    try:
        draw_learning_curves(runs, output)
    except (OSError, ValueError) as error:
        raise UsageError(f"-o {output}: the picture cannot be written: {error}") from error
    print(output)
    return 0
