"""ReplayShard: the actor that keeps transitions and gives batches of them, by priority or uniformly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from rheos import Batch, BatchInfo, NotReady
from rheos.batches import Columns
from rheos.errors import ShapeError
from rheos.seeds import generator_for
from rheos.spaces import ACTION_MASK
from rheos_ops.replay.rings import IdQueue, Ids
from rheos_ops.replay.storage import Added, Storage
from rheos_ops.replay.sum_tree import SumTree
from rheos_ops.schedules import Constant, Schedule

__all__ = ["Learned", "ReplayShard"]

Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Steps: TypeAlias = npt.NDArray[np.signedinteger[Any]]

_NUM_STEPS, _PRIORITIES = "num_steps", "priorities"
_VERSIONS = "versions of the weights"
"""The column beside those of the batches: least, mean and largest version of the batch that a row came with."""

_GIVEN = ("ids", "weights")
"""The columns that a sample has beside those of its rows."""

_MOST = float(np.finfo(np.float32).max)
_EPSILON = 1e-6
"""What is added to every priority."""
_TREE_BYTES = 9
"""Of a row in the sum tree, its share of the sums included."""


class Learned(Protocol):
    """What `update_priorities` reads of a learner's report."""

    @property
    def rows(self) -> Mapping[str, npt.NDArray[Any]]:
        """What was learned of each row: `ids` and `priorities`, `[N]` each."""
        ...


class ReplayShard:
    """Keeps rows of experience, and gives batches of those that are transitions.

    What it is given are rows, environment by environment and in order of time. Each is an observation; where its
    `num_steps` is k > 0 it is a transition, too, and what followed it is the observation k rows further on, in the
    same batch. Only transitions are sampled.

    Transition i is drawn with the probability P(i) = (pᵢ + ε)^α / Σⱼ (pⱼ + ε)^α, once in each of N equal parts of the
    sum, and has the importance weight wᵢ = (n P(i))^(-β), divided by the largest of the batch; n is the number of
    transitions that are there, and ε is 1e-6, so that what had no error once is still drawn now and then. With α = 0
    all are drawn alike and independently, and weigh 1.

    Args:
        name: of the actor; the source of what it gives.
        seed: of the run; what is drawn derives from it and `name`.
        capacity: rows, transitions or not.
        capacity_bytes: of everything that it keeps; None: no such bound.
        learning_starts: transitions that must have come before it gives any.
        batch_size: N, transitions in what it gives.
        priority_exponent: α, in [0, 1]; with 0 there are no priorities.
        importance_exponent: β, or a schedule of it over the env steps that came.
        gives_next: whether a sample has the observations that followed. False: rows are whole sequences; those
            with `num_steps` above 0 are sampled, and nothing further on is read.

    Raises:
        ValueError: if a number lies outside its range.

    Source:
        Schaul et al. 2016, arXiv:1511.05952, section 3.3 and algorithm 1; for shards, and priorities that come with
        the rows, Horgan et al. 2018, arXiv:1803.00933.
    """

    def __init__(
        self,
        *,
        name: str,
        seed: int,
        capacity: int,
        capacity_bytes: int | None = None,
        learning_starts: int,
        batch_size: int,
        priority_exponent: float,
        importance_exponent: float | Schedule,
        gives_next: bool = True,
    ) -> None:
        if learning_starts < 0:
            raise ValueError(f"learning_starts: got {learning_starts}, expected at least 0.")
        if batch_size < 1:
            raise ValueError(f"batch_size: got {batch_size}, expected at least 1.")
        if not 0.0 <= priority_exponent <= 1.0:
            raise ValueError(f"priority_exponent: got {priority_exponent}, expected a number from 0 to 1.")
        if not callable(importance_exponent) and not importance_exponent >= 0.0:
            raise ValueError(f"importance_exponent: got {importance_exponent}, expected a number of at least 0.")
        self._name = name
        self._learning_starts = learning_starts
        self._exponent = priority_exponent
        self._importance = importance_exponent if callable(importance_exponent) else Constant(importance_exponent)
        self._gives_next = gives_next
        self._parts = np.arange(batch_size, dtype=np.float64)
        tree_bytes = _TREE_BYTES if priority_exponent > 0.0 else 0
        self._storage = Storage(capacity, capacity_bytes, overhead_bytes=8 + tree_bytes)
        self._tree: SumTree | None = None
        self._queue: IdQueue | None = None  # of the transitions that are there
        self._observed: tuple[str, ...] = ()
        self._generator = generator_for(seed, name, "sampling")
        self._env_steps = 0
        self._transitions = 0  # that came so far
        self._largest = 1.0  # priority so far, raised to the exponent

    def add(self, batch: Batch) -> None:
        """Keep the rows of a batch; the oldest rows end where there is no room for them.

        Args:
            batch: along axis 0. `num_steps`, `[M]` integers, says which rows are transitions, and of how many steps.
                `priorities`, `[M]`, if there, are the first ones of the transitions, not yet raised to α; else these
                get the largest priority so far, at first 1. All other columns are kept.

        Raises:
            ShapeError: if its axis is not 0, it lacks `num_steps`, what follows a row is not in it, its columns are
                of another kind than those before, or it has more rows than there is room for.
            ValueError: if the priority of a transition is negative or not finite.
        """
        if batch.axis != 0:
            raise ShapeError(f"{self._name} got a batch along axis {batch.axis}, expected rows, along axis 0.")
        columns = dict(batch.columns)
        priorities = columns.pop(_PRIORITIES, None)
        num_steps = self._checked_steps(columns)
        is_transition = num_steps > 0
        raised = self._raised_of_new(priorities, is_transition)
        info = batch.info
        versions = columns[_VERSIONS] = np.empty((len(num_steps), 3))
        versions[:] = info.version_min, info.version_mean, info.version_max
        self._prepare()
        added = self._storage.add(columns)
        self._env_steps += info.env_steps
        if len(num_steps):
            self._index(added, is_transition, raised)

    def sample(self) -> Batch | NotReady:
        """Return `batch_size` transitions, as drawn: one may be among them several times.

        Their columns are those of the rows; for every column of observations (`observations...`, `action_mask`) the
        one that followed, `next_...`; `ids`, int64, for `update_priorities`; and `weights`, float32.
        The info has the versions of the rows; their env steps were counted when they came.
        """
        wanted = max(self._learning_starts, 1)
        if self._transitions < wanted:
            return NotReady(f"{self._transitions} of {wanted} transitions")
        self._prepare()
        if not self._queue:  # all that came since are observations only
            return NotReady("0 of 1 transitions")
        ids, weights = self._draw(self._queue)
        columns: dict[str, npt.NDArray[Any]] = self._storage.gather(ids)
        versions = columns.pop(_VERSIONS)
        if self._gives_next:
            following = self._storage.gather(ids + columns[_NUM_STEPS], self._observed)
            columns.update((f"next_{name}", column) for name, column in following.items())
        columns["ids"], columns["weights"] = ids, weights
        info = BatchInfo(
            sources=(self._name,),
            version_min=int(np.minimum.reduce(versions[:, 0])),
            version_mean=float(np.add.reduce(versions[:, 1])) / len(ids),
            version_max=int(np.maximum.reduce(versions[:, 2])),
        )
        return Batch(columns, info)

    def update_priorities(self, learned: Learned) -> None:
        """Set the priorities of the rows that a learner learned from; those of rows that are gone are dropped.

        Args:
            learned: with `rows["ids"]` and `rows["priorities"]`, not yet raised to α; where an id is there several
                times, the last one counts. No rows at all change nothing, nor does anything where α is 0.

        Raises:
            ShapeError: if the two are not of one shape, `[N]`.
            ValueError: if a priority is negative or not finite; nothing has changed then.
        """
        if self._tree is None or not learned.rows:
            return
        ids, priorities = learned.rows["ids"], learned.rows["priorities"]
        if not ids.size:
            return
        if ids.ndim != 1 or ids.shape != priorities.shape:
            raise ShapeError(
                f"{self._name}: `ids` has shape {ids.shape}, `{_PRIORITIES}` {priorities.shape}: expected (N,) of both."
            )
        self._prepare()
        raised = self._raised(priorities, ids)
        oldest, end = self._storage.oldest, self._storage.end
        if np.minimum.reduce(ids) < oldest or np.maximum.reduce(ids) >= end:
            is_there = (ids >= oldest) & (ids < end)
            ids, raised = ids[is_there], raised[is_there]
        if ids.size:
            self._tree.update(ids % self._storage.capacity, raised)
            self._largest = max(self._largest, float(np.maximum.reduce(raised)))

    def restarted(self, times: int) -> None:
        """Give ids that no earlier life of this actor gave: what still comes for those is dropped."""
        self._storage.begin_at(times << 40)

    def segments(self) -> tuple[str, ...]:
        """Return the names of the parts of the rows that are there, for `segment`."""
        return self._storage.segments()

    def segment(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Return a copy of a part of the rows; what has one name is always the same.

        Raises:
            TreeError: if there is none of this name.
        """
        return self._storage.segment(name)

    def load_segment(self, segment: tuple[str, Columns]) -> None:
        """Take a name and what `segment` gave for it, after the state.

        Raises:
            TreeError: if it does not belong to the state that was loaded.
        """
        name, columns = segment
        self._storage.load_segment(name, columns)

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the rows, which are in the segments."""
        return {
            "generator": self._generator.bit_generator.state,
            "env_steps": self._env_steps,
            "transitions": self._transitions,
            "largest": self._largest,
            "priorities": None if self._tree is None else self._tree.get(self._places()),
            "storage": self._storage.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave; the segments come next, by `load_segment`.

        Raises:
            TreeError: if it is the state of a shard of another capacity.
        """
        self._storage.load_state_dict(state["storage"])
        self._generator.bit_generator.state = state["generator"]
        self._env_steps = state["env_steps"]
        self._transitions = state["transitions"]
        self._largest = state["largest"]
        self._tree = self._queue = None
        if state["priorities"] is not None:
            self._tree = SumTree(self._storage.capacity)
            self._tree.update(self._places(), state["priorities"])

    def _checked_steps(self, columns: Columns) -> Steps:
        num_steps: Any = columns.get(_NUM_STEPS)
        if num_steps is None or num_steps.ndim != 1 or num_steps.dtype.kind != "i":
            got = "none" if num_steps is None else f"{num_steps.dtype} {list(num_steps.shape)}"
            raise ShapeError(f"{self._name}: `{_NUM_STEPS}`: got {got}, expected signed integers, [M].")
        if not self._storage.is_allocated:
            self._check_names(columns)
        last = np.arange(len(num_steps)) + num_steps
        if self._gives_next and len(num_steps) and np.maximum.reduce(last) >= len(num_steps):
            row = int(np.argmax(last >= len(num_steps)))
            raise ShapeError(
                f"{self._name}: `{_NUM_STEPS}` of row {row} is {num_steps[row]}, in a batch of {len(num_steps)} rows:"
                " what follows a row has to be in the same batch."
            )
        steps: Steps = num_steps
        return steps

    def _check_names(self, columns: Columns) -> None:
        for name in (*_GIVEN, *(f"next_{name}" for name in columns if self._gives_next and _is_observed(name))):
            if name in columns:
                raise ShapeError(f"{self._name} got a column `{name}`, which is the name of one that it makes itself.")

    def _raised_of_new(self, priorities: npt.NDArray[Any] | None, is_transition: Flags) -> Floats | None:
        """Return the priorities of new rows, raised to the exponent; None where there is no tree."""
        if not self._exponent:
            return None
        raised = np.zeros(is_transition.shape)
        if priorities is None:
            raised[is_transition] = self._largest
            return raised
        if priorities.shape != is_transition.shape:
            raise ShapeError(
                f"{self._name}: `{_PRIORITIES}` has shape {priorities.shape}, `{_NUM_STEPS}` {is_transition.shape}:"
                " expected one of each row."
            )
        raised[is_transition] = self._raised(priorities[is_transition], np.flatnonzero(is_transition))
        return raised

    def _raised(self, priorities: npt.NDArray[Any], rows: Ids) -> Floats:
        if not priorities.size:
            return np.zeros(0)
        if not (np.minimum.reduce(priorities) >= 0.0 and np.maximum.reduce(priorities) <= _MOST):  # or one is NaN
            at = int(np.argmin((priorities >= 0.0) & (priorities <= _MOST)))
            raise ValueError(
                f"{self._name}: `{_PRIORITIES}`: got {priorities[at]} for row {rows[at]}, expected finite numbers of at"
                " least 0."
            )
        raised: Floats = (priorities.astype(np.float64) + _EPSILON) ** self._exponent
        return raised

    def _prepare(self) -> None:
        """Make what depends on the rows that are there, when the first ones came or the segments were loaded."""
        if self._queue is not None or not self._storage.is_allocated:
            return
        self._observed = tuple(filter(_is_observed, self._storage.names))
        ids = np.arange(self._storage.oldest, self._storage.end)
        rows = self._storage.gather(ids, (_NUM_STEPS,))
        self._queue = IdQueue(self._storage.capacity)
        self._queue.append(ids[rows[_NUM_STEPS] > 0])

    def _index(self, added: Added, is_transition: Flags, raised: Floats | None) -> None:
        storage = self._storage
        if self._queue is None:
            self._prepare()
        else:
            self._queue.drop_below(storage.oldest, at_most=len(added.ended))
            self._queue.append(added.ids[is_transition])
        self._transitions += int(np.count_nonzero(is_transition))
        if raised is None:
            return
        if self._tree is None:
            self._tree = SumTree(storage.capacity)
        self._tree.update(added.ids % storage.capacity, raised)
        # What ended for want of frames was not overwritten.
        left = np.arange(max(added.ended.start, storage.end - storage.capacity), added.ended.stop)
        if left.size:
            self._tree.update(left % storage.capacity, np.zeros(left.size))
        self._largest = max(self._largest, float(np.maximum.reduce(raised)))

    def _draw(self, queue: IdQueue) -> tuple[Ids, npt.NDArray[np.float32]]:
        """Return the ids of rows and their importance weights."""
        count = len(self._parts)
        if self._tree is None:
            return queue.draw(self._generator, count), np.ones(count, np.float32)
        places = self._tree.find((self._parts + self._generator.random(count)) * (self._tree.total / count))
        priorities = self._tree.get(places)
        # n and the sum of all priorities are in every weight, and so in none that is divided by the largest
        weights = (priorities / np.minimum.reduce(priorities)) ** -self._importance(self._env_steps)
        oldest = self._storage.oldest
        return oldest + (places - oldest) % self._storage.capacity, weights.astype(np.float32)

    def _places(self) -> Ids:
        """Return where the rows that are there lie, in order of their ids."""
        return np.arange(self._storage.oldest, self._storage.end) % self._storage.capacity


def _is_observed(name: str) -> bool:
    return name.startswith("observations") or name == ACTION_MASK
