"""What pytest must not take for tests, and how the code in a page of Markdown is found and run."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

collect_ignore = ["strangers"]  # packages to be installed by tests

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A page of Markdown, and the fenced blocks in it, each with the line of the page on which it begins."""

    text: str
    blocks: tuple[tuple[str, str, int], ...]

    @classmethod
    def read(cls, path: Path) -> Page:
        """Read a page."""
        text = path.read_text(encoding="utf-8")
        found = _FENCE.finditer(text)
        return cls(text, tuple((each[1], each[2], text.count("\n", 0, each.start()) + 1) for each in found))

    def in_language(self, language: str) -> list[str]:
        """Return the text of the blocks in one language."""
        return [text for name, text, _ in self.blocks if name == language]

    def run(self) -> tuple[str, str, dict[str, Any]]:
        """Run the Python blocks one behind the other, as a file `flow.py` each.

        Returns:
            What the page says that they print (the `text` blocks, each directly behind the one that prints it), what
            they print, both with the lines of the page at which the Python begins, and the names that they leave.
        """
        names: dict[str, Any] = {"__name__": "flow"}
        shown, printed = [], []
        for index, (language, text, line) in enumerate(self.blocks):
            if language == "python":
                output = StringIO()
                with redirect_stdout(output):
                    exec(compile(text, "flow.py", "exec", dont_inherit=True), names)
                following = self.blocks[index + 1] if index + 1 < len(self.blocks) else ("", "", 0)
                shown.append(f"line {line}:\n{following[1] if following[0] == 'text' else ''}")
                printed.append(f"line {line}:\n{output.getvalue()}")
        return "\n".join(shown), "\n".join(printed), names


@pytest.fixture(scope="session")
def read_page() -> Callable[[Path], Page]:
    """Return the function that reads a page of Markdown."""
    return Page.read
