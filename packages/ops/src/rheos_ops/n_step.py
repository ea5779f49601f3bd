"""n-step transitions as rows for replay, made where the environments are, and how much there is to learn from each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rheos import Batch
from rheos.errors import ShapeError

__all__ = ["NStepRows", "estimate_priorities", "n_step_rows"]

_Columns: TypeAlias = "dict[str, npt.NDArray[Any]]"

_NEXT = "next_"
_DONE = "is_done"
"""The column of what is carried over: the row was given already."""
_OF_STEPS = frozenset({"rewards", "terminated", "truncated", "is_transition", _DONE})


def n_step_rows(*, n_step: int, discount: float) -> NStepRows:
    """Turn fragments into rows for replay: for `map` at the workers.

    Args:
        n_step: n, at least 1: how many rewards are added up before a value takes the place of the rest.
        discount: γ per environment step, in [0, 1].

    Raises:
        ValueError: if one lies outside its range.
    """
    if n_step < 1:
        raise ValueError(f"n_step_rows(n_step={n_step}): expected at least 1.")
    if not 0.0 <= discount <= 1.0:
        raise ValueError(f"n_step_rows(discount={discount}): expected a number in [0, 1].")
    return NStepRows(n_step, discount)


class NStepRows:
    """The stage that `n_step_rows` makes; it carries over the steps whose n-step return is not known yet.

    It takes a fragment `[T, B, ...]` that has for each column of observations also what the step led to
    (`observations` and `next_observations`, ...), and gives rows `[M, ...]`, environment after environment, in order of
    time. Each row is an observation. It is a transition, too, where `num_steps` (int32) is k > 0: then `rewards` is

        r₀ + γ r₁ + ... + γᵏ⁻¹ rₖ₋₁

    where k is n, or less where the episode ended before; `discounts` is γᵏ, 0 where it terminated, and what followed is
    the observation k rows further on. Where k is 0, the row is an observation only: the last one of an episode, or one
    of those at the end whose return is not known yet, which come again as transitions with the next fragment.

    A stage that takes a state begins anew, as the episodes of a worker do that takes one: what was carried over is
    dropped, as nobody knows what it led to.

    Source:
        Hessel et al. 2018, arXiv:1710.02298; the rows that share their observations are ours.

    Example:
        >>> column = lambda *x: np.array(x)[:, None]
        >>> fragment = {"observations": column(0, 1, 2), "next_observations": column(1, 2, 3)}
        >>> fragment |= {"rewards": column(1.0, 1.0, 1.0), "actions": column(0, 0, 0)}
        >>> fragment |= dict.fromkeys(("terminated", "truncated"), column(False, False, False))
        >>> fragment |= {"is_transition": column(True, True, True)}
        >>> rows = NStepRows(2, 0.5)(Batch(fragment, axis=1))
        >>> rows["observations"].tolist(), rows["num_steps"].tolist(), rows["rewards"].tolist()
        ([0, 1, 2, 3], [2, 2, 0, 0], [1.5, 1.5, 0.0, 0.0])
    """

    def __init__(self, n_step: int, discount: float) -> None:
        self._n_step = n_step
        self._discount = discount
        self._carried: dict[tuple[str, ...], _Columns] = {}

    def __call__(self, batch: Batch) -> Batch:
        """Return the rows of a fragment, and of what was carried over before it.

        Raises:
            ShapeError: if the fragment does not say what its steps led to.
        """
        if "next_observations" not in batch.columns and not any(name.startswith(_NEXT) for name in batch.columns):
            has = ", ".join(batch.columns)
            raise ShapeError(f"n_step_rows: the batch has no column next_observations, it has {has}.")
        steps = self._with_carried(batch)
        num_steps, transitions = self._transitions(steps)
        self._carried[batch.info.sources] = self._to_carry(steps, num_steps)
        return Batch(_rows(steps, num_steps, transitions), batch.info)

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the episodes that are running are dropped when a run is resumed."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Forget the episodes that were running."""
        self._carried.clear()

    def _with_carried(self, batch: Batch) -> _Columns:
        steps: _Columns = {**batch.columns, _DONE: np.zeros(batch["rewards"].shape, np.bool_)}
        carried = self._carried.get(batch.info.sources)
        if carried is None:
            return steps
        return {name: np.concatenate([carried[name], column]) for name, column in steps.items()}

    def _to_carry(self, steps: _Columns, num_steps: npt.NDArray[np.int32]) -> _Columns:
        begin = max(len(num_steps) - self._n_step + 1, 0)
        carried = {name: column[begin:].copy() for name, column in steps.items()}
        carried[_DONE] |= num_steps[begin:] > 0
        return carried

    def _transitions(self, steps: _Columns) -> tuple[npt.NDArray[np.int32], _Columns]:
        """Return k of each step, 0 where the return is not known, and the columns of the transitions."""
        ended = steps["terminated"] | steps["truncated"]
        length = len(ended)
        returns = np.zeros(ended.shape, np.float32)
        count = np.zeros(ended.shape, np.int32)
        has_ended, has_terminated = np.zeros(ended.shape, np.bool_), np.zeros(ended.shape, np.bool_)
        goes_on = steps["is_transition"] & ~steps[_DONE]
        for ahead in range(min(self._n_step, length)):
            going, rest = goes_on[: length - ahead], slice(ahead, None)
            begins = slice(length - ahead)
            returns[begins] += going * np.float32(self._discount**ahead) * steps["rewards"][rest]
            count[begins] += going
            has_ended[begins] |= going & ended[rest]
            has_terminated[begins] |= going & steps["terminated"][rest]
            goes_on[begins] = going & ~ended[rest]
        is_known = has_ended | (count == self._n_step)
        discounts = np.where(has_terminated, 0.0, self._discount**count).astype(np.float32)
        return np.where(is_known, count, 0).astype(np.int32), {"rewards": returns, "discounts": discounts}


def _rows(steps: _Columns, num_steps: npt.NDArray[np.int32], transitions: _Columns) -> _Columns:
    """Put what was observed in a row for each environment, with what came last wherever an episode or all ends."""
    is_step = (steps["is_transition"] & ~steps[_DONE]).T  # [B, L], as the rows are ordered
    is_last = is_step & (steps["terminated"] | steps["truncated"]).T
    is_last[:, -1] = is_step[:, -1]
    sizes = is_step.astype(np.int64) + is_last
    begins = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
    total = int(sizes.sum())

    env, time = np.nonzero(is_step)
    places = begins[env, time]
    last_env, last_time = np.nonzero(is_last)
    last_places = begins[last_env, last_time] + 1
    observed = {name.removeprefix(_NEXT) for name in steps if name.startswith(_NEXT)}

    def row_by_row(column: npt.NDArray[Any], following: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        rows = np.zeros((total, *column.shape[2:]), column.dtype)
        rows[places] = column[time, env]
        if following is not None:
            rows[last_places] = following[last_time, last_env]
        return rows

    given = steps.keys() - _OF_STEPS - {_NEXT + name for name in observed}
    rows = {name: row_by_row(steps[name], steps.get(_NEXT + name)) for name in steps if name in given}
    for name, column in transitions.items():
        rows[name] = row_by_row(np.where(num_steps > 0, column, np.float32(0.0)))
    rows["num_steps"] = row_by_row(num_steps)
    return rows


def estimate_priorities(rows: Batch) -> Batch:
    """Give rows of transitions `priorities`, |TD error|, in place of the values that the worker's own network had.

    Args:
        rows: of `n_step_rows`, with `values` (of what was observed) and `chosen_values` (of the actions taken).

    Raises:
        ShapeError: if one of these is missing.

    Source:
        Horgan et al. 2018, arXiv:1803.00933, section 3: actors already have what it takes, so that new data need not
        wait for the learner to look at them.

    Example:
        >>> rows = {"num_steps": np.array([1, 0]), "rewards": np.array([1.0, 0.0]), "discounts": np.array([0.5, 0.0])}
        >>> rows |= {"values": np.array([3.0, 4.0]), "chosen_values": np.array([2.0, 0.0])}
        >>> estimate_priorities(Batch(rows))["priorities"]
        array([1., 0.])
    """
    columns: _Columns = dict(rows.columns)
    for name in ("values", "chosen_values"):
        if name not in columns:
            raise ShapeError(f"estimate_priorities: the batch has no column {name}, it has {', '.join(columns)}.")
    values, chosen = columns.pop("values"), columns.pop("chosen_values")
    ahead = np.arange(len(values)) + columns["num_steps"]
    errors = np.abs(columns["rewards"] + columns["discounts"] * values[ahead] - chosen)
    columns["priorities"] = np.where(columns["num_steps"] > 0, errors, 0.0).astype(errors.dtype)
    return Batch(columns, rows.info, rows.axis)
