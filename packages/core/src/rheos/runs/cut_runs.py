"""CutRun: the folder of a run that ended or was killed, and the checkpoint from which it can go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheos.configuration.settings import to_mapping
from rheos.errors import RunFolderError
from rheos.plugins.specs import CONTRACT_VERSION
from rheos.runs.checkpoint_states import EncodedState, has_state, read_state
from rheos.runs.checkpoints import Checkpoint, load_checkpoint, newest_whole, remove_later
from rheos.runs.flow_state import refuse_other_flow
from rheos.runs.metrics_log import LogPosition, refuse_shortened
from rheos.runs.status import RunState
from rheos.runs.stopping import stop_reason
from rheos.runs.totals import Totals

if TYPE_CHECKING:
    from rheos.configuration.run_config import RunConfig
    from rheos.runs.folder import RunFolder
    from rheos.runs.program import Program

__all__ = ["CutRun", "can_be_resumed"]


@dataclass(frozen=True)
class CutRun:
    """A run that was cut, at its newest whole checkpoint."""

    folder: RunFolder
    checkpoint: Checkpoint
    state: EncodedState

    @staticmethod
    def read(folder: RunFolder) -> CutRun:
        """Find the newest whole checkpoint with a state; a torn one is passed over with a `RheosWarning`.

        Raises:
            RunFolderError: if there is none; says why in one line.
        """

        def load(path: Path) -> tuple[Checkpoint, EncodedState]:
            checkpoint = load_checkpoint(path)
            return checkpoint, read_state(path, checkpoint.manifest)

        checkpoint, state = newest_whole(folder.checkpoints_path, load, among=has_state)
        contract = checkpoint.manifest.get("contract")
        if contract != CONTRACT_VERSION:
            raise RunFolderError(
                f"{checkpoint.path} was saved for contract {contract}, this Rheos has contract {CONTRACT_VERSION}: "
                "install the rheos-core that made it."
            )
        return CutRun(folder, checkpoint, state)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the run, as plain data; without `run_dir`."""
        settings: Mapping[str, Any] = self.checkpoint.manifest["settings"]
        return settings

    @cached_property
    def recorder(self) -> Mapping[str, Any]:
        """What its recorder remembered."""
        recorder: Mapping[str, Any] = self.state.part("run")["recorder"]
        return recorder

    def refuse_reached_stop(self, config: RunConfig) -> None:
        """Refuse to go on with a run that would be done at once: it is, or it is the new stop that makes it so.

        Raises:
            RunFolderError: says which stop condition is met, and which would not be.
        """
        totals = Totals()
        totals.load_state_dict(self.recorder["totals"])
        reason = stop_reason(config.stop, totals, self.recorder["wall_s"])
        is_as_before = to_mapping(config.stop) == self.settings["stop"]
        if reason is None or (is_as_before and self.folder.read_status().state is not RunState.DONE):
            return
        more = {
            "stop.env_steps": f"{2 * totals.env_steps}",
            "stop.seconds": f"{2 * self.recorder['wall_s']:.0f}",
            "stop.episode_return": "null",
        }
        key = reason.partition("=")[0]
        raise RunFolderError(f"{self.folder.path} is done: {reason}. Give it more, such as {key}={more[key]}.")

    def refuse_other_program(self, program: Program) -> None:
        """Refuse to go on with an environment or an algorithm that is another one by now, whatever its name.

        Raises:
            RunFolderError: says what differs.
        """
        spaces = json.loads(json.dumps(program.spaces.to_json()))
        for kind, before in self.checkpoint.manifest["spaces"].items():
            if spaces[kind] != before:
                raise RunFolderError(f"env: the {kind} space is {spaces[kind]}, that of the run was {before}.")
        refuse_other_flow(program.stream, self.state.part("labels"))

    def refuse_shortened_metrics(self) -> None:
        """Refuse to go on with a metrics.csv that does not reach to the checkpoint.

        Raises:
            RunFolderError: says what is there and what should be.
        """
        position = LogPosition(self.recorder["columns"], self.recorder["rows"])
        refuse_shortened(self.folder.metrics_path, position)

    def cut_back(self) -> None:
        """Remove what the run left after the checkpoint, but for the metrics, which their own log cuts."""
        remove_later(self.folder.checkpoints_path, self.checkpoint.env_steps)


def can_be_resumed(folder: RunFolder) -> bool:
    """Whether a run has a checkpoint that holds more than weights; it is not read."""
    return any(has_state(path) for path in folder.checkpoints_path.glob("[0-9]*"))
