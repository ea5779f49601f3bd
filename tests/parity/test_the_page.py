"""The page about testing components shows code that runs, and the failure that it prints."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "test-components.md"


def test_every_example_of_the_page_passes_but_the_one_that_fails_as_shown(read_page):
    shown, printed, names = read_page(PAGE).run()

    assert shown == printed
    assert "test_my_network" in names
