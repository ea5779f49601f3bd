"""Options of the whole test run: slow tests run only with --slow."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --slow."""
    parser.addoption(
        "--slow", action="store_true", help="run the slow tests, too (learning to a threshold, several seeds)"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the slow tests, unless they were asked for."""
    if config.getoption("--slow"):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow: run with --slow"))
