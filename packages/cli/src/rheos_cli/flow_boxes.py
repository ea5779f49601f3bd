"""What the picture of a flow is made of, measured in inches: texts, boxes around them, and lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

__all__ = ["FONT_SIZE", "LINE_HEIGHT", "REMARK_SIZE", "ActorBox", "Box", "Direction", "Line", "Point", "Text"]

Point = tuple[float, float]

FONT_SIZE, REMARK_SIZE = 9.0, 7.5
"""Points, of a font in which every character is 0.602 of its size wide."""
LINE_HEIGHT = 1.35 * FONT_SIZE / 72
_CHARACTER = 0.602 * FONT_SIZE / 72
_PADDING = 0.11
_MOST_LINES = 3


class Text:
    """What a box says: a label, and below it a smaller remark, each in three lines at most.

    Args:
        label: broken where a name ends, or a word; what three lines do not hold is left out.
        characters: how many of the label a line holds.
        remark: as the label; nothing if empty.
    """

    def __init__(self, label: str, characters: int, remark: str = "") -> None:
        scale = REMARK_SIZE / FONT_SIZE
        self.label = _wrapped(label, characters)
        self.remark = _wrapped(remark, int(characters / scale))
        widths = [*map(len, self.label), *(len(line) * scale for line in self.remark)]
        self.width = max(widths, default=0.0) * _CHARACTER + 2 * _PADDING
        """Of the box that it needs."""
        self.height = len(widths) * LINE_HEIGHT + 1.4 * _PADDING
        """The same."""


@dataclass(frozen=True)
class Box:
    """A rectangle around a text; `x` and `y` are its centre, `y` grows upwards."""

    x: float
    y: float
    width: float
    height: float
    text: Text

    @property
    def left(self) -> float:
        """The x of its left side."""
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        """The x of its right side."""
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        """The y of its lower side."""
        return self.y - self.height / 2

    @property
    def top(self) -> float:
        """The y of its upper side."""
        return self.y + self.height / 2


@dataclass(frozen=True)
class ActorBox:
    """A box for the actors with these names, beside stages that talk to them; a group may have several."""

    names: tuple[str, ...]
    box: Box


class Direction(Enum):
    """What goes along a line."""

    DATA = "data"
    """Items, from a stage to the next."""
    TO_ACTOR = "to the actor"
    FROM_ACTOR = "from the actor"
    BOTH = "both"
    """A request to the actor, and its reply."""


@dataclass(frozen=True)
class Line:
    """A line through points, each straight above, below or beside the one before.

    That of a message begins at the stage, whatever its direction.
    """

    points: tuple[Point, ...]
    direction: Direction
    names: tuple[str, ...] | None = None
    """Of the actors at its end, where it is a message."""


def _wrapped(text: str, width: int) -> tuple[str, ...]:
    pieces = [
        piece[start : start + width]
        for piece in re.split(r"(?<=[\s(.,])", text)
        for start in range(0, len(piece), width)
    ]
    lines: list[str] = []
    for piece in pieces:
        if lines and len(lines[-1]) + len(piece.rstrip()) <= width:
            lines[-1] += piece
        else:
            lines.append(piece)
    lines = [line.strip() for line in lines if line.strip()]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"{lines[_MOST_LINES - 1][: width - 1]}…"]
    return tuple(lines)
