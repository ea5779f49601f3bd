"""Curves: what is drawn of runs, read from their folders, and joined over seeds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from rheos.errors import RunFolderError
from rheos.runs.folder import RunFolder
from rheos.runs.metrics_log import read_metrics
from rheos.runs.totals import FIRST_COLUMNS

__all__ = ["Band", "Curve", "Group", "grouped", "points_of", "read_curve"]

Floats = npt.NDArray[np.float64]

_IRRELEVANT = ("seed", "run_dir", "logger.", "checkpoint.", "eval.")
"""Settings that are no reason to draw two runs apart."""

_GRID = 400
_EVALUATION = frozenset({"eval_return_mean", "eval_return_std", "eval_length_mean"})


@dataclass(frozen=True)
class Curve:
    """A run, as far as it is drawn."""

    folder: str
    algorithm: str
    environment: str
    seed: int
    goal: float | None
    settings: Mapping[str, Hashable]
    """By path, `algo.learning_rate`, without those that make no difference to what is learned."""
    columns: Mapping[str, Sequence[float | None]]
    """Those of metrics.csv."""

    @property
    def metrics(self) -> list[str]:
        """The names of what the algorithm measures."""
        return [name for name in self.columns if name not in FIRST_COLUMNS and name not in _EVALUATION]


@dataclass(frozen=True)
class Band:
    """The mean of several curves over their common env steps, and their standard deviation."""

    steps: Floats
    means: Floats
    deviations: Floats


@dataclass(frozen=True)
class Group:
    """Runs in one environment that differ in nothing but their seeds."""

    label: str
    """What tells it from the others in this environment; "" where it is the only one."""
    curves: Sequence[Curve]

    def band(self, column: str = "episode_return_mean") -> Band | None:
        """Join the curves, each interpolated between its own points, where all of them have some.

        Nothing is extrapolated: a mean begins where the last run has its first point, and ends where the shortest
        run ends. None where there is only one curve, or no env steps that all have.
        """
        points = [points_of(curve, column) for curve in self.curves]
        if len(points) < 2 or any(steps.size == 0 for steps, _ in points):
            return None
        first, last = max(steps[0] for steps, _ in points), min(steps[-1] for steps, _ in points)
        if first > last:
            return None
        grid = np.linspace(first, last, _GRID)
        values = np.stack([np.interp(grid, steps, numbers) for steps, numbers in points])
        return Band(grid, values.mean(axis=0), values.std(axis=0))

    @property
    def size(self) -> str:
        """How many seeds, or runs where a seed is there twice."""
        count = len(self.curves)
        return f"{count} seeds" if len({curve.seed for curve in self.curves}) == count else f"{count} runs"


def read_curve(path: Path) -> Curve:
    """Read the folder of a run, which may be going on.

    Raises:
        RunFolderError: if it is no run, or what it holds cannot be read; says why in one line.
    """
    folder = RunFolder(path)
    folder.read_status()  # refuses what is no run
    try:
        config = yaml.safe_load(folder.config_path.read_text())
        columns = read_metrics(folder.metrics_path)
        algo, env, stop = config["algo"], config["env"], config.get("stop") or {}
        goal = stop.get("episode_return")
        return Curve(
            folder=path.resolve().name,
            algorithm=str(algo["name"]),
            environment=str(env.get("id") or env["name"]),
            seed=int(config["seed"]),
            goal=None if goal is None else float(goal),
            settings={key: value for key, value in _flat(config) if not key.startswith(_IRRELEVANT)},
            columns=columns,
        )
    except KeyError as error:
        raise RunFolderError(f"{path} cannot be drawn: its config.yaml has no {error}.") from error
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise RunFolderError(f"{path} cannot be drawn: {' '.join(str(error).split())}.") from error


def points_of(curve: Curve, column: str) -> tuple[Floats, Floats]:
    """Return env steps and values of a column, where it was measured and is finite."""
    pairs = zip(curve.columns.get("env_steps", ()), curve.columns.get(column, ()), strict=False)
    found = [(step, value) for step, value in pairs if step is not None and value is not None and np.isfinite(value)]
    array = np.array(found, np.float64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def grouped(curves: Sequence[Curve]) -> dict[str, list[Group]]:
    """Return the groups of each environment, named by the settings that differ between them.

    The name of an algorithm, a backend or an executor stands for itself; a setting goes by the last part of its path
    where that is clear.
    """
    environments = {curve.environment: [c for c in curves if c.environment == curve.environment] for curve in curves}
    return {environment: _groups(members) for environment, members in environments.items()}


def _groups(curves: Sequence[Curve]) -> list[Group]:
    keys = dict.fromkeys(key for curve in curves for key in curve.settings)
    differing = [key for key in keys if len({c.settings[key] for c in curves if key in c.settings}) > 1]
    members: dict[tuple[tuple[str, Hashable], ...], list[Curve]] = {}
    for curve in curves:
        members.setdefault(tuple((key, curve.settings[key]) for key in differing if key in curve.settings), []).append(
            curve
        )
    short = [key.rpartition(".")[2] for key in differing]
    names = {key: name if short.count(name) == 1 else key for key, name in zip(differing, short, strict=True)}
    return [
        Group(", ".join(_label(key, names[key], value) for key, value in settings), tuple(group))
        for settings, group in members.items()
    ]


def _label(key: str, name: str, value: Hashable) -> str:
    text = f"[{','.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
    return text if key.endswith(".name") else f"{name}={text}"


def _flat(config: Mapping[str, Any], path: str = "") -> list[tuple[str, Hashable]]:
    """Return the settings by their paths; lists as tuples."""
    found: list[tuple[str, Hashable]] = []
    for key, value in config.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{path}{key}.")
        else:
            found.append((f"{path}{key}", _hashable(value)))
    return found


def _hashable(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple((key, _hashable(item)) for key, item in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
