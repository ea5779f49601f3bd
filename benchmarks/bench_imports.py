"""How long a worker that acts in NumPy takes to be imported, beside what it stands on: under 0.3 s is promised."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture


@pytest.mark.parametrize("modules", ["sys", "numpy", "numpy, gymnasium", "rheos_ops.workers", "rheos_ppo.roles"])
def test_a_process_imports(modules: str, benchmark: BenchmarkFixture) -> None:
    benchmark.pedantic(
        lambda: subprocess.run([sys.executable, "-c", f"import {modules}"], check=True), rounds=10, warmup_rounds=2
    )
