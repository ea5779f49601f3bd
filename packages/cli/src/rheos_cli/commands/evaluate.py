"""`rheos eval`: play episodes with the weights of a run."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheos.errors import UsageError

if TYPE_CHECKING:
    from rheos.environments.watching import Frame
    from rheos.runs.evaluation_result import EvaluationResult

__all__ = ["TAKES_OVERRIDES", "acting_settings", "add_arguments", "run"]

TAKES_OVERRIDES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, and how it is evaluated."""
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="the folder of a run, or one of its checkpoints/<env_steps>"
    )
    parser.add_argument("--episodes", type=int, default=20, metavar="N", help="how many episodes (default: 20)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the environments (default: 0)")
    parser.add_argument(
        "--video",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="FILE.mp4",
        help="film the first episode; by default eval.mp4 in the run's folder",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with the return of every episode")
    parser.usage = "rheos eval RUN [key=value ...] [--episodes N] [--seed S] [--video [FILE.mp4]] [--json]"
    parser.epilog = "\n".join(
        [
            "who acts, whichever backend trained:",
            "  backend=tf  backend.mode=eager  device=cuda",
            "",
            "By default small networks act in NumPy, and others on the backend of the run.",
        ]
    )


def acting_settings(words: list[str], command: str) -> dict[str, Any]:
    """Return the overrides that say who acts, `backend` and `device`.

    Raises:
        UsageError: if there are others.
    """
    if not words:
        return {}
    from rheos_cli.overrides import settings_of

    settings = settings_of(words, command, "backend=torch")
    others = [name for name in settings if name not in ("backend", "device")]
    if others:
        raise UsageError(f"{others[0]}: rheos {command} takes backend=<name>, backend.<setting>=... and device=...")
    return settings


def run(arguments: argparse.Namespace) -> int:
    """Evaluate, film where that is asked for, and print the result."""
    video = _video_of(arguments)
    result = _evaluate(arguments) if video is None else _film(arguments, video)
    if arguments.json:
        print(json.dumps({**result.to_json(), **({} if video is None else {"video": str(video)})}, indent=2))
    else:
        print(_in_words(result) if video is None else f"{_in_words(result)}\nvideo   {video}")
    return 0


def _video_of(arguments: argparse.Namespace) -> Path | None:
    """Return where the video goes: where it was told, else into the folder of the run."""
    if arguments.video is None or arguments.video != Path():
        video: Path | None = arguments.video
        return video
    run: Path = arguments.run
    folder = run.parent.parent if run.resolve().parent.name == "checkpoints" else run
    return folder / "eval.mp4"


def _film(arguments: argparse.Namespace, video: Path) -> EvaluationResult:
    from rheos.runs.evaluation import frames_per_second
    from rheos_cli.video import recording

    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # frames are drawn in memory: no screen is needed, or missed
    with recording(video, frames_per_second(arguments.run)) as film:
        return _evaluate(arguments, film.append)


def _evaluate(arguments: argparse.Namespace, film: Callable[[Frame], object] | None = None) -> EvaluationResult:
    from rheos.runs.evaluation import evaluate

    settings = acting_settings(arguments.overrides, "eval")
    return evaluate(arguments.run, arguments.episodes, arguments.seed, film=film, **settings)


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
