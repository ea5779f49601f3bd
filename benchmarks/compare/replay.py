"""Prioritised replay of a million transitions, Rheos beside TorchRL and Tianshou: `nox -s compare`.

Each side does what DQN on CartPole asks of it, in NumPy or in tensors as its users have them: chunks of 50 transitions
come and get the largest priority so far, a batch is drawn and gathered (observations, actions, rewards, what followed,
importance weights), and the priorities of a batch are set. Buffers are full, and there is one thread; sides take turns
in one process, and the first round does not count. TorchRL is its `ReplayBuffer` with `LazyTensorStorage` and
`PrioritizedSampler`, whose tree is in C++; Tianshou is its buffer for 50 environments, which takes one transition of
each at once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple, Protocol

os.environ.update({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})

import numpy as np

from rheos import Batch, BatchInfo
from rheos_ops.replay.shard import ReplayShard

CAPACITY, CHUNK, ALPHA, BETA = 1_000_000, 50, 0.6, 0.4
SIZES = (32, 512)
FILL = 10_000
REPEATS = 200
"""Calls of a measurement."""


class Side(Protocol):
    """A full buffer of one library."""

    def insert(self) -> Any:
        """Take 50 transitions."""

    def sample(self) -> Any:
        """Draw a batch; return what `update` needs of it."""

    def update(self, drawn: Any, priorities: np.ndarray) -> Any:
        """Set the priorities of a batch."""


class Learned(NamedTuple):
    rows: dict[str, np.ndarray]


def transitions(count: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(count)
    return {
        "observations": generator.normal(size=(count, 4)).astype(np.float32),
        "actions": generator.integers(0, 2, count).astype(np.int32),
        "rewards": np.ones(count, np.float32),
        "terminated": generator.random(count) < 0.01,
        "next_observations": generator.normal(size=(count, 4)).astype(np.float32),
    }


class Rheos:
    """A shard; its rows are transitions, and one more that is only what the last one led to."""

    def __init__(self, batch_size: int) -> None:
        self._shard = ReplayShard(
            name="replay-0",
            seed=0,
            capacity=CAPACITY,
            learning_starts=1,
            batch_size=batch_size,
            priority_exponent=ALPHA,
            importance_exponent=BETA,
        )
        priorities = np.random.default_rng(1).random(FILL).astype(np.float32)
        for _ in range(CAPACITY // FILL):
            self._shard.add(self._batch(FILL - 1).with_columns(priorities=priorities))
        self._chunk = self._batch(CHUNK)

    @staticmethod
    def _batch(count: int) -> Batch:
        rows = transitions(count + 1)
        columns = {name: rows[name] for name in ("observations", "actions", "rewards")}
        columns["discounts"] = np.where(rows["terminated"], 0.0, 0.99).astype(np.float32)
        columns["num_steps"] = (np.arange(count + 1) < count).astype(np.int32)
        return Batch(columns, BatchInfo(env_steps=count))

    def insert(self) -> None:
        self._shard.add(self._chunk)

    def sample(self) -> Any:
        sample = self._shard.sample()
        assert isinstance(sample, Batch)
        return sample["ids"]

    def update(self, drawn: Any, priorities: np.ndarray) -> None:
        self._shard.update_priorities(Learned({"ids": drawn, "priorities": priorities}))


class TorchRL:
    """Its tree is in C++; where its wheel was built for another torch, it cannot be measured."""

    def __init__(self, batch_size: int) -> None:
        import torch
        from torchrl.data import LazyTensorStorage, PrioritizedSampler, ReplayBuffer

        torch.set_num_threads(1)
        sampler = PrioritizedSampler(CAPACITY, alpha=ALPHA, beta=BETA)
        self._buffer = ReplayBuffer(storage=LazyTensorStorage(CAPACITY), sampler=sampler, batch_size=batch_size)
        for _ in range(CAPACITY // FILL):
            indices = self._buffer.extend(self._data(FILL))
            self._buffer.update_priority(indices, torch.rand(FILL))
        self._chunk = self._data(CHUNK)

    @staticmethod
    def _data(count: int) -> Any:
        import torch
        from tensordict import TensorDict

        return TensorDict({name: torch.from_numpy(column) for name, column in transitions(count).items()}, [count])

    def insert(self) -> None:
        self._buffer.extend(self._chunk)

    def sample(self) -> Any:
        return self._buffer.sample(return_info=True)[1]["index"]

    def update(self, drawn: Any, priorities: np.ndarray) -> None:
        import torch

        self._buffer.update_priority(drawn, torch.from_numpy(priorities))


class Tianshou:
    """Keeps what followed beside each transition, as it does for one that it gets."""

    def __init__(self, batch_size: int) -> None:
        from tianshou.data import PrioritizedVectorReplayBuffer

        self._batch_size = batch_size
        self._buffer = PrioritizedVectorReplayBuffer(CAPACITY, CHUNK, alpha=ALPHA, beta=BETA)
        self._buffers = np.arange(CHUNK)
        self._chunk = self._data()
        for _ in range(CAPACITY // CHUNK):
            self.insert()
        self._buffer.update_weight(np.arange(CAPACITY), np.random.default_rng(1).random(CAPACITY))

    @staticmethod
    def _data() -> Any:
        from tianshou.data import Batch as Rows

        rows, none = transitions(CHUNK), np.zeros(CHUNK, np.bool_)
        return Rows(
            obs=rows["observations"],
            act=rows["actions"],
            rew=rows["rewards"],
            terminated=rows["terminated"],
            truncated=none,
            done=rows["terminated"],
            obs_next=rows["next_observations"],
            info={},
        )

    def insert(self) -> None:
        self._buffer.add(self._chunk, buffer_ids=self._buffers)

    def sample(self) -> Any:
        return self._buffer.sample(self._batch_size)[1]

    def update(self, drawn: Any, priorities: np.ndarray) -> None:
        self._buffer.update_weight(drawn, priorities)


SIDES: dict[str, tuple[str, Callable[[int], Side]]] = {
    "rheos": ("rheos-ops", Rheos),
    "torchrl": ("torchrl", TorchRL),
    "tianshou": ("tianshou", Tianshou),
}


def measure(side: Side, batch_size: int) -> dict[str, float]:
    """Return transitions a second of inserts, samples and updates."""
    priorities = np.random.default_rng(2).random((REPEATS, batch_size)).astype(np.float32)
    started = time.perf_counter()
    for _ in range(REPEATS):
        side.insert()
    inserted = time.perf_counter()
    drawn = [side.sample() for _ in range(REPEATS)]
    sampled = time.perf_counter()
    for indices, numbers in zip(drawn, priorities, strict=True):
        side.update(indices, numbers)
    updated = time.perf_counter()
    return {
        "inserts": REPEATS * CHUNK / (inserted - started),
        "samples": REPEATS * batch_size / (sampled - inserted),
        "updates": REPEATS * batch_size / (updated - sampled),
    }


def made(batch_size: int) -> dict[str, Side]:
    """Return the buffers that can be made here; say of the others why not."""
    sides = {}
    for name, (_, make) in SIDES.items():
        try:
            sides[name] = make(batch_size)
        except (ImportError, RuntimeError) as error:
            print(f"  {name} cannot be measured: {type(error).__name__}: {error}")
    return sides


def print_speeds(batch_size: int, rounds: int) -> None:
    """Print the table of one batch size: medians over the rounds, and our ratio to each rival, round by round."""
    print(f"\nbatch {batch_size}, million transitions/s (ratio of rheos to it)")
    sides = made(batch_size)
    speeds: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        order = list(sides) if number % 2 else list(reversed(sides))
        for name in order:
            found = measure(sides[name], batch_size)
            if number:  # the first round warms up
                speeds[name].append(found)
    for name, rows in speeds.items():
        words = [f"  {name:10s}"]
        for what in ("inserts", "samples", "updates"):
            median = statistics.median(row[what] for row in rows) / 1e6
            ratio = statistics.median(ours[what] / row[what] for ours, row in zip(speeds["rheos"], rows, strict=True))
            words.append(f"{what} {median:6.3f} ({ratio:5.2f})")
        print("  ".join(words), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15, help="of alternating measurements that count")
    arguments = parser.parse_args()
    print(f"Prioritised replay, {CAPACITY:,} transitions, chunks of {CHUNK}, one thread")
    for name, (package, _) in SIDES.items():
        try:
            print(f"  {name} {version(package)}")
        except PackageNotFoundError:
            print(f"  {name} is not installed and left out: pip install {package}")
    for batch_size in SIZES:
        print_speeds(batch_size, arguments.rounds)


if __name__ == "__main__":
    main()
