"""Checkpoints: weights and state as safetensors and JSON, with a manifest, whole or not there."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rheos.errors import RheosError, RheosWarning, RunFolderError
from rheos.plugins.specs import CONTRACT_VERSION
from rheos.runs.checkpoint_states import EncodedState, has_state, write_state
from rheos.runs.files import sync_directory, write_synced

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "Checkpoint",
    "load_checkpoint",
    "newest_checkpoint",
    "newest_whole",
    "prune_checkpoints",
    "refuse_non_finite",
    "remove_later",
    "save_checkpoint",
    "sha256_of",
]

T = TypeVar("T")

FORMAT = "rheos-checkpoint"
KEPT = 3
"""How many of the newest checkpoints are kept, beside the best one."""

_WEIGHTS = "weights.safetensors"
_MANIFEST = "manifest.json"
_NAME = re.compile(r"([0-9]+)|\.([0-9]+)\.replaced")


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds, and where it lies."""

    path: Path
    weights: dict[str, npt.NDArray[np.float32]]
    manifest: Mapping[str, Any]

    @property
    def env_steps(self) -> int:
        """The env steps of the run when it was saved."""
        return int(self.manifest["env_steps"])


def sha256_of(weights: Mapping[str, npt.NDArray[np.generic]]) -> str:
    """Return a checksum of weights over their names, dtypes, shapes and bytes, whatever their order in the mapping.

    Example:
        >>> a, b = np.zeros(2, np.float32), np.ones(3, np.float32)
        >>> sha256_of({"a": a, "b": b}) == sha256_of({"b": b, "a": a})
        True
    """
    digest = hashlib.sha256()
    for name in sorted(weights):
        array = np.asarray(weights[name])
        little_endian = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        digest.update(f"{name}\0{little_endian.dtype.str}\0{array.shape}\0".encode())
        digest.update(little_endian.tobytes())
    return digest.hexdigest()


def save_checkpoint(
    checkpoints: Path,
    weights: Mapping[str, npt.NDArray[np.float32]],
    manifest: Mapping[str, Any],
    state: EncodedState | None = None,
) -> Checkpoint:
    """Save weights, and what else the run remembers, so that a crash leaves the checkpoint whole or not there.

    It is the folder `<checkpoints>/<env_steps>/`.

    Args:
        checkpoints: the run's folder of checkpoints; made if it is missing.
        weights: by canonical name.
        manifest: what is needed to act again: `contract`, `algo`, `env`, `backend`, `spaces` and `env_steps`; format
            and checksums are added here.
        state: what the run goes on from when it is resumed; None for weights only.

    Raises:
        RheosError: if a weight is not finite, or the folder cannot be written: what was saved before stays the newest.
    """
    try:
        return _save(checkpoints, weights, manifest, state)
    except OSError as error:
        shutil.rmtree(_temporary(checkpoints, manifest), ignore_errors=True)
        raise RheosError(
            f"the checkpoint {checkpoints / str(manifest['env_steps'])} cannot be written ({error.strerror}): what was "
            "saved before is there still; make room, and resume the run."
        ) from error


def _save(
    checkpoints: Path,
    weights: Mapping[str, npt.NDArray[np.float32]],
    manifest: Mapping[str, Any],
    state: EncodedState | None,
) -> Checkpoint:
    from safetensors.numpy import save

    refuse_non_finite(weights, manifest["env_steps"])
    arrays = {name: np.asarray(array, order="C") for name, array in weights.items()}
    full_manifest = {"format": FORMAT, **manifest, "weights_sha256": sha256_of(arrays)}
    final = checkpoints / str(manifest["env_steps"])
    temporary = _temporary(checkpoints, manifest)
    if temporary.exists():
        shutil.rmtree(temporary)  # torn by a crash
    temporary.mkdir(parents=True)
    write_synced(temporary / _WEIGHTS, save(arrays))
    if state is not None:
        full_manifest |= write_state(temporary, state)
    write_synced(temporary / _MANIFEST, json.dumps(full_manifest, indent=2) + "\n")
    sync_directory(temporary)
    replaced = checkpoints / f".{final.name}.replaced"
    if final.exists():  # of the same env steps, from fewer updates
        shutil.rmtree(replaced, ignore_errors=True)
        final.rename(replaced)
    temporary.rename(final)
    sync_directory(checkpoints)
    shutil.rmtree(replaced, ignore_errors=True)  # not before its successor is in place
    return Checkpoint(final, arrays, full_manifest)


def _temporary(checkpoints: Path, manifest: Mapping[str, Any]) -> Path:
    return checkpoints / f".{manifest['env_steps']}.tmp"


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and verify it.

    Raises:
        RunFolderError: if it is no checkpoint, torn, lacks what is needed to act again, or has weights that are not
            finite; says what is wrong in one line.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        manifest = json.loads((path / _MANIFEST).read_text())
        weights = load((path / _WEIGHTS).read_bytes())
    except FileNotFoundError as error:
        raise RunFolderError(f"{path} is no checkpoint: it has no {Path(error.filename).name}.") from error
    except (OSError, ValueError, SafetensorError) as error:
        raise RunFolderError(f"{path} is a torn checkpoint: {' '.join(str(error).split())}.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise RunFolderError(f"{path} is no checkpoint of Rheos: its manifest.json does not say format {FORMAT!r}.")
    if sha256_of(weights) != manifest.get("weights_sha256"):
        raise RunFolderError(f"{path} is a torn checkpoint: its weights do not have the checksum of its manifest.")
    _refuse_incomplete(path, manifest)
    spoilt = _first_non_finite(weights)
    if spoilt is not None:
        raise RunFolderError(f"{path} is a broken checkpoint: {spoilt}.")
    return Checkpoint(path, weights, manifest)


def newest_checkpoint(checkpoints: Path) -> Checkpoint:
    """Read the newest whole checkpoint of a run; a torn or broken one is passed over with a `RheosWarning`.

    Raises:
        RunFolderError: if there is none.
    """
    return newest_whole(checkpoints, load_checkpoint)


def newest_whole(checkpoints: Path, load: Callable[[Path], T], among: Callable[[Path], bool] = lambda path: True) -> T:
    """Read the newest checkpoint of a run that can be read; others are passed over with a `RheosWarning`.

    Args:
        checkpoints: the run's folder of checkpoints.
        load: reads one; raises a `RunFolderError` for one that it cannot use.
        among: which ones are looked at, where there are any.

    Raises:
        RunFolderError: if there is none.
    """
    refused: list[str] = []
    listed = _listed(checkpoints)
    for path in reversed([path for path in listed if among(path)] or listed):
        try:
            checkpoint = load(path)
        except RunFolderError as error:
            refused.append(str(error))
            continue
        for text in refused:
            warnings.warn(f"passed over: {text}", RheosWarning, stacklevel=3)
        return checkpoint
    if refused:
        raise RunFolderError(f"{checkpoints.parent} has no usable checkpoint: {refused[0]}")
    raise RunFolderError(
        f"{checkpoints.parent} has no checkpoint yet: weights are saved every checkpoint.every_steps and at the end."
    )


def prune_checkpoints(checkpoints: Path, also: Collection[Path] = ()) -> None:
    """Remove all checkpoints but the newest three, and some others that are kept also, such as the best.

    Those that were saved for their weights only do not count, unless there are no others.
    """
    listed = _listed(checkpoints)
    kept = ([path for path in listed if has_state(path)] or listed)[-KEPT:]
    for path in listed:
        if path not in kept and path not in also:
            shutil.rmtree(path)


def remove_later(checkpoints: Path, env_steps: int) -> None:
    """Remove what is cut off when a run goes on from an earlier checkpoint: those of more env steps, and half ones."""
    for path in checkpoints.glob(".*.tmp"):
        shutil.rmtree(path)
    for path in _listed(checkpoints):
        if _env_steps_of(path) > env_steps:
            shutil.rmtree(path)


def refuse_non_finite(weights: Mapping[str, npt.NDArray[np.generic]], env_steps: int) -> None:
    """Raise a `RheosError` that names the first weight with values that are not finite, where there is one."""
    spoilt = _first_non_finite(weights)
    if spoilt is not None:
        raise RheosError(
            f"{spoilt} at env step {env_steps}: not saved. Lower algo.learning_rate, or look for NaN in observations "
            "and rewards."
        )


def _listed(checkpoints: Path) -> list[Path]:
    """Return the folders of checkpoints, the oldest first, with those that a crash left set aside."""
    if not checkpoints.is_dir():
        return []
    found = [path for path in checkpoints.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (_env_steps_of(path), path))


def _env_steps_of(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1] or match[2])


def _refuse_incomplete(path: Path, manifest: Mapping[str, Any]) -> None:
    contract = manifest.get("contract")
    if isinstance(contract, int) and contract != CONTRACT_VERSION:
        return  # what another version writes is not known here; `load_policy` says so
    numbers = [key for key in ("contract", "env_steps") if not isinstance(manifest.get(key), int)]
    parts = [key for key in ("algo", "env", "backend", "spaces") if not isinstance(manifest.get(key), dict)]
    names = [
        f"{key}.name"
        for key in ("algo", "env", "backend")
        if key not in parts and not isinstance(manifest[key].get("name"), str)
    ]
    broken = [*numbers, *parts, *names]
    if broken:
        raise RunFolderError(f"{path} is a broken checkpoint: its manifest.json has no usable {', '.join(broken)}.")


def _first_non_finite(weights: Mapping[str, npt.NDArray[np.generic]]) -> str | None:
    for name, array in weights.items():
        bad = int(np.size(array) - np.count_nonzero(np.isfinite(array)))
        if bad:
            return f"weight {name!r}: {bad} of {np.size(array)} values are not finite"
    return None
