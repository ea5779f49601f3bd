"""The plugin to copy: once it is installed, its own tests and doctests pass; so it is always a working example."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TEMPLATE = Path(__file__).parents[1] / "template"


def test_the_template_passes_its_own_tests_once_installed(tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", site, TEMPLATE], check=True)

    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", TEMPLATE / "tests", "--pyargs", "my_algorithms"],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert tests.returncode == 0, tests.stdout
    assert "test_reinforce.py ...." in tests.stdout
    assert "stages.py ." in tests.stdout  # a doctest
