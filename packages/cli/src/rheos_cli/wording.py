"""A run in words: what begins, a line on how it gets on, how it ended, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rheos.runs.cut_runs import can_be_resumed
from rheos.runs.status import RunState
from rheos.runs.totals import EPISODE_WINDOW

if TYPE_CHECKING:
    from rheos.runs.run import Run

__all__ = ["headline", "line_of", "next_steps", "outcome", "title_of"]


def headline(run: Run) -> str:
    """Return what begins, and where it goes."""
    resumed = "" if run.resumed_at is None else f", resumed at {run.resumed_at:,} env steps"
    return f"{title_of(run)} -> {run.folder.path}{resumed}"


def title_of(run: Run) -> str:
    """Return the algorithm, the environment and the seed of a run."""
    config = run.config
    return f"{config.algo_name} on {getattr(config.env, 'id', config.env.name)}, seed {config.seed}"


def line_of(row: Mapping[str, float]) -> str:
    """Return a row of measurements as one line, its columns below those of the last one."""
    parts = [f"{row['env_steps']:>11,.0f} env steps"]
    if "episode_return_mean" in row:
        parts.append(f"return {row['episode_return_mean']:8.1f}")
    if "eval_return_mean" in row:
        parts.append(f"eval return {row['eval_return_mean']:8.1f} ± {row.get('eval_return_std', 0.0):.1f}")
    if "env_steps_per_s" in row:
        parts.append(f"{row['env_steps_per_s']:>8,.0f} steps/s")
    return "  ".join([*parts, f"{row['wall_s']:.1f} s"])


def outcome(run: Run) -> str:
    """Return how a run ended."""
    status = run.status
    at = f"at {status.env_steps:,} env steps ({status.wall_s:.1f} s)"
    mean = status.episode_return_mean
    result = "no episode ended" if mean is None else f"mean return {mean:.1f} over {_episodes(status.episodes)}"
    if status.state is RunState.FAILED:
        return f"Failed {at}: {status.reason}"
    if status.state is RunState.INTERRUPTED:
        return f"Interrupted {at}: {result}."
    goal = run.config.stop.episode_return
    if goal is not None and run.totals.has_full_window and mean is not None and mean >= goal:
        return f"Solved: {result} {at}."
    return f"Done: {result} {at}; {status.reason}."


def next_steps(run: Run) -> str:
    """Return where a run lies, and what to type next."""
    folder = run.folder
    parts = [f"Run: {folder.path}"]
    if folder.plot_path.exists():
        parts.append(f"plot: {folder.plot_path}")
    if run.status.weights_sha256 is not None:
        verb = "eval" if run.status.state is RunState.DONE or not can_be_resumed(folder) else "resume"
        parts.append(f"next: rheos {verb} {shlex.quote(str(folder.path))}")
    return "  ".join(parts)


def _episodes(count: int) -> str:
    if count >= EPISODE_WINDOW:
        return f"the last {EPISODE_WINDOW} episodes"
    return "1 episode" if count == 1 else f"{count} episodes"
