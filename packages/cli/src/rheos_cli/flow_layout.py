"""Where everything stands in the picture of a flow: arithmetic on its nodes, in inches, with no drawing library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from statistics import fmean

from rheos.streams.nodes import FromActors, Node, Tee, Tell, stages
from rheos_cli.flow_boxes import ActorBox, Box, Direction, Line, Point, Text
from rheos_cli.flow_columns import Column, columns_of, spread

__all__ = ["Layout", "layout"]

_MARGIN = 0.2
_BETWEEN_ROWS, _BETWEEN_COLUMNS = 0.4, 0.4
_TO_ACTOR = 0.42
_STAGE_CHARACTERS, _ACTOR_CHARACTERS = 40, 14


@dataclass(frozen=True)
class Layout:
    """The picture: every box and line lies between (0, 0) and (width, height)."""

    width: float
    height: float
    stages: dict[Node, Box]
    actors: tuple[ActorBox, ...]
    lines: tuple[Line, ...]


def layout(root: Node, remarks: Mapping[Node, str] | None = None) -> Layout:
    """Place the stages of a flow by their depth, from the sources at the top to the root at the bottom.

    Stages that follow each other without a merge or a `tee` stand in one column. Columns beside each other are
    ordered by barycentres, so that lines do not cross where that avoids it. Actors stand left and right of a column.

    Args:
        root: the last stage.
        remarks: a second, smaller text for some of the stages.
    """
    order = stages(root)
    texts = {
        node: Text(f"{number}  {node.label}", _STAGE_CHARACTERS, (remarks or {}).get(node, ""))
        for number, node in enumerate(order, 1)
    }
    columns = columns_of(order)
    neighbours = {column: _neighbours(column) for column in columns}
    titles = {each.names: _title(each.names) for group in neighbours.values() for each in group}
    actor_width = max((title.width for title in titles.values()), default=0.0)
    widths = {column: max((texts[node].width for node in column.nodes), default=0.0) for column in columns}
    for column in columns:
        _measure(column, neighbours[column], widths[column] / 2, _TO_ACTOR + actor_width)
    spread(columns, _BETWEEN_COLUMNS, _MARGIN)
    needed = [
        *((row, texts[node]) for column in columns for row, node in enumerate(column.nodes, column.top)),
        *((each.row, titles[each.names]) for group in neighbours.values() for each in group),
    ]
    rows = _Rows(1 + max(column.bottom for column in columns), needed)

    boxes: dict[Node, Box] = {}
    actors: list[ActorBox] = []
    lines: list[Line] = []
    for column in columns:
        for row, node in enumerate(column.nodes, column.top):
            boxes[node] = Box(column.x, rows.centre(row), widths[column], texts[node].height, texts[node])
        for each in neighbours[column]:
            title, x = titles[each.names], column.x + each.side * ((widths[column] + actor_width) / 2 + _TO_ACTOR)
            actors.append(ActorBox(each.names, Box(x, rows.centre(each.row), actor_width, title.height, title)))
            lines.extend(_message(node, boxes[node], actors[-1], each.side) for node in each.stages)
    for column in columns:
        lines.extend(_data(column, boxes, rows))
    width = _MARGIN + max(column.x + column.right[row] for column in columns for row in column.rows)
    return Layout(width, rows.total, {node: boxes[node] for node in order}, tuple(actors), tuple(lines))


class _Rows:
    """The rows, each as high as the highest text in it; one half way between two has room enough."""

    def __init__(self, count: int, texts: Sequence[tuple[float, Text]]) -> None:
        heights = [0.0] * count
        for row, text in texts:
            if row == int(row):
                heights[int(row)] = max(heights[int(row)], text.height)
        self.total = sum(heights) + _BETWEEN_ROWS * (len(heights) - 1) + 2 * _MARGIN
        self._tops = [self.total - _MARGIN - sum(heights[:row]) - _BETWEEN_ROWS * row for row in range(len(heights))]
        self._heights = heights

    def centre(self, row: float) -> float:
        """Return the y of a row, or half way between two."""
        return fmean(self._tops[each] - self._heights[each] / 2 for each in (int(row), ceil(row)))

    def above(self, row: int, part: float) -> float:
        """Return the y of a part of the way from a row up to the one before."""
        return self._tops[row] + part * _BETWEEN_ROWS


# actors


@dataclass(frozen=True)
class _Neighbour:
    """Actors at one side of a column, -1 (left) or 1, and the stages that talk to them."""

    names: tuple[str, ...]
    side: int
    stages: tuple[Node, ...]
    rows: tuple[int, ...]

    @property
    def row(self) -> float:
        """Where they stand, maybe half way between two rows."""
        return round(2 * fmean(self.rows)) / 2


def _neighbours(column: Column) -> list[_Neighbour]:
    """Choose a side for each group of actors: one box for all its stages where no other group is in the way."""
    talking: dict[tuple[str, ...], list[int]] = {}
    for row, node in enumerate(column.nodes, column.top):
        if node.actors():
            talking.setdefault(tuple(actor.name for actor in node.actors()), []).append(row)
    placed: list[_Neighbour] = []
    for names, rows in sorted(talking.items(), key=lambda item: item[1][0] - item[1][-1]):  # the longest first
        parts = [rows] if _free_side(placed, rows) is not None else [[row] for row in rows]
        for part in parts:
            side = _free_side(placed, part)
            if side is None:  # they are in each other's way: a box for each stage
                return [_neighbour(column, each, 1, [row]) for each, all_ in talking.items() for row in all_]
            placed.append(_neighbour(column, names, side, part))
    return placed


def _free_side(placed: Sequence[_Neighbour], rows: Sequence[int]) -> int | None:
    for side in (-1, 1):
        if all(each.side != side or each.rows[-1] < rows[0] or rows[-1] < each.rows[0] for each in placed):
            return side
    return None


def _neighbour(column: Column, names: tuple[str, ...], side: int, rows: Sequence[int]) -> _Neighbour:
    return _Neighbour(names, side, tuple(column.nodes[row - column.top] for row in rows), tuple(rows))


def _title(names: tuple[str, ...]) -> Text:
    return Text(names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}", _ACTOR_CHARACTERS)


def _measure(column: Column, neighbours: Sequence[_Neighbour], half_width: float, to_actor: float) -> None:
    """Write down how far the column reaches to the left and to the right in each row."""
    for row in range(column.top, column.top + len(column.nodes)):
        column.left[row] = column.right[row] = half_width
    for each in neighbours:
        reach = column.left if each.side < 0 else column.right
        reach.update(dict.fromkeys(range(each.rows[0], each.rows[-1] + 1), half_width + to_actor))


# lines


def _message(node: Node, stage: Box, actor: ActorBox, side: int) -> Line:
    is_source, is_told = isinstance(node, FromActors), isinstance(node, Tell)
    direction = Direction.FROM_ACTOR if is_source else Direction.TO_ACTOR if is_told else Direction.BOTH
    start, box = (stage.x + side * stage.width / 2, stage.y), actor.box
    if stage.y == box.y:
        points: tuple[Point, ...] = (start, (box.x - side * box.width / 2, box.y))
    else:
        points = (start, (box.x, stage.y), (box.x, box.top if stage.y > box.y else box.bottom))
    return Line(points, direction, actor.names)


def _data(column: Column, boxes: Mapping[Node, Box], rows: _Rows) -> list[Line]:
    """Return the lines between the stages of a column, and those that go down from it."""
    lines = [
        Line(((column.x, boxes[above].bottom), (column.x, boxes[below].top)), Direction.DATA)
        for above, below in pairwise(column.nodes)
    ]
    for source, target in column.leaving:
        start, end = boxes[source], boxes[target]
        points: list[Point] = [(start.x, start.bottom)]
        if not column.nodes:  # first over to this column
            turn = rows.above(column.top, 0.7)
            points += [(start.x, turn), (column.x, turn)]
        turn = rows.above(column.bottom + 1, 0.7 if isinstance(source, Tee) else 0.45)
        points += [(column.x, turn), (end.x, turn), (end.x, end.top)]
        lines.append(Line(tuple(_corners(points)), Direction.DATA))
    return lines


def _corners(points: Sequence[Point]) -> list[Point]:
    """Leave out what does not turn."""
    kept = [points[0]]
    for point, after in pairwise(points[1:]):
        before = kept[-1]
        if not (before[0] == point[0] == after[0] or before[1] == point[1] == after[1]):
            kept.append(point)
    return [*kept, points[-1]]
