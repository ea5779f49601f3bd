"""RunFolder: the files of a run, where they lie and how the folder is claimed."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from rheos.errors import RunFolderError
from rheos.runs.files import write_atomically
from rheos.runs.status import RunStatus
from rheos.runs.yaml_text import to_yaml

__all__ = ["RunFolder", "default_run_path"]

_LOCK = ".lock"
_CONTENTS = (
    "config.yaml",
    "status.json",
    "metrics.csv",
    "tb",
    "checkpoints",
    "flow.mmd",
    "trace.json",
    "plot.png",
    _LOCK,
)


class RunFolder:
    """The folder of a run.

    It holds `config.yaml`, `status.json`, `metrics.csv`, `tb/`, `checkpoints/<env_steps>/`, `flow.mmd`,
    `trace.json` where it was asked for (`trace-<env_steps>.json` of a part that was resumed there), `plot.png`, and a
    lock file. A folder belongs to one run for ever: `create`
    refuses one that holds anything of a run; who resumes the run makes a `RunFolder` of it again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made: list[Path] = []

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make the folder and claim it for a new run; of several processes that try, one succeeds.

        Raises:
            RunFolderError: if it holds a run already, or cannot be made.
        """
        folder = cls(path)
        try:
            taken = next((name for name in _CONTENTS if (path / name).exists()), None)
            if taken is not None:
                raise RunFolderError(_taken(path, taken))
            folder._make_directories()
            folder.config_path.open("x").close()  # the claim: fails where another process was faster
        except FileExistsError as error:
            raise RunFolderError(_taken(path, "config.yaml")) from error
        except OSError as error:
            folder._remove_directories()
            raise RunFolderError(
                f"run_dir={path}: the folder cannot be made ({error.strerror}): choose one that can be written."
            ) from error
        return folder

    @classmethod
    def create_default(cls, algorithm: str, environment_id: str, seed: int) -> RunFolder:
        """Make `runs/<algorithm>-<environment>/<time>-seed<seed>`; a number is added where that is taken."""
        first = default_run_path(algorithm, environment_id, seed)
        number = 1
        while True:
            path = first if number == 1 else first.with_name(f"{first.name}-{number}")
            try:
                return cls.create(path)
            except RunFolderError:
                if not path.exists():  # not taken, but impossible
                    raise
                number += 1

    @property
    def config_path(self) -> Path:
        """The settings of the run, all of them."""
        return self.path / "config.yaml"

    @property
    def status_path(self) -> Path:
        """How the run stands."""
        return self.path / "status.json"

    @property
    def metrics_path(self) -> Path:
        """The rows of measurements."""
        return self.path / "metrics.csv"

    @property
    def tensorboard_path(self) -> Path:
        """The folder of TensorBoard files."""
        return self.path / "tb"

    @property
    def checkpoints_path(self) -> Path:
        """The folder of checkpoints, each in a folder named by its env steps."""
        return self.path / "checkpoints"

    @property
    def flow_path(self) -> Path:
        """The flow as a Mermaid diagram."""
        return self.path / "flow.mmd"

    @property
    def lock_path(self) -> Path:
        """The file that is locked by whoever writes the folder."""
        return self.path / _LOCK

    @property
    def trace_path(self) -> Path:
        """What every actor did and when, where that is asked for."""
        return self.path / "trace.json"

    def resumed_trace_path(self, env_steps: int) -> Path:
        """Return where that is written of a run that was resumed at so many env steps."""
        return self.path / f"trace-{env_steps}.json"

    @property
    def plot_path(self) -> Path:
        """The learning curve."""
        return self.path / "plot.png"

    def write_config(self, settings: Mapping[str, object]) -> None:
        """Write config.yaml."""
        write_atomically(self.config_path, to_yaml(settings))

    def write_status(self, status: RunStatus) -> None:
        """Write status.json."""
        write_atomically(self.status_path, json.dumps(status.to_json(), indent=2) + "\n")

    def read_status(self) -> RunStatus:
        """Read status.json.

        Raises:
            RunFolderError: if the folder is no run, or its status cannot be read.
        """
        if not self.path.is_dir():
            what = "it is a file" if self.path.exists() else "there is no such folder"
            raise RunFolderError(f"{self.path} is no run: {what}.")
        try:
            return RunStatus.from_json(json.loads(self.status_path.read_text()))
        except FileNotFoundError as error:
            raise RunFolderError(
                f"{self.path} is no run: it has no status.json. Give the folder that rheos train named, "
                "such as runs/ppo-cartpole/20250130-101500-seed0."
            ) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunFolderError(f"{self.status_path} cannot be read: {error!r}.") from error

    def discard(self) -> None:
        """Remove what was written since `create`, and the folders that `create` made; nothing else."""
        for name in _CONTENTS:
            entry = self.path / name
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)
        self._remove_directories()

    def _make_directories(self) -> None:
        missing = [path for path in (self.path, *self.path.parents) if not path.exists()]
        for path in reversed(missing):
            try:
                path.mkdir()
            except FileExistsError:
                continue  # another job made it in between; whose run it becomes is settled by the claim
            self._made.append(path)

    def _remove_directories(self) -> None:
        while self._made:
            try:
                self._made.pop().rmdir()
            except OSError:
                return  # somebody else's files are in it by now


def default_run_path(algorithm: str, environment_id: str, seed: int) -> Path:
    """Return where a run is put by default, by the clock.

    Example:
        >>> default_run_path("ppo", "CartPole-v1", 3).parent.as_posix()
        'runs/ppo-cartpole'
    """
    name = re.sub(r"-v\d+\Z", "", environment_id).lower()
    slug = re.sub(r"[^a-z0-9]+", "-", f"{algorithm.lower()}-{name}").strip("-")
    return Path("runs") / slug / f"{time.strftime('%Y%m%d-%H%M%S')}-seed{seed}"


def _taken(path: Path, name: str) -> str:
    return (
        f"run_dir={path}: there is {name} already, and a run is never overwritten: "
        "choose another folder, or leave run_dir out."
    )
