"""How long the command line takes to answer, in a process of its own: under 0.3 s is promised."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

RHEOS = Path(sys.executable).with_name("rheos")


@pytest.mark.parametrize("words", [("--help",), ("list",), ("info", "ppo")], ids=" ".join)
def test_the_command_line_answers(words: tuple[str, ...], benchmark: BenchmarkFixture) -> None:
    benchmark.pedantic(
        lambda: subprocess.run([RHEOS, *words], capture_output=True, check=True), rounds=10, warmup_rounds=2
    )
