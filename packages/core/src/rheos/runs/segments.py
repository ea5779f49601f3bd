"""Segments: the large parts of actors' states, each a file of its own that the checkpoints of a run share."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.errors import RheosError, RunFolderError, TreeError
from rheos.runs.files import sync_directory, sync_file, write_synced

__all__ = ["Columns", "SegmentFiles", "SegmentWriter"]

Columns = Mapping[str, npt.NDArray[np.generic]]
"""What a segment is: arrays by name."""

_FOLDER = "segments"
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_KINDS = "biuf"


@dataclass(frozen=True)
class SegmentFiles:
    """Segments of one state, as they lie in a folder.

    Args:
        folder: where they lie, `<actor>/<name>.safetensors`.
        checksums: of each file, by the actor and the name; in the order in which the actor named them.
    """

    folder: Path
    checksums: Mapping[str, Mapping[str, str]]

    @staticmethod
    def of(checkpoint: Path, manifest: Mapping[str, Any]) -> SegmentFiles:
        """Return those of a checkpoint, each of which is whole.

        Raises:
            RunFolderError: if one is missing or torn; says which in one line.
        """
        try:
            files = SegmentFiles(checkpoint / _FOLDER, _checksums(manifest))
        except ValueError as error:
            raise RunFolderError(f"{checkpoint} is a broken checkpoint: {error}.") from error
        for actor, checksums in files.checksums.items():
            for name, expected in checksums.items():
                try:
                    with files.path(actor, name).open("rb") as file:
                        found = hashlib.file_digest(file, "sha256").hexdigest()
                except FileNotFoundError:
                    found = None
                if found != expected:
                    what = "is missing" if found is None else "does not have the checksum of its manifest"
                    raise RunFolderError(f"{checkpoint} is a torn checkpoint: segment {name} of {actor} {what}.")
        return files

    def path(self, actor: str, name: str) -> Path:
        """Return where a segment lies."""
        return self.folder / actor / f"{name}.safetensors"

    def read(self, actor: str, name: str) -> Columns:
        """Read a segment into memory."""
        from safetensors.numpy import load

        return load(self.path(actor, name).read_bytes())

    def move_into(self, checkpoint: Path) -> dict[str, Any]:
        """Move them into the folder of a checkpoint, and return what its manifest says of them."""
        if not self.checksums:
            return {}
        for actor in self.checksums:
            sync_directory(self.folder / actor)
        sync_directory(self.folder)
        self.folder.rename(checkpoint / _FOLDER)
        return {"segments": self.checksums}


class SegmentWriter:
    """Puts together the segments of the checkpoint that is saved next; what an earlier one has is linked, not written.

    An earlier file is taken for a segment only if it has the checksum that the segment had when it was written or
    loaded in the life of this very actor: one that was made anew may give an old name to something else.

    Args:
        checkpoints: the run's folder of checkpoints; until they are moved to their own, segments lie in a hidden one
            there, which a run that goes on removes.
    """

    def __init__(self, checkpoints: Path) -> None:
        self._checkpoints = checkpoints
        self._folder = checkpoints / f".{_FOLDER}.tmp"
        self._checksums: dict[str, dict[str, str]] = {}
        self._known: dict[str, tuple[int, Mapping[str, str]]] = {}
        self._earlier: dict[tuple[str, str, str], Path] = {}

    def begin(self) -> None:
        """Begin with a checkpoint that has none yet."""
        self.discard()
        self._checksums, self._earlier = {}, {}
        for manifest in self._checkpoints.glob("*/manifest.json"):
            self._earlier |= _written(manifest)

    def keep(self, actor: str, life: int, names: Sequence[str], read: Callable[[str], Columns]) -> None:
        """Take in the segments of an actor.

        Args:
            actor: its name.
            life: how often it was made anew.
            names: of its segments; all there are.
            read: asks the actor for one, which it is for those that are not on the disk yet.

        Raises:
            TreeError: if a name or an array is none that a file can have.
            RheosError: if a file cannot be written.
        """
        _refuse_names(actor, names)
        known_life, known = self._known.get(actor, (life, {}))
        checksums = self._checksums[actor] = {}
        for name in names:
            checksum = known.get(name) if known_life == life else None
            if checksum is None or not self._link(actor, name, checksum):
                checksum = self._write(actor, name, read(name))
            checksums[name] = checksum
        self.know(actor, life, checksums)

    def know(self, actor: str, life: int, checksums: Mapping[str, str]) -> None:
        """Take down which segments an actor has in this life."""
        self._known[actor] = life, checksums

    def leave_out(self, actor: str) -> None:
        """Remove what was taken in of an actor that failed."""
        self._checksums.pop(actor, None)
        shutil.rmtree(self._folder / actor, ignore_errors=True)

    def files(self) -> SegmentFiles:
        """Return what was taken in."""
        return SegmentFiles(self._folder, {actor: sums for actor, sums in self._checksums.items() if sums})

    def discard(self) -> None:
        """Remove what was taken in for a checkpoint that was not saved."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _link(self, actor: str, name: str, checksum: str) -> bool:
        """Take the file of an earlier checkpoint; return whether there is one."""
        earlier = self._earlier.get((actor, name, checksum))
        if earlier is None or not earlier.exists():
            return False
        with self._place(actor, name) as path:
            try:
                os.link(earlier, path)
            except OSError:  # a file system without hard links, or a file that has as many as it can
                shutil.copyfile(earlier, path)
                sync_file(path)
        return True

    def _write(self, actor: str, name: str, columns: Columns) -> str:
        """Write a file, and return its checksum."""
        from safetensors.numpy import save

        data = save({column: _plain(actor, name, column, array) for column, array in columns.items()})
        with self._place(actor, name) as path:
            write_synced(path, data)
        return hashlib.sha256(data).hexdigest()

    @contextmanager
    def _place(self, actor: str, name: str) -> Iterator[Path]:
        """Give the path of a segment that is about to be written."""
        path = SegmentFiles(self._folder, {}).path(actor, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield path
        except OSError as error:
            self.discard()  # before the weights are saved, which may have room
            raise RheosError(
                f"segment {name} of {actor} cannot be written below {self._checkpoints} ({error.strerror}): what was "
                "saved before is there still; make room, and resume the run."
            ) from error


def _checksums(manifest: Any) -> dict[str, dict[str, str]]:
    """Return what a manifest says of segments.

    Raises:
        ValueError: if it is not what is written there.
    """
    checksums = manifest.get("segments", {}) if isinstance(manifest, dict) else None
    if isinstance(checksums, dict) and all(isinstance(named, dict) for named in checksums.values()):
        names = [*checksums, *(name for named in checksums.values() for name in named)]
        sums = [checksum for named in checksums.values() for checksum in named.values()]
        if all(_PLAIN.fullmatch(name) for name in names) and all(isinstance(checksum, str) for checksum in sums):
            return checksums
    raise ValueError("its manifest.json has no usable segments")


def _written(manifest: Path) -> dict[tuple[str, str, str], Path]:
    """Return where the segments of a checkpoint lie, by actor, name and checksum."""
    try:
        files = SegmentFiles(manifest.parent / _FOLDER, _checksums(json.loads(manifest.read_text())))
    except (OSError, ValueError):
        return {}  # torn, which is said when it is read
    return {
        (actor, name, checksum): files.path(actor, name)
        for actor, checksums in files.checksums.items()
        for name, checksum in checksums.items()
    }


def _refuse_names(actor: str, names: Sequence[str]) -> None:
    expected = "expected letters, digits, '_', '-' and '.', not first"
    if not _PLAIN.fullmatch(actor):
        raise TreeError(
            f"{actor!r} cannot be saved: it has segments, so that its name is that of a folder: {expected}."
        )
    for name in names:
        if not isinstance(name, str) or not _PLAIN.fullmatch(name):
            raise TreeError(f"{actor} cannot be saved: segments() has {name!r}, which is a file's name: {expected}.")
    if len(set(names)) < len(names):
        raise TreeError(f"{actor} cannot be saved: segments() has a name twice: got {', '.join(names)}.")


def _plain(actor: str, name: str, column: str, array: object) -> npt.NDArray[np.generic]:
    if isinstance(array, np.ndarray) and array.dtype.kind in _KINDS and array.dtype.itemsize <= 8:
        return np.asarray(array, order="C")
    kind = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
    raise TreeError(
        f"{actor} cannot be saved: {column!r} of segment {name}: got {kind}, expected an array of bools or numbers."
    )
