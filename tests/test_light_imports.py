"""What Rheos imports of a plugin in order to list it is light, down every chain of imports."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from rheos.plugins import load_registry

HEAVY = {
    *("numpy", "gymnasium", "safetensors", "torch", "tensorflow", "ray"),
    *("hydra", "omegaconf", "yaml", "rich", "matplotlib", "tensorboardX"),
}
PLUGINS = {entry_point.value for entry_point in entry_points(group="rheos")}
CONFIGS = {load_registry().algorithm(name).config.partition(":")[0] for name in load_registry().names("algorithm")}


@pytest.mark.parametrize("module", sorted({"rheos", "rheos_cli.main", *PLUGINS, *CONFIGS}))
def test_importing_it_imports_nothing_heavy(module: str) -> None:
    script = f"import sys, {module}; print(*(name for name in sys.modules if '.' not in name))"

    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert module.partition(".")[0] in process.stdout.split()
    assert set() == HEAVY & set(process.stdout.split())
