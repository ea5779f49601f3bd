"""The changelog fragments obey their naming rule, so that a release can sort them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FRAGMENTS = [path for path in sorted((ROOT / "changelog.d").glob("*")) if path.name != "README.md"]
PACKAGES = {path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")}


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_says_topic_package_and_type_in_its_name(fragment: Path) -> None:
    match = re.fullmatch(r"[a-z0-9-]+\.(?P<package>[a-z0-9-]+)\.(added|changed|fixed|removed)\.md", fragment.name)

    assert match is not None, "expected <topic>.<package>.<added|changed|fixed|removed>.md"
    assert match["package"] in PACKAGES | {"all"}


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_is_a_paragraph_for_users(fragment: Path) -> None:
    text = fragment.read_text(encoding="utf-8")

    assert text.strip()
    assert "\n\n" not in text.strip(), "one paragraph"
