"""Build hooks of the documentation: the index of decisions lists its pages by itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Append to `decisions/index.md` a link to each decision, so that two branches never edit one list."""
    if page.file.src_uri != "decisions/index.md":
        return markdown
    folder = Path(page.file.abs_src_path).parent
    pages = sorted(path for path in folder.glob("*.md") if path.name != "index.md")
    return "\n".join([markdown, "", *(f"- [{title(path)}]({path.name})" for path in pages)])


def title(page: Path) -> str:
    """Return the first heading of a page."""
    heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    if heading is None:
        raise ValueError(f"{page}: a decision starts with a heading, '# What was decided'.")
    return heading.group(1)
