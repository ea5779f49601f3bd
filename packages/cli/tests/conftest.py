"""Packages that are installed as far as Python can tell: a folder on the path with code and metadata, no pip."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rheos.configuration.run_config import RunConfig
from rheos.plugins.loading import forget_installed
from rheos.runs.status import RunResult, RunState

Install = Callable[..., None]

PLUGIN = """
from rheos.plugins.hooks import hookimpl
from rheos.plugins.specs import AlgorithmSpec


@hookimpl
def rheos_algorithms():
    return [
        AlgorithmSpec(
            name="{name}",
            summary="an algorithm of a test",
            config="{name}_package.config:Config",
            roles="{name}_package.nowhere:roles",
            flow="{name}_package.nowhere:flow",
            policy="{name}_package.nowhere:policy",
        )
    ]
"""

CONFIG = """
from dataclasses import dataclass

from rheos.configuration.settings import setting


@dataclass(frozen=True)
class Config:
    learning_rate: float = setting(0.1, exclusive_minimum=0, unit="1/update", help="step size")
    hidden_sizes: tuple[int, ...] = (8, 8)
"""

BACKEND = """
from rheos.plugins.hooks import hookimpl
from rheos.plugins.specs import BackendSpec


@hookimpl
def rheos_backends():
    return [BackendSpec(name="fake", summary="a backend of a test", factory="nowhere:nothing")]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a package with an algorithm, `install("walk")`, or with files of one's own."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def install(name: str, *, files: Mapping[str, str] | None = None, group: str = "algo") -> None:
        contents = {
            "__init__.py": "",
            "plugin.py": PLUGIN.format(name=name),
            "config.py": CONFIG,
            f"conf/{group}/{name}.yaml": f"# an algorithm of a test\nname: {name}\n",
            **(files or {}),
        }
        for path, text in contents.items():
            file = site / f"{name}_package" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        metadata = site / f"{name}_package-1.2.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.2\n")
        (metadata / "entry_points.txt").write_text(
            f"[rheos]\n{name} = {name}_package.plugin\n\n[rheos.configs]\n{name} = {name}_package.conf\n"
        )
        forget_installed()

    yield install
    for module in [name for name in sys.modules if name.split(".")[0].endswith("_package")]:
        del sys.modules[module]
    monkeypatch.undo()
    forget_installed()


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, and return it."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


class Runs:
    """Stands in for the runs themselves: remembers their configurations, and fails where it is told to."""

    def __init__(self) -> None:
        self.configs: list[RunConfig] = []
        self.checked: list[RunConfig] = []
        self.failures: dict[int, BaseException] = {}
        self.state = RunState.DONE

    def run_experiment(self, config: RunConfig, registry: Any, observers: Any = ()) -> RunResult:
        self.configs.append(config)
        if config.seed in self.failures:
            raise self.failures[config.seed]
        return RunResult(state=self.state, reason="", run_dir=Path(config.run_dir or "runs/somewhere"))

    def prepare(self, config: RunConfig, registry: Any) -> None:
        self.checked.append(config)


@pytest.fixture
def runs(install, empty_folder, monkeypatch) -> Runs:
    install("walk")
    install("fake", files={"plugin.py": BACKEND, "conf/backend/fake.yaml": "name: fake\n"})
    runs = Runs()
    monkeypatch.setattr("rheos.runs.experiment.run_experiment", runs.run_experiment)
    monkeypatch.setattr("rheos.runs.program.prepare", runs.prepare)
    return runs
