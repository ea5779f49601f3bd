"""Torch compiles here as far as its graph, unless a test asks for more: code takes up to a minute for each loss."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rheos_torch.backend import TorchBackend

logging.getLogger("torch.__trace").disabled = True  # else a failure is shown with all that torch notes as it compiles


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark all of it slow: minutes, most of them torch's, which compiles each function for each of its shapes."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _graphs_without_code(request, monkeypatch):
    if "makes_code" not in request.fixturenames:
        monkeypatch.setitem(TorchBackend.__init__.__kwdefaults__, "compiler", "aot_eager")


@pytest.fixture
def makes_code():
    """Let torch compile as a run does."""
