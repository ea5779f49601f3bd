"""`rheos export`: write the policy of a run as a file that runs without Rheos."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["TAKES_OVERRIDES", "add_arguments", "run"]

TAKES_OVERRIDES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, the format and where it goes."""
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="the folder of a run, or one of its checkpoints/<env_steps>"
    )
    parser.add_argument("--to", required=True, metavar="FORMAT", help="onnx, torch (torch.export) or savedmodel")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help="where; by default policy.<format> in the run's folder"
    )
    parser.usage = "rheos export RUN --to onnx|torch|savedmodel [-o PATH] [backend=<name>] [device=...]"
    parser.epilog = "\n".join(
        [
            "What is written takes encoded observations and gives the actions that the policy takes when it is played;",
            "PATH.json says what they are. It is read again, and held against the policy on the same observations.",
        ]
    )


def run(arguments: argparse.Namespace) -> int:
    """Export, and say where it lies and how it was checked."""
    from rheos.runs.exporting import export_policy
    from rheos_cli.commands.evaluate import acting_settings

    settings = acting_settings(arguments.overrides, "export")
    exported = export_policy(arguments.run, to=arguments.to, path=arguments.output, **settings)
    print(
        f"{exported.path}: {exported.to}, written by {exported.backend}; read again, it acts as the policy on "
        f"{exported.num_checked} observations (largest difference {exported.largest_difference:.1g})\n"
        f"{exported.description}: what goes in and what comes out"
    )
    return 0
