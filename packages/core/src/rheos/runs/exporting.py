"""export_policy: a trained policy as a file of its own, which runs without Rheos."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rheos.configuration.settings import from_mapping
from rheos.errors import RheosError, UsageError
from rheos.plugins import load_registry, make_backend
from rheos.plugins.first_party import EXPORTERS
from rheos.plugins.registry import Kind
from rheos.plugins.resolving import settings_class
from rheos.runs.files import write_atomically
from rheos.runs.policy import TrainedPolicy, load_policy

if TYPE_CHECKING:
    import numpy.typing as npt

    from rheos.plugins.registry import Registry

__all__ = ["Exported", "default_export_path", "export_policy", "exporters"]

_Columns = Mapping[str, "npt.NDArray[np.generic]"]

_CHECKED = (1, 7, 64)
"""Observations in each of the batches on which an exported file is held against the policy."""
_TOLERANCE = 1e-4
"""How far numbers may be apart: other frameworks sum float32 in other orders."""
_WIDEST = 10.0
"""Observations to try are drawn within these bounds: spaces without limits have none to draw in."""
_SUFFIXES = {"onnx": ".onnx", "torch": ".pt2"}


@dataclass(frozen=True)
class Exported:
    """What was written, and how it was checked."""

    path: Path
    description: Path
    """JSON: the columns that go in and come out, the spaces behind them, and where the weights come from."""
    to: str
    backend: str
    num_checked: int
    """Observations on which it acts as the policy does."""
    largest_difference: float
    """Between a number that it gives and that of the policy; at most 1e-4, and 0 for discrete actions."""


def exporters(registry: Registry) -> dict[str, tuple[str, ...]]:
    """Return the formats that the installed backends write, each with the names of those backends."""
    formats: dict[str, tuple[str, ...]] = {}
    for name in registry.names(Kind.BACKEND):
        for to in registry.backend(name).export_formats:
            formats[to] = (*formats.get(to, ()), name)
    return formats


def default_export_path(run_dir: Path, to: str) -> Path:
    """Return where an export lies unless it is told: `policy.<format>` in the folder of the run or checkpoint."""
    return run_dir / f"policy{_SUFFIXES.get(to, f'.{to}')}"


def export_policy(
    run_dir: str | os.PathLike[str],
    *,
    to: str,
    path: str | os.PathLike[str] | None = None,
    backend: str | Mapping[str, Any] | None = None,
    device: str = "cpu",
    registry: Registry | None = None,
) -> Exported:
    """Write the newest policy of a run as a file that runs without Rheos, read it again and compare how it acts.

    What is written takes the columns of encoded observations, any number of rows, and gives the encoded actions that
    the policy takes when it is played. Where the policy has a memory, it takes `memory` and `is_first`, too, and gives
    the new memory (in ONNX as `memory_out`). A description beside it, `<path>.json`, says what they are.

    Args:
        run_dir: the folder of a run, or one of its `checkpoints/<env_steps>`.
        to: the format, such as "onnx", "torch" or "savedmodel".
        path: of the file or folder; by default `default_export_path`.
        backend: which one writes it, by its name or with settings; by default that of the run if it knows the format,
            else the first that does.
        device: where the backend computes.
        registry: where algorithm and backend are found; by default all installed plugins.

    Raises:
        RunFolderError: if the folder is no run, or the run has no weights that can be used.
        UsageError: if no backend, or not the one that is named, writes the format, or there is something at `path`.
        ConfigError: if the policy cannot be written so; the message says why.
        RheosError: if what was written acts otherwise; it is removed.
    """
    registry = registry if registry is not None else load_registry()
    policy = load_policy(run_dir, registry=registry)
    chosen = _chosen(to, {"name": backend} if isinstance(backend, str) else backend, policy, registry)
    path = default_export_path(Path(run_dir), to) if path is None else Path(path)
    description = path.with_name(f"{path.name}.json")
    for file in (path, description):
        if file.exists():
            raise UsageError(f"{file}: there is something already: remove it, or name another place.")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}: make it first.")
    spec = from_mapping(settings_class(registry.backend(chosen["name"])), chosen, path="backend")
    native = make_backend(spec, device, registry)
    networks = native.build(policy.spec.networks, policy.checkpoint.weights)
    batches = list(_inputs(policy))
    written = native.export(policy.spec.exploit, networks, batches[-1], path, to)
    try:
        difference = max(_difference(policy, written, batch) for batch in batches)
        write_atomically(
            description, json.dumps(_description(policy, batches[0], written(batches[0]), to), indent=2) + "\n"
        )
    except BaseException:
        _remove(path)
        raise
    return Exported(path, description, to, str(chosen["name"]), sum(_CHECKED), difference)


def _chosen(to: str, backend: Mapping[str, Any] | None, policy: TrainedPolicy, registry: Registry) -> dict[str, Any]:
    """Return the settings of the backend that writes the format."""
    formats = exporters(registry)
    trained: Mapping[str, Any] = policy.checkpoint.manifest["backend"]
    if backend and "name" in backend:
        offered = registry.backend(backend["name"]).export_formats
        if to not in offered:
            writes = f"it writes {', '.join(offered)}" if offered else "it writes no format"
            raise UsageError(f"--to {to}: the backend {backend['name']!r} cannot: {writes}.")
        return dict(backend)
    if to in formats:
        name = trained["name"] if trained["name"] in formats[to] else formats[to][0]
        own = trained if name == trained["name"] else {"name": name}
        return {**own, **(backend or {})}
    if to in EXPORTERS:
        raise UsageError(f"--to {to}: no backend that is installed writes it: pip install {EXPORTERS[to]}")
    known = ", ".join(sorted({*formats, *EXPORTERS}))
    raise UsageError(f"--to {to}: no backend is known that writes it, expected one of {known}.")


def _inputs(policy: TrainedPolicy) -> Iterator[dict[str, npt.NDArray[np.generic]]]:
    """Give batches of encoded observations, drawn from the space, and of memories."""
    space = policy.spaces.observation
    space.seed(0)
    generator, memory_size = np.random.default_rng(0), policy.spec.memory_size
    for number in _CHECKED:
        rows = [policy.observations.encode(_batch_of_one(space.sample())) for _ in range(number)]
        batch = {name: np.concatenate([_within(row[name]) for row in rows]) for name in rows[0]}
        if "action_mask" in batch:  # one that was drawn may allow nothing
            batch["action_mask"][...] = True
        if memory_size:
            batch["memory"] = generator.uniform(-1.0, 1.0, (number, memory_size)).astype(np.float32)
            batch["is_first"] = generator.random(number) < 0.5
        yield batch


def _batch_of_one(observation: Any) -> Any:
    if isinstance(observation, Mapping):
        return {name: _batch_of_one(part) for name, part in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_batch_of_one(part) for part in observation)
    return np.asarray(observation)[None]


def _within(column: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    return np.clip(column, -_WIDEST, _WIDEST) if column.dtype == np.float32 else column.copy()


def _difference(policy: TrainedPolicy, written: Callable[[_Columns], Mapping[str, Any]], batch: _Columns) -> float:
    given = written(batch)
    return max(_apart(name, expected, np.asarray(given[name])) for name, expected in policy.exploit(batch).items())


def _apart(name: str, expected: npt.NDArray[Any], got: npt.NDArray[Any]) -> float:
    if expected.shape != got.shape or expected.dtype != got.dtype:
        raise RheosError(
            f"What was exported gives {name} {got.dtype}{got.shape}, the policy {expected.dtype}{expected.shape}."
        )
    apart = float(np.max(np.abs(expected.astype(np.float64) - got), initial=0.0))
    if not apart <= (_TOLERANCE if expected.dtype == np.float32 else 0.0):
        raise RheosError(f"What was exported acts otherwise than the policy: {name} are up to {apart:g} apart.")
    return apart


def _description(policy: TrainedPolicy, inputs: _Columns, outputs: Mapping[str, Any], to: str) -> dict[str, Any]:
    return {
        "format": to,
        "inputs": _described(inputs),
        "outputs": _described(outputs),
        "spaces": policy.spaces.to_json(),
        "algo": policy.checkpoint.manifest["algo"],
        "env": policy.checkpoint.manifest["env"],
        "env_steps": policy.checkpoint.env_steps,
    }


def _described(columns: Mapping[str, Any]) -> dict[str, Any]:
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    return {name: {"shape": ["B", *array.shape[1:]], "dtype": array.dtype.name} for name, array in arrays.items()}


def _remove(path: Path) -> None:
    if path.is_dir():
        import shutil

        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
