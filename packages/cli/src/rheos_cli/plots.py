"""Learning curves: the return of runs over env steps, as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rheos.errors import RunFolderError
from rheos.runs.folder import RunFolder
from rheos.runs.metrics_log import read_metrics
from rheos.runs.totals import EPISODE_WINDOW

__all__ = ["draw_learning_curves"]

_COLORS = ("#1f6f8b", "#d1603d", "#5b8c3a", "#7b4b94", "#c9a227", "#3d5a98", "#a23b5b", "#4a4a4a")


@dataclass(frozen=True)
class _Curve:
    """What is drawn of a run; the points where an episode had ended."""

    algorithm: str
    environment: str
    seed: int
    folder: str
    goal: float | None
    steps: list[float]
    means: list[float]
    recent_steps: list[float]
    recent: list[float]


def draw_learning_curves(runs: Sequence[Path], output: Path) -> None:
    """Draw the mean return over the last 100 episodes of each run, and write the picture.

    Of a single run the returns between two rows of measurements are drawn, too, faintly, so that one sees how much
    single episodes differ, and the return at which it was to stop.

    Args:
        runs: folders of runs, at least one.
        output: the picture; its ending says of which kind: `.png`, `.svg`, `.pdf`.

    Raises:
        RunFolderError: if a folder is no run, or what it holds cannot be read; says why in one line.
        ValueError: if the ending is unknown.
    """
    curves = [_read(path) for path in runs]
    figure = Figure(figsize=(8.0, 4.8), dpi=120, layout="constrained")
    axes = figure.subplots()
    if len(curves) == 1:
        _draw_single(axes, curves[0])
    else:
        for index, (curve, label) in enumerate(zip(curves, _labels(curves), strict=True)):
            axes.plot(curve.steps, curve.means, color=_COLORS[index % len(_COLORS)], linewidth=1.8, label=label)
        axes.legend(frameon=False, loc="best", fontsize="small")
    _decorate(axes, curves)
    figure.savefig(output)


def _read(path: Path) -> _Curve:
    folder = RunFolder(path)
    folder.read_status()  # refuses what is no run
    try:
        return _curve(path.resolve().name, read_metrics(folder.metrics_path), OmegaConf.load(folder.config_path))
    except (OSError, ValueError, TypeError, YAMLError, OmegaConfBaseException) as error:
        raise RunFolderError(f"{path} cannot be drawn: {' '.join(str(error).split())}.") from error


def _curve(folder: str, columns: dict[str, list[float | None]], config: Any) -> _Curve:
    goal = OmegaConf.select(config, "stop.episode_return")
    means = _points(columns, "episode_return_mean")
    recent = _points(columns, "episode_return_recent")
    return _Curve(
        algorithm=str(OmegaConf.select(config, "algo.name", default="?")),
        environment=str(OmegaConf.select(config, "env.id") or OmegaConf.select(config, "env.name", default="?")),
        seed=int(OmegaConf.select(config, "seed", default=0)),
        folder=folder,
        goal=None if goal is None else float(goal),
        steps=[step for step, _ in means],
        means=[value for _, value in means],
        recent_steps=[step for step, _ in recent],
        recent=[value for _, value in recent],
    )


def _points(columns: dict[str, list[float | None]], name: str) -> list[tuple[float, float]]:
    pairs = zip(columns.get("env_steps", []), columns.get(name, []), strict=False)
    return [(step, value) for step, value in pairs if step is not None and value is not None]


def _draw_single(axes: Axes, curve: _Curve) -> None:
    color = _COLORS[0]
    axes.plot(curve.recent_steps, curve.recent, color=color, alpha=0.3, linewidth=1.0, label="newest episodes")
    axes.plot(curve.steps, curve.means, color=color, linewidth=2.2, label=f"mean of the last {EPISODE_WINDOW} episodes")
    if curve.goal is not None:
        axes.axhline(curve.goal, color="#888888", linestyle=(0, (4, 3)), linewidth=1.0, label=f"goal {curve.goal:g}")
    if curve.steps:
        axes.plot(curve.steps[-1], curve.means[-1], "o", color=color, markersize=5)
        axes.annotate(
            f"{curve.means[-1]:.1f}",
            (curve.steps[-1], curve.means[-1]),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=color,
            fontweight="bold",
            annotation_clip=False,
        )
        axes.legend(frameon=False, loc="best", fontsize="small")


def _decorate(axes: Axes, curves: list[_Curve]) -> None:
    axes.set_title(_title(curves), loc="left", fontweight="bold", fontsize="medium")
    axes.set_xlabel("environment steps")
    if len(curves) == 1:
        axes.set_ylabel("episode return")
    else:
        axes.set_ylabel(f"episode return (mean of the last {EPISODE_WINDOW})")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.02)
    if not any(curve.steps for curve in curves):
        axes.text(0.5, 0.5, "no episode has ended yet", transform=axes.transAxes, ha="center", color="#888888")


def _title(curves: list[_Curve]) -> str:
    algorithms = _distinct(curve.algorithm for curve in curves)
    environments = _distinct(curve.environment for curve in curves)
    seeds = _distinct(str(curve.seed) for curve in curves)
    title = f"{', '.join(algorithms)} on {', '.join(environments)}"
    return f"{title}, seed {seeds[0]}" if len(seeds) == 1 else title


def _labels(curves: list[_Curve]) -> list[str]:
    """Name each run by what tells it from the others; by its folder where nothing else does."""
    parts = [(curve.algorithm, curve.environment, f"seed {curve.seed}") for curve in curves]
    varying = [index for index in range(3) if len({part[index] for part in parts}) > 1]
    labels = [" ".join(part[index] for index in varying) for part in parts]
    return [
        label if labels.count(label) == 1 else f"{label} {curve.folder}".strip()
        for label, curve in zip(labels, curves, strict=True)
    ]


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
