"""The columns of a flow's picture: which stages stand in one, in what order the columns are, and how far apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean

from rheos.streams.nodes import Node

__all__ = ["Column", "columns_of", "crossings_of", "spread"]

_SWEEPS, _MOST_SIFTED = 24, 24
_LINE = 0.05
"""What a line needs at each side, in inches."""


class Column:
    """Stages that follow each other, and below them the line to whoever reads them; or only a line.

    Args:
        nodes: the stages, one a row.
        top: the row of the first, 0 at the top of the picture.
        bottom: the last row that the column needs for itself.
    """

    def __init__(self, nodes: Sequence[Node], top: int, bottom: int) -> None:
        self.nodes = tuple(nodes)
        self.top, self.bottom = top, bottom
        self.rows = range(top, bottom + 1)
        self.x = 0.0
        self.left = dict.fromkeys(self.rows, _LINE)
        """How far it reaches to the left of `x`, by row."""
        self.right = dict.fromkeys(self.rows, _LINE)
        self.leaving: list[tuple[Node, Node]] = []
        """The stages at both ends of each line that goes down from it."""
        self.above: list[Column] = []
        self.below: list[Column] = []


def columns_of(order: Sequence[Node]) -> list[Column]:
    """Return the columns of a flow, ordered so that few lines cross.

    Args:
        order: what `stages` gives.
    """
    depth: dict[Node, int] = {}
    readers: dict[Node, list[Node]] = defaultdict(list)
    for node in order:
        depth[node] = 1 + max((depth[source] for source in node.inputs), default=-1)
        for source in dict.fromkeys(node.inputs):
            readers[source].append(node)
    chains: list[list[Node]] = []
    chain_of: dict[Node, list[Node]] = {}
    for node in order:
        follows = len(node.inputs) == 1 and len(readers[node.inputs[0]]) == 1
        if not follows:
            chains.append([])
        chain_of[node] = chain_of[node.inputs[0]] if follows else chains[-1]
        chain_of[node].append(node)
    columns = []
    column_of: dict[Node, Column] = {}  # by its first stage: what comes from another column comes to that one
    for chain in chains:
        reading = readers[chain[-1]]
        bottom = depth[reading[0]] - 1 if len(reading) == 1 else depth[chain[-1]]
        columns.append(Column(chain, depth[chain[0]], bottom))
        column_of[chain[0]] = columns[-1]
    for column in tuple(columns):
        source = column.nodes[-1]
        for target in readers[source]:
            via = column
            if depth[target] - 1 > column.bottom:  # one of several readers, far below: the line needs a column
                via = Column((), column.bottom + 1, depth[target] - 1)
                _join(column, via)
                columns.append(via)
            via.leaving.append((source, target))
            _join(via, column_of[target])
    return _ordered(columns)


def spread(columns: Sequence[Column], gap: float, margin: float) -> None:
    """Give every column its `x`: near the middle of those that it is joined to, and none into another.

    Args:
        columns: from left to right, with what they need to the left and right.
        gap: between what two of them need, in inches.
        margin: left of what all of them need, in inches.
    """
    apart: dict[tuple[Column, Column], float] = {}
    for left, right in combinations(columns, 2):
        common = range(max(left.top, right.top), min(left.bottom, right.bottom) + 1)
        if common:
            apart[left, right] = gap + max(left.right[row] + right.left[row] for row in common)
    before: dict[Column, list[tuple[Column, float]]] = defaultdict(list)
    after: dict[Column, list[tuple[Column, float]]] = defaultdict(list)
    for (left, right), distance in apart.items():
        before[right].append((left, distance))
        after[left].append((right, distance))
    for column in columns:
        column.x = max((left.x + distance for left, distance in before[column]), default=0.0)
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 else reversed(columns):
            joined = [*column.above, *column.below]
            least = max((left.x + distance for left, distance in before[column]), default=float("-inf"))
            most = min((right.x - distance for right, distance in after[column]), default=float("inf"))
            if joined:
                column.x = max(least, min(most, fmean(other.x for other in joined)))
    start = min(column.x - column.left[row] for column in columns for row in column.rows)
    for column in columns:
        column.x = round(column.x - start + margin, 6)  # so that what is nearly straight is straight


def _join(above: Column, below: Column) -> None:
    above.below.append(below)
    below.above.append(above)


def _ordered(columns: list[Column]) -> list[Column]:
    """Sort by barycentres, alternately of the columns above and below, then sift: keep what has fewer crossings."""
    best, fewest = columns, crossings_of(columns)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        place = {column: float(index) for index, column in enumerate(columns)}
        for column in sorted(columns, key=lambda each: each.top, reverse=bool(sweep % 2)):
            joined = (column.below if sweep % 2 else column.above) or [*column.above, *column.below]
            if joined:
                place[column] = fmean(place[other] for other in joined)
        columns = sorted(columns, key=place.__getitem__)
        crossings = crossings_of(columns)
        if crossings < fewest:
            best, fewest = columns, crossings
    return _sifted(best) if len(best) <= _MOST_SIFTED else best


def _sifted(columns: list[Column]) -> list[Column]:
    """Move single columns to where they cross least, until no move helps."""
    fewest, before = crossings_of(columns), -1
    while fewest and fewest != before:
        before = fewest
        for column in tuple(columns):
            others = [other for other in columns if other is not column]
            for index in range(len(columns)):
                moved = [*others[:index], column, *others[index:]]
                crossings = crossings_of(moved)
                if crossings < fewest:
                    columns, fewest = moved, crossings
    return columns


def crossings_of(columns: Sequence[Column]) -> int:
    """Count the pairs of lines that cross between two rows; a column that goes on is a line, too."""
    place = {column: index for index, column in enumerate(columns)}
    passing: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for column in columns:
        for row in column.rows[1:]:
            passing[row].append((place[column], place[column]))
        for other in column.below:
            passing[other.top].append((place[column], place[other]))
    return sum(
        (first[0] - second[0]) * (first[1] - second[1]) < 0
        for lines in passing.values()
        for first, second in combinations(lines, 2)
    )
