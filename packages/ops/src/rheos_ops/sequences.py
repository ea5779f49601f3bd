"""Sequences of steps as rows for replay, for networks with a memory, and how much there is to learn from each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rheos import Batch
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.errors import ShapeError
from rheos_ops.q_learning import rescaled_targets, sequence_priorities

__all__ = ["SequencePriorities", "Sequences", "estimate_sequence_priorities", "sequences"]

_Columns: TypeAlias = "dict[str, npt.NDArray[Any]]"
_Integers: TypeAlias = "npt.NDArray[np.signedinteger[Any]]"

_NEXT = "next_"
_PLACE = "place"
"""The column of what is carried over: the number of the step in its episode."""
_OF_FRAGMENTS = frozenset({"rewards", "terminated", "truncated", "is_transition", "is_first", "memory", _PLACE})
"""Columns of a fragment that stand in the rows otherwise, or not at all."""
_OBSERVED = ("observations", "action_mask", "values")
"""How columns begin that a row has for every observation, also the last one."""


def sequences(*, burn_in: int, length: int, n_step: int, discount: float) -> Sequences:
    """Turn fragments into sequences for replay: for `map` at the workers.

    Args:
        burn_in: steps before those that are learned from, at least 0.
        length: steps of a sequence that are learned from, at least 1.
        n_step: n, at least 1: how many rewards are added up before a value takes the place of the rest.
        discount: γ per environment step, in [0, 1].

    Raises:
        ValueError: if one lies outside its range.
    """
    for name, value, least in (("burn_in", burn_in, 0), ("length", length, 1), ("n_step", n_step, 1)):
        if value < least:
            raise ValueError(f"sequences({name}={value}): expected at least {least}.")
    if not 0.0 <= discount <= 1.0:
        raise ValueError(f"sequences(discount={discount}): expected a number in [0, 1].")
    return Sequences(burn_in, length, n_step, discount)


class Sequences:
    """The stage that `sequences` makes; it carries over the steps of sequences that are not complete yet.

    It takes a fragment `[T, B, ...]` of a policy with a memory, that has for each column of observations also what the
    step led to (`observations` and `next_observations`, ...), and gives rows `[M, ...]`. Each is one sequence, of one
    episode: K = `burn_in` steps from which the network warms its memory up, then L = `length` steps to learn from. The
    latter tile the episode, the former were learned from in the sequence before. Before the first step of an episode
    and behind its last one, rows are padded, with zeros. A row has

    - of each column of observations, K + L + 1: the last one is what its last step led to;
    - `is_first` `[K + L + 1]`: True at the first step of the episode, before which there is padding;
    - `memory`, before its first step, as the policy had it when it acted;
    - of the L steps to learn from `actions` and what else the policy gave; `rewards`, which is
      r₀ + γ r₁ + ... + γᵏ⁻¹ rₖ₋₁, where k is n, or less where the sequence ends before; `discounts`, γᵏ, 0 where the
      episode terminated within these; `bootstraps` int32: which of the L + 1 observations from the first of these steps
      on it is whose value follows; and `mask`, False where there is padding;
    - `num_steps` int32: how many of the L are steps;
    - where the policy gave `values`, those of all observations; for the last one of an episode, which nobody valued, 0
      where it terminated, and NaN where it was truncated.

    A sequence is given when the step behind it is there, whose value is then known, or when its episode ended.

    A stage that takes a state begins anew, as the episodes of a worker do that takes one: what was carried over is
    dropped, as nobody knows what it led to.

    Source:
        Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning", section 2.3 and 3;
        there sequences overlap by half in what is learned from, too.

    Example:
        >>> column = lambda *x: np.array(x)[:, None]
        >>> fragment = {"observations": column(1, 2, 3), "next_observations": column(2, 3, 4)}
        >>> fragment |= {"rewards": column(1.0, 1.0, 1.0), "actions": column(7, 8, 9)}
        >>> fragment |= {"terminated": column(False, False, True), "truncated": column(False, False, False)}
        >>> fragment |= {"is_transition": column(True, True, True), "is_first": column(True, False, False)}
        >>> rows = sequences(burn_in=1, length=2, n_step=1, discount=0.9)(
        ...     Batch(fragment | {"memory": np.ones((3, 1, 1))}, axis=1)
        ... )
        >>> rows["observations"].tolist(), rows["actions"].tolist(), rows["mask"].tolist()
        ([[0, 1, 2, 3], [2, 3, 4, 0]], [[7, 8], [9, 0]], [[True, True], [True, False]])
    """

    def __init__(self, burn_in: int, length: int, n_step: int, discount: float) -> None:
        self._burn_in = burn_in
        self._length = length
        self._n_step = n_step
        self._discount = discount
        self._carried: dict[tuple[str, ...], _Columns] = {}

    def __call__(self, batch: Batch) -> Batch:
        """Return the sequences that a fragment completes, environment after environment, in order of time.

        Raises:
            ShapeError: if the fragment does not say what its steps led to, or no policy with a memory made it.
        """
        for name in ("memory", "is_first", "next_observations"):
            if not any(column.startswith(name) for column in batch.columns):
                has = ", ".join(batch.columns)
                raise ShapeError(f"sequences: the batch has no column {name}, it has {has}.")
        carried = self._carried.get(batch.info.sources)
        num_carried = 0 if carried is None else len(carried[_PLACE])
        steps = _with_places(batch.columns, carried)
        rows = self._rows(steps, self._ends(steps, num_carried))
        kept = slice(max(len(steps[_PLACE]) - self._burn_in - self._length, 0), None)
        self._carried[batch.info.sources] = {name: column[kept].copy() for name, column in steps.items()}
        return Batch(rows, batch.info)

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the episodes that are running are dropped when a run is resumed."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Forget the episodes that were running."""
        self._carried.clear()

    def _ends(self, steps: _Columns, num_carried: int) -> _Ends:
        """Return the last steps of the sequences that are complete, and were not before the fragment came."""
        ended = steps["terminated"] | steps["truncated"]
        ended[:num_carried] = False
        is_followed = np.zeros_like(ended)
        is_followed[:-1] = ~steps["is_first"][1:]
        is_followed[: max(num_carried - 1, 0)] = False
        is_full = (steps[_PLACE] + 1) % self._length == 0
        env, time = np.nonzero((steps["is_transition"] & (ended | (is_full & is_followed))).T)
        return _Ends(time, env, steps[_PLACE][time, env])

    def _rows(self, steps: _Columns, ends: _Ends) -> _Columns:
        time, env, place = ends
        num_rows, burn_in, length = len(time), self._burn_in, self._length
        slots = np.arange(burn_in + length + 1)
        last = burn_in + place % length  # the slot of the last step
        from_last = slots - last[:, None]
        is_step = (from_last <= 0) & (place[:, None] + from_last >= 0)
        rows_of_steps = np.where(is_step, time[:, None] + from_last, 0)
        each, env_of_each = np.arange(num_rows), env[:, None]

        def laid_out(column: npt.NDArray[Any], begin: int, end: int) -> npt.NDArray[Any]:
            found = column[rows_of_steps[:, begin:end], env_of_each]
            found[~is_step[:, begin:end]] = 0
            return found

        rows: _Columns = {}
        for name, column in steps.items():
            if name.startswith(_OBSERVED):
                rows[name] = laid_out(column, 0, burn_in + length + 1)
                rows[name][each, last + 1] = _following(name, steps)[time, env]
            elif not (name in _OF_FRAGMENTS or name.startswith(_NEXT)):
                rows[name] = laid_out(column, burn_in, burn_in + length)
        first = rows_of_steps[each, np.argmax(is_step, axis=1)]
        rows["memory"] = steps["memory"][first, env]
        rows["is_first"] = is_step & (place[:, None] + from_last == 0)
        rows["mask"] = mask = is_step[:, burn_in:-1]
        rows["num_steps"] = (last - burn_in + 1).astype(np.int32)
        rewards = laid_out(steps["rewards"], burn_in, burn_in + length)
        return rows | self._returns(rewards, mask, steps["terminated"][time, env])

    def _returns(
        self, rewards: npt.NDArray[Any], mask: npt.NDArray[np.bool_], has_terminated: npt.NDArray[np.bool_]
    ) -> _Columns:
        """Return the returns of n steps, or fewer, and what they go on with."""
        slots = np.arange(self._length)
        num_left = np.where(mask, mask.sum(axis=1, keepdims=True) - slots, 0)
        count = np.minimum(num_left, self._n_step)
        returns = np.zeros(mask.shape, np.float32)
        for ahead in range(min(self._n_step, self._length)):
            returns[:, : self._length - ahead] += np.float32(self._discount**ahead) * rewards[:, ahead:]
        is_over = (count == num_left) & has_terminated[:, None] | ~mask
        return {
            "rewards": returns,
            "discounts": np.where(is_over, 0.0, self._discount**count).astype(np.float32),
            "bootstraps": (slots + count).astype(np.int32),
        }


class _Ends(NamedTuple):
    """The last step of each sequence, `[M]`."""

    time: _Integers
    env: _Integers
    place: _Integers
    """Its number in its episode."""


def _with_places(columns: Mapping[str, npt.NDArray[Any]], carried: _Columns | None) -> _Columns:
    """Return what was carried over and then the fragment, with the number that each step has in its episode."""
    is_first = columns["is_first"]
    steps = np.arange(len(is_first))[:, None]
    begins = np.maximum.accumulate(np.where(is_first, steps, -1))
    before = np.zeros(is_first.shape[1], np.int64) if carried is None else carried[_PLACE][-1] + 1
    numbered: _Columns = {**columns, _PLACE: np.where(begins >= 0, steps - begins, before + steps)}
    if carried is None:
        return numbered
    return {name: np.concatenate([carried[name], column]) for name, column in numbered.items()}


def _following(name: str, steps: _Columns) -> npt.NDArray[Any]:
    """Return what each step led to; of values, which are known where the episode goes on, NaN where it was cut."""
    if name != "values":
        return steps[_NEXT + name]
    following = np.roll(steps[name], -1, axis=0)  # what comes to stand last is not read, or replaced
    following[steps["truncated"]] = np.nan
    following[steps["terminated"]] = 0.0
    return following


def estimate_sequence_priorities(*, max_share: float, rescale_epsilon: float | None) -> SequencePriorities:
    """Give sequences `priorities`, from the values that the worker's own network had: for `map` at the workers.

    The TD errors are those of n-step targets, as a learner's are. A step whose value of what followed nobody knows,
    since its episode was truncated there, is left out; a sequence of such steps alone has the priority 1.

    Args:
        max_share: η, as of `rheos_ops.q_learning.sequence_priorities`.
        rescale_epsilon: ε of `signed_hyperbolic`, in which the values are rescaled; None: they are not.
    """
    return SequencePriorities(max_share, rescale_epsilon)


@dataclass(frozen=True)
class SequencePriorities:
    """The stage that `estimate_sequence_priorities` makes."""

    max_share: float
    rescale_epsilon: float | None

    def __call__(self, rows: Batch) -> Batch:
        """Return rows of `Sequences` with `priorities` in place of `values` and `chosen_values`.

        Raises:
            ShapeError: if one of these is missing.
        """
        columns: _Columns = dict(rows.columns)
        for name in ("values", "chosen_values"):
            if name not in columns:
                has = ", ".join(columns)
                raise ShapeError(f"estimate_sequence_priorities: the batch has no column {name}, it has {has}.")
        values, chosen = columns.pop("values"), columns.pop("chosen_values")
        of_trained = values[:, -chosen.shape[1] - 1 :]
        following = np.take_along_axis(of_trained, columns["bootstraps"], axis=1)
        targets = rescaled_targets(
            numpy_xp, columns["rewards"], columns["discounts"], following, epsilon=self.rescale_epsilon
        )
        is_known = columns["mask"] & ~np.isnan(targets)
        priorities = sequence_priorities(numpy_xp, targets - chosen, is_known, max_share=self.max_share)
        columns["priorities"] = np.where(is_known.any(axis=1), priorities, np.float32(1.0))
        return Batch(columns, rows.info, rows.axis)
