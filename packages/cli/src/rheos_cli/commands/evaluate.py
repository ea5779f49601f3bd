"""`rheos eval`: play episodes with the weights of a run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rheos.runs.evaluation import EvaluationResult

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, and how it is evaluated."""
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="the folder of a run, or one of its checkpoints/<env_steps>"
    )
    parser.add_argument("--episodes", type=int, default=20, metavar="N", help="how many episodes (default: 20)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the environments (default: 0)")
    parser.add_argument("--device", default="cpu", help="where large networks act (default: cpu)")
    parser.add_argument("--json", action="store_true", help="print JSON, with the return of every episode")


def run(arguments: argparse.Namespace) -> int:
    """Evaluate, and print the result."""
    from rheos.runs.evaluation import evaluate

    result = evaluate(arguments.run, arguments.episodes, arguments.seed, device=arguments.device)
    print(json.dumps(result.to_json(), indent=2) if arguments.json else _in_words(result))
    return 0


def _in_words(result: EvaluationResult) -> str:
    count = "1 episode" if result.episodes == 1 else f"{result.episodes} episodes"
    lines = [
        f"{result.run_dir}, weights at {result.env_steps:,} env steps, {count}, seed {result.seed}",
        f"return  {result.episode_return_mean:.1f} ± {result.episode_return_std:.1f}"
        f"  (from {result.episode_return_min:.1f} to {result.episode_return_max:.1f})",
        f"length  {result.episode_length_mean:.1f} env steps",
    ]
    if result.cut:
        lines.append(f"{result.cut} did not end and were cut off; their return so far counts.")
    return "\n".join(lines)
