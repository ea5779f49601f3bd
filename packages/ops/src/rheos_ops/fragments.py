"""Fragment: the buffers that a rollout fills, and what in them no policy should have seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rheos.environments.environment import Score
from rheos.spaces import ACTION_MASK, Column, ObservationAdapter

__all__ = ["Columns", "Fault", "Fragment"]

Columns = dict[str, npt.NDArray[Any]]
BoolArray = npt.NDArray[np.bool_]


class Fault(NamedTuple):
    """A bad number, and where it came from; the least one came first."""

    step: int
    """Vector steps of the fragment that had been made when it came; 0: it begins with it."""
    order: int
    """Among those of one step: what was observed says more than the reward that follows from it."""
    env: int
    what: str
    """As in an error message: `reward is nan, expected a finite number`."""


@dataclass
class Fragment:
    """T vector steps in B environments, time-major: what was observed, done and got.

    Of observations there is one row more: what the last actions led to, where the next fragment begins.
    """

    observations: Columns
    """By column, `[T + 1, B, ...]`."""
    rewards: npt.NDArray[np.float32]
    terminated: BoolArray
    truncated: BoolArray
    is_transition: BoolArray
    remembered: Columns = field(default_factory=dict)
    """Where the policy has a memory: `memory` `[T + 1, B, S]`, as it was before each row and is after the last, and
    `is_first` `[T + 1, B]`, whether an episode begins there."""
    outputs: Columns = field(default_factory=dict)
    """What the policy gave, `[T, B, ...]`."""
    final_observations: list[Columns] = field(default_factory=list)
    """The last observations of the episodes that ended, where they are not among `observations`; in order of step,
    then of environment, which is how a mask `[T, B]` is read, too."""
    _score: Score | None = None
    """`[T, B]` each; None where the environments give none."""

    @staticmethod
    def empty(columns: Mapping[str, Column], num_steps: int, num_envs: int, memory_size: int = 0) -> Fragment:
        """Allocate everything but the outputs, whose names the policy knows."""
        observations = {
            name: np.empty((num_steps + 1, num_envs, *column.shape), column.dtype) for name, column in columns.items()
        }
        terminated, truncated, is_transition = np.empty((3, num_steps, num_envs), np.bool_)
        rewards = np.empty((num_steps, num_envs), np.float32)
        remembered: Columns = {}
        if memory_size:
            remembered["memory"] = np.empty((num_steps + 1, num_envs, memory_size), np.float32)
            remembered["is_first"] = np.empty((num_steps + 1, num_envs), np.bool_)
        return Fragment(observations, rewards, terminated, truncated, is_transition, remembered)

    @property
    def ended(self) -> BoolArray:
        """`[T, B]`: the step ended an episode."""
        return self.terminated | self.truncated

    @property
    def score(self) -> Score:
        """What the returns that are reported are counted from, `[T, B]` each."""
        return Score(self.rewards, self.ended) if self._score is None else self._score

    def keep_score(self, step: int, score: Score) -> None:
        """Keep what a step counts for."""
        if self._score is None:
            self._score = Score(np.empty_like(self.rewards), np.empty_like(self.terminated))
        self._score.rewards[step], self._score.ended[step] = score

    def rows(self) -> list[Columns]:
        """Return what is observed and remembered `[B, ...]` at each step and after the last one; views."""
        columns = {**self.observations, **self.remembered}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def flat(self, num_steps: int) -> Columns:
        """Return the observations of the first steps with time and environments as one axis; views."""
        return {
            name: column[:num_steps].reshape(num_steps * column.shape[1], *column.shape[2:])
            for name, column in self.observations.items()
        }

    def finals(self) -> Columns:
        """Return the final observations as one batch, `[E, ...]`; there must be some."""
        parts = self.final_observations
        return {name: np.concatenate([part[name] for part in parts]) for name in self.observations}

    def fault(self, adapter: ObservationAdapter, num_steps: int, *, check_bounds: bool) -> Fault | None:
        """Return the first bad number that came in the first `num_steps` steps, if there is one.

        Bad are rewards and observations that are not finite, observations outside their space, and an action mask
        that allows nothing where an action was taken.
        """
        found = [
            self._observed_fault(adapter, num_steps, check_bounds),
            self._final_fault(adapter, num_steps, check_bounds),
            self._reward_fault(num_steps),
        ]
        return min((fault for fault in found if fault is not None), default=None)

    def _observed_fault(self, adapter: ObservationAdapter, num_steps: int, check_bounds: bool) -> Fault | None:
        rows = self.flat(num_steps + 1)
        if ACTION_MASK in rows:  # where none is taken, an environment may well allow nothing: at the end, say
            acts = np.ones((num_steps + 1, self.rewards.shape[1]), np.bool_)
            acts[:num_steps] = self.is_transition[:num_steps]
            acts[len(self.rewards) :] = False  # the next fragment acts there
            rows[ACTION_MASK] = rows[ACTION_MASK] | ~acts.reshape(-1, 1)
        fault = adapter.fault(rows, bounds=check_bounds)
        if fault is None:
            return None
        step, env = divmod(fault.row, self.rewards.shape[1])
        return Fault(step, 0, env, f"{fault.leaf} {fault.what}")

    def _final_fault(self, adapter: ObservationAdapter, num_steps: int, check_bounds: bool) -> Fault | None:
        if not self.final_observations:
            return None
        rows = self.finals()
        if ACTION_MASK in rows:
            rows[ACTION_MASK] = np.ones_like(rows[ACTION_MASK])
        fault = adapter.fault(rows, bounds=check_bounds)
        if fault is None:
            return None
        step, env = np.argwhere(self.ended[:num_steps])[fault.row].tolist()
        return Fault(step + 1, 0, env, f"{fault.leaf} {fault.what}")

    def _reward_fault(self, num_steps: int) -> Fault | None:
        is_finite = np.isfinite(self.rewards[:num_steps])
        if is_finite.all():
            return None
        step, env = np.argwhere(~is_finite)[0].tolist()
        return Fault(step + 1, 1, env, f"reward is {self.rewards[step, env]}, expected a finite number")
