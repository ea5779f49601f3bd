"""Learning curves: the return of runs over env steps, as a picture."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from rheos.runs.totals import EPISODE_WINDOW
from rheos_cli.curves import Curve, Group, grouped, points_of, read_curve

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of its caches

from matplotlib.axes import Axes  # noqa: E402  (what it logs, it logs when it is imported)
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: E402
from matplotlib.ticker import EngFormatter, MaxNLocator  # noqa: E402

__all__ = ["draw_learning_curves"]

_COLORS = ("#1f6f8b", "#d1603d", "#5b8c3a", "#7b4b94", "#c9a227", "#3d5a98", "#a23b5b", "#4a4a4a")
_GRAY, _INK = "#8a8a8a", "#333333"
_LIKED = ("entropy", "approx_kl", "explained_variance", "policy_loss", "value_loss", "loss")
"""Which metrics say most of how a run goes; others only where there are too few of these."""
_NUM_SMALL = 3
_MEAN, _RECENT = "episode_return_mean", "episode_return_recent"
_STYLE: Any = {
    "font.size": 9.5,
    "axes.edgecolor": "#b5b5b5",
    "axes.labelcolor": _INK,
    "xtick.color": _GRAY,
    "ytick.color": _GRAY,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "text.color": _INK,
    "svg.hashsalt": "rheos",
}


def draw_learning_curves(runs: Sequence[Path], output: Path) -> None:
    """Draw the learning curve of a run, or those of several, and write the picture.

    Of a single run: the mean return of the last 100 episodes; faintly that of the newest ones, so that one sees how
    much they differ; evaluations, if there were any; the return at which it was to stop; and small, three of the
    algorithm's metrics. Of several: a panel for each environment, and in it for each group of runs that differ in their
    seeds only the mean, with a band of one standard deviation, and faintly every run.

    Args:
        runs: folders of runs, at least one; they may be going on.
        output: the picture; its ending says of which kind: `.png`, `.svg`, `.pdf`.

    Raises:
        RunFolderError: if a folder is no run, or what it holds cannot be read; says why in one line.
        ValueError: if the ending is unknown.
    """
    import matplotlib as mpl

    curves = [read_curve(path) for path in runs]
    with mpl.rc_context(_STYLE):
        figure = _of_one(curves[0]) if len(curves) == 1 else _of_several(curves)
        figure.savefig(output)


def _of_one(curve: Curve) -> Figure:
    metrics = [name for name in _chosen_metrics(curve) if points_of(curve, name)[0].size > 1]
    layout = ConstrainedLayoutEngine(hspace=0.08, wspace=0.05)
    figure = Figure(figsize=(8.0, 6.0 if metrics else 4.6), dpi=120, layout=layout)
    if not metrics:
        axes = figure.subplots()
    else:
        grid = figure.add_gridspec(2, len(metrics), height_ratios=(3.4, 1.0))
        axes = figure.add_subplot(grid[0, :])
        for index, name in enumerate(metrics):
            _draw_metric(figure.add_subplot(grid[1, index]), curve, name)
    _draw_one(axes, curve)
    _decorate(axes, f"{curve.algorithm} on {curve.environment}, seed {curve.seed}", "episode return")
    return figure


def _draw_one(axes: Axes, curve: Curve) -> None:
    color, other = _COLORS[:2]
    axes.plot(*points_of(curve, _RECENT), color=color, alpha=0.28, linewidth=1.0, label="newest episodes")
    steps, means = points_of(curve, _MEAN)
    axes.plot(steps, means, color=color, linewidth=2.2, label=f"mean of the last {EPISODE_WINDOW} episodes")
    eval_steps, eval_means = points_of(curve, "eval_return_mean")
    if eval_steps.size:
        _, deviations = points_of(curve, "eval_return_std")
        axes.errorbar(
            *(eval_steps, eval_means),
            yerr=deviations if deviations.size == eval_means.size else None,
            fmt="o",
            color=other,
            ecolor=f"{other}80",
            elinewidth=1.2,
            markersize=4.5,
            label="evaluation, ± one standard deviation",
            zorder=3,
        )
    _draw_goal(axes, curve.goal)
    if not steps.size:
        axes.text(0.5, 0.5, "no episode has ended yet", transform=axes.transAxes, ha="center", color=_GRAY)
        return
    axes.plot(steps[-1], means[-1], "o", color=color, markersize=5)
    axes.annotate(
        f"{means[-1]:.1f}",
        (float(steps[-1]), float(means[-1])),
        xytext=(9, 0),
        textcoords="offset points",
        va="center",
        color=color,
        fontweight="bold",
        annotation_clip=False,
    )
    axes.legend(frameon=False, loc="best", fontsize="small")


def _chosen_metrics(curve: Curve) -> list[str]:
    there = curve.metrics
    return [*(name for name in _LIKED if name in there), *(name for name in there if name not in _LIKED)][:_NUM_SMALL]


def _draw_metric(axes: Axes, curve: Curve, name: str) -> None:
    axes.plot(*points_of(curve, name), color=_GRAY, linewidth=1.1)
    axes.set_title(name, loc="left", fontsize="small", color=_INK)
    axes.tick_params(labelsize="x-small")
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.xaxis.set_major_locator(MaxNLocator(3))
    _plain_frame(axes)


def _of_several(curves: Sequence[Curve]) -> Figure:
    by_environment = grouped(curves)
    labels = list(dict.fromkeys(group.label for groups in by_environment.values() for group in groups))
    colors = dict(zip(labels, cycle(_COLORS)))  # a label has one color in every panel
    num_columns = min(len(by_environment), 2) if len(by_environment) != 3 else 3
    num_rows = -(-len(by_environment) // num_columns)
    size = (8.0, 4.8) if len(by_environment) == 1 else (4.8 * num_columns, 3.8 * num_rows)
    figure = Figure(figsize=size, dpi=120, layout="constrained")
    panels = figure.subplots(num_rows, num_columns, squeeze=False).flat
    algorithms = ", ".join(dict.fromkeys(curve.algorithm for curve in curves))
    for axes, (environment, groups) in zip(panels, by_environment.items(), strict=False):
        for group in groups:
            _draw_group(axes, group, colors[group.label])
        goals = {curve.goal for group in groups for curve in group.curves}
        _draw_goal(axes, goals.pop() if len(goals) == 1 else None)
        _decorate(axes, f"{algorithms} on {environment}", f"episode return (mean of the last {EPISODE_WINDOW})")
        title = "mean ± one standard deviation" if any(len(group.curves) > 1 for group in groups) else None
        axes.legend(title=title, frameon=False, loc="best", fontsize="small", title_fontsize="small", alignment="left")
    for axes in list(panels):  # a last row that is not full
        axes.set_visible(False)
    return figure


def _draw_group(axes: Axes, group: Group, color: str) -> None:
    if len(group.curves) == 1:
        (curve,) = group.curves
        axes.plot(*points_of(curve, _MEAN), color=color, linewidth=2.0, label=group.label or f"seed {curve.seed}")
        return
    for curve in group.curves:
        axes.plot(*points_of(curve, _MEAN), color=color, linewidth=0.8, alpha=0.3)
    band = group.band()
    label = f"{group.label} ({group.size})" if group.label else group.size
    if band is None:
        axes.plot([], [], color=color, linewidth=2.2, label=label)
        return
    axes.plot(band.steps, band.means, color=color, linewidth=2.2, label=label)
    low, high = band.means - band.deviations, band.means + band.deviations
    axes.fill_between(band.steps, low, high, color=color, alpha=0.18, linewidth=0)


def _draw_goal(axes: Axes, goal: float | None) -> None:
    if goal is not None:
        axes.axhline(goal, color=_GRAY, linestyle=(0, (4, 3)), linewidth=1.0, label=f"goal {goal:g}")


def _decorate(axes: Axes, title: str, what: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold", fontsize="medium")
    axes.set_xlabel("environment steps")
    axes.set_ylabel(what)
    axes.margins(x=0.02)
    _plain_frame(axes)


def _plain_frame(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e8e8e8", linewidth=0.8)
    axes.set_axisbelow(True)
