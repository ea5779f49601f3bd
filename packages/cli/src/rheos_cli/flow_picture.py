"""The picture of a flow: stages by their depth, their actors beside them, data as arrows, messages as dashed ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rheos.streams.nodes import Node
from rheos_cli.flow_boxes import FONT_SIZE, LINE_HEIGHT, REMARK_SIZE, Box, Direction, Line, Point
from rheos_cli.flow_layout import Layout, layout

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of its caches

from matplotlib.axes import Axes  # noqa: E402  (what it logs, it logs when it is imported)
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon  # noqa: E402
from matplotlib.path import Path as Outline  # noqa: E402

__all__ = ["draw_flow"]

_DPI, _MOST_PIXELS = 144, 30_000
_INK, _GRAY = "#333333", "#6b6b6b"
_STAGE = ("#e4f0f4", "#1f6f8b")
_ACTORS = (
    ("#fbe9df", "#d1603d"),
    ("#e9f2e1", "#5b8c3a"),
    ("#f0e6f5", "#7b4b94"),
    ("#faf3da", "#a9861b"),
    ("#e3e8f4", "#3d5a98"),
    ("#f7e3e9", "#a23b5b"),
)
"""Face and edge; a group of actors has one color wherever it stands."""
_AT_START = frozenset({Direction.FROM_ACTOR, Direction.BOTH})
_AT_END = frozenset({Direction.DATA, Direction.TO_ACTOR, Direction.BOTH})
"""At which ends of a line there is an arrowhead."""
_CORNER, _HEAD, _HALF_HEAD = 0.1, 0.08, 0.035
"""Inches."""


def draw_flow(root: Node, output: Path, remarks: Mapping[Node, str] | None = None) -> None:
    """Draw the flow that ends in `root`, and write the picture.

    Stages are boxes with their number and label, from the sources at the top to the root at the bottom; actors are
    round, beside the stages that talk to them, and have one color wherever they stand. Solid arrows are data, dashed
    ones messages: from an actor that is a source, to one that is told, both ways where one is asked.

    Args:
        root: the last stage.
        output: the picture; its ending says of which kind: `.png`, `.svg`, `.pdf`.
        remarks: a second, smaller text in the boxes of some stages, such as what was measured.

    Raises:
        ValueError: if the ending is unknown.
        OSError: if the file cannot be written.
    """
    import matplotlib as mpl

    placed = layout(root, remarks)
    style: Any = {"font.family": "DejaVu Sans Mono", "svg.hashsalt": "rheos"}  # the font is matplotlib's own
    with mpl.rc_context(style):
        figure = Figure(figsize=(placed.width, placed.height))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, placed.width), ylim=(0.0, placed.height))
        axes.set_axis_off()
        _draw(axes, placed)
        dpi = min(_DPI, _MOST_PIXELS / max(placed.width, placed.height))
        metadata = {"Date": None} if output.suffix == ".svg" else None  # the same flow gives the same file
        figure.savefig(output, dpi=dpi, metadata=metadata)


def _draw(axes: Axes, placed: Layout) -> None:
    names = dict.fromkeys(actor.names for actor in placed.actors)
    colors = {name: _ACTORS[index % len(_ACTORS)] for index, name in enumerate(names)}
    for line in placed.lines:
        _draw_line(axes, line, _INK if line.names is None else colors[line.names][1])
    for box in placed.stages.values():
        _draw_box(axes, box, _STAGE, rounding=0.05)
    for actor in placed.actors:
        _draw_box(axes, actor.box, colors[actor.names], rounding=min(actor.box.height / 2, 0.16))


def _draw_box(axes: Axes, box: Box, colors: tuple[str, str], *, rounding: float) -> None:
    face, edge = colors
    shape = f"round,pad=0,rounding_size={rounding}"
    axes.add_patch(FancyBboxPatch((box.left, box.bottom), box.width, box.height, shape, fc=face, ec=edge, lw=1.2))
    y = box.y + (len(box.text.label) + len(box.text.remark) - 1) / 2 * LINE_HEIGHT
    for index, text in enumerate((*box.text.label, *box.text.remark)):
        is_label = index < len(box.text.label)
        axes.text(
            *(box.x, y - index * LINE_HEIGHT, text),
            ha="center",
            va="center",
            fontsize=FONT_SIZE if is_label else REMARK_SIZE,
            color=_INK if is_label else _GRAY,
            parse_math=False,
        )


def _draw_line(axes: Axes, line: Line, color: str) -> None:
    points = list(line.points)
    if line.direction in _AT_START:
        points[0] = _draw_head(axes, points[0], points[1], color)
    if line.direction in _AT_END:
        points[-1] = _draw_head(axes, points[-1], points[-2], color)
    dashes: Any = "-" if line.direction is Direction.DATA else (0, (3.5, 2))
    axes.add_patch(PathPatch(_outline(points), fill=False, ec=color, lw=1.2, ls=dashes, capstyle="butt"))


def _draw_head(axes: Axes, tip: Point, before: Point, color: str) -> Point:
    """Draw the head of an arrow that comes from `before`, and return where its line ends."""
    x, y = _towards(tip, before, _HEAD)
    across_x, across_y = (0.0, _HALF_HEAD) if y == tip[1] else (_HALF_HEAD, 0.0)
    axes.add_patch(Polygon([tip, (x - across_x, y - across_y), (x + across_x, y + across_y)], fc=color, lw=0.0))
    return x, y


def _outline(points: Sequence[Point]) -> Outline:
    """Return the line through points, with round corners."""
    vertices, codes = [points[0]], [Outline.MOVETO]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        vertices += [_towards(corner, before, _CORNER), corner, _towards(corner, after, _CORNER)]
        codes += [Outline.LINETO, Outline.CURVE3, Outline.CURVE3]
    return Outline([*vertices, points[-1]], [*codes, Outline.LINETO])


def _towards(point: Point, other: Point, distance: float) -> Point:
    """Return the point some inches from one to another, which is straight above, below or beside it."""
    whole = abs(other[0] - point[0]) + abs(other[1] - point[1])
    part = min(distance / whole, 0.5)
    return point[0] + part * (other[0] - point[0]), point[1] + part * (other[1] - point[1])
