"""What tests of core share: executors, a clock that stands still, what was warned of, random programs, toy runs."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.errors import RheosError
from rheos.executors.inline import InlineExecutor
from rheos.executors.protocol import Executor
from rheos.executors.threads import ThreadsExecutor
from rheos.plugins import Registry, hookimpl
from rheos.runs.resuming import resume
from rheos.runs.status import RunResult
from rheos.runs.training import train
from rheos.scheduler import recovery
from rheos.testing import toy
from rheos.testing.random_programs import FEW, MANY
from rheos.testing.simulated import SimulatedExecutor
from rheos.testing.toy import toy_registry


class Clock:
    """A clock that stands still."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def restart_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which restarts are due."""
    clock = Clock()
    monkeypatch.setattr(recovery, "perf_counter", clock)
    return clock


@pytest.fixture
def warned() -> Iterator[list[str]]:
    """What was warned of, as it comes."""
    texts: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: texts.append(str(message))
        yield texts


@pytest.fixture(params=["inline", "threads", "simulated"])
def executor(request: pytest.FixtureRequest) -> Executor:
    made: dict[str, Executor] = {
        "inline": InlineExecutor(),
        "threads": ThreadsExecutor(),
        "simulated": SimulatedExecutor(seed=1),
    }
    return made[request.param]


@pytest.fixture(params=[pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.slow)])
def probe(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that checks a property with few random examples, or with many."""

    def probe(check: Callable[..., None], *strategies: st.SearchStrategy[Any]) -> None:
        request.param(given(*strategies)(check))()

    return probe


class Failing:
    """Raises at a row."""

    def __init__(self, at: int) -> None:
        self._at = at

    @hookimpl
    def rheos_report(self, row: Mapping[str, Any]) -> None:
        if row["env_steps"] >= self._at:
            raise ZeroDivisionError


class Runs:
    """Runs of the toy, in the folder `run` if no other is named: 100 env steps a round, a row every 200."""

    def train(
        self,
        run_dir: str = "run",
        *,
        stop: int | None = 1000,
        every_steps: int | None = 300,
        observers: Sequence[object] = (),
        algo: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> RunResult:
        """Train; a checkpoint is saved every 300 env steps."""
        return train(
            {"name": "toy", **(algo or {})},
            env="CartPole-v1",
            backend="toy",
            run_dir=run_dir,
            stop={"env_steps": stop},
            checkpoint={"every_steps": every_steps},
            logger={"every_steps": 200},
            observers=observers,
            registry=toy_registry(),
            **settings,
        )

    def cut(self, *, at: int = 750, **settings: Any) -> None:
        """Train until something raises; the newest checkpoint is from before that."""
        with pytest.raises(ZeroDivisionError):
            self.train(observers=[Failing(at)], **settings)

    def resume(self, run_dir: str = "run", *, registry: Registry | None = None, **changes: Any) -> RunResult:
        return resume(run_dir, registry=registry or toy_registry(), **changes)

    def cut_again(self, *, at: int) -> None:
        """Go on until something raises."""
        with pytest.raises(ZeroDivisionError):
            self.resume(observers=[Failing(at)])

    def refusal(self, run_dir: str = "run", **changes: Any) -> str:
        """Return why a run cannot go on."""
        with pytest.raises(RheosError) as caught:
            self.resume(run_dir, **changes)
        return str(caught.value)

    def rows(self, run_dir: str = "run") -> list[dict[str, str]]:
        """Return the rows of the metrics, without what depends on the time that they took."""
        with Path(run_dir, "metrics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        return [{name: cell for name, cell in row.items() if name not in ("wall_s", "env_steps_per_s")} for row in rows]

    def saved(self, run_dir: str = "run") -> list[int]:
        """Return the env steps of the checkpoints."""
        return sorted(int(path.name) for path in Path(run_dir, "checkpoints").iterdir())

    def status(self, run_dir: str = "run") -> dict[str, Any]:
        status: dict[str, Any] = json.loads(Path(run_dir, "status.json").read_text())
        return status


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Runs of the toy, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Runs()


@pytest.fixture
def registry_with_logger(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], Any]], Registry]:
    """Return a function that gives a registry of the toy in which every logger is made by one factory."""

    def make(factory: Callable[[Path], Any]) -> Registry:
        monkeypatch.setattr(toy, "ToySpied", factory, raising=False)
        registry = toy_registry()
        spec = SimpleNamespace(factory="rheos.testing.toy:ToySpied")
        monkeypatch.setattr(registry, "logger", lambda name: spec, raising=False)
        return registry

    return make
