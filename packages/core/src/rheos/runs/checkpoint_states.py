"""The state in a checkpoint: what a run remembers beside its weights, as safetensors and JSON, with a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheos.errors import RunFolderError
from rheos.executors.protocol import LocalShared, Shared
from rheos.runs.files import write_synced
from rheos.runs.segments import SegmentFiles
from rheos.trees import Arrays, decode

__all__ = ["EncodedState", "has_state", "read_state", "write_state"]

_ARRAYS = "state.safetensors"
_STRUCTURE = "state.json"


@dataclass(frozen=True)
class EncodedState:
    """A tree as `rheos.trees.encode` takes it apart, and the segments that belong to it."""

    structure: Any
    arrays: Arrays
    segments: SegmentFiles | None = None

    def part(self, name: str) -> Any:
        """Return one entry of the tree, which is a dict."""
        return decode(self.structure["dict"][name], self.arrays)

    def decode(self, share: Callable[[Any], Shared[Any]] = LocalShared) -> dict[str, Any]:
        """Return the whole tree, with shared values made by `share`, and the segments as `segments`."""
        tree: dict[str, Any] = decode(self.structure, self.arrays, share)
        return {**tree, "segments": self.segments}


def has_state(checkpoint: Path) -> bool:
    """Whether a checkpoint holds more than weights."""
    return (checkpoint / _STRUCTURE).exists()


def write_state(checkpoint: Path, state: EncodedState) -> dict[str, Any]:
    """Write a state into the folder of a checkpoint, segments included, and return what its manifest says of it."""
    from safetensors.numpy import save

    arrays, structure = save(state.arrays), json.dumps(state.structure, separators=(",", ":")).encode()
    write_synced(checkpoint / _ARRAYS, arrays)
    write_synced(checkpoint / _STRUCTURE, structure)
    segments = {} if state.segments is None else state.segments.move_into(checkpoint)
    return {"state_sha256": _checksum(arrays, structure), **segments}


def read_state(checkpoint: Path, manifest: Mapping[str, Any]) -> EncodedState:
    """Read the state of a checkpoint and verify it.

    Raises:
        RunFolderError: if there is none, or it is torn; says so in one line.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    expected = manifest.get("state_sha256")
    if expected is None:
        reason = manifest.get("no_state") or "it was saved by a version of Rheos that saved none"
        raise RunFolderError(f"{checkpoint} holds weights, but no state to go on from: {reason}.")
    try:
        arrays, structure = ((checkpoint / name).read_bytes() for name in (_ARRAYS, _STRUCTURE))
        if _checksum(arrays, structure) != expected:
            raise RunFolderError(
                f"{checkpoint} is a torn checkpoint: its state does not have the checksum of its manifest."
            )
        return EncodedState(json.loads(structure), load(arrays), SegmentFiles.of(checkpoint, manifest))
    except (OSError, ValueError, SafetensorError) as error:
        raise RunFolderError(f"{checkpoint} is a torn checkpoint: {' '.join(str(error).split())}.") from error


def _checksum(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
