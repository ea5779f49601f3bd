"""A shard of a million rows: what a batch that comes, a sample and an update of priorities cost, all included.

Run: `nox -s bench -- benchmarks/bench_replay.py`, on an idle machine; the number of transitions over the median in µs
is millions of transitions a second. The rows are those of DQN on CartPole; the images are stacks of four 84x84 frames.
`compare/replay.py` has the same beside other libraries.
"""

from __future__ import annotations

from functools import cache
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import pytest

from rheos import Batch, BatchInfo
from rheos_ops.replay.shard import ReplayShard

CAPACITY, IMAGES = 1_000_000, 20_000
CHUNK = 50

both_sizes = pytest.mark.parametrize("batch_size", [32, 512])
both_kinds = pytest.mark.parametrize("exponent", [0.0, 0.6], ids=["uniform", "prioritised"])


class Learned(NamedTuple):
    rows: dict[str, np.ndarray]


def batch_of(count: int, *, images: bool = False) -> Batch:
    """Return so many transitions, and what the last one led to."""
    generator = np.random.default_rng(count)
    num_steps = np.ones(count + 1, np.int32)
    num_steps[-1] = 0
    if images:
        film = generator.integers(0, 256, (count + 4, 84, 84), np.uint8)
        observations: Any = np.stack([film[row : row + 4] for row in range(count + 1)])
    else:
        observations = generator.normal(size=(count + 1, 4)).astype(np.float32)
    columns = {
        "observations": observations,
        "actions": generator.integers(0, 2, count + 1).astype(np.int32),
        "rewards": np.ones(count + 1, np.float32),
        "discounts": np.full(count + 1, 0.99, np.float32),
        "num_steps": num_steps,
        "priorities": generator.random(count + 1).astype(np.float32),
    }
    return Batch(columns, BatchInfo(env_steps=count, version_mean=1.0, version_max=1))


@cache
def full_shard(exponent: float, batch_size: int, *, images: bool = False) -> ReplayShard:
    shard = ReplayShard(
        name="replay-0",
        seed=0,
        capacity=IMAGES if images else CAPACITY,
        learning_starts=1,
        batch_size=batch_size,
        priority_exponent=exponent,
        importance_exponent=0.4,
    )
    size = 500 if images else 10_000
    batch = batch_of(size, images=images)
    for _ in range(-(-(IMAGES if images else CAPACITY) // size)):
        shard.add(batch)
    return shard


@pytest.mark.benchmark(group="add 50 transitions")
@both_kinds
def test_add(benchmark, exponent):
    benchmark(full_shard(exponent, 32).add, batch_of(CHUNK))


@pytest.mark.benchmark(group="sample")
@both_sizes
@both_kinds
def test_sample(benchmark, exponent, batch_size):
    shard = full_shard(exponent, batch_size)
    shard.add(batch_of(CHUNK))

    benchmark(shard.sample)


@pytest.mark.benchmark(group="update priorities")
@both_sizes
def test_update_priorities(benchmark, batch_size):
    shard, generator = full_shard(0.6, batch_size), np.random.default_rng(0)
    samples = [shard.sample() for _ in range(200)]
    reports = cycle(
        [
            Learned({"ids": sample["ids"], "priorities": generator.random(batch_size).astype(np.float32)})
            for sample in samples
            if isinstance(sample, Batch)
        ]
    )

    benchmark(lambda: shard.update_priorities(next(reports)))


@pytest.mark.benchmark(group="images: add 50 transitions")
@both_kinds
def test_add_images(benchmark, exponent):
    benchmark(full_shard(exponent, 32, images=True).add, batch_of(CHUNK, images=True))


@pytest.mark.benchmark(group="images: sample")
@both_sizes
@both_kinds
def test_sample_images(benchmark, exponent, batch_size):
    benchmark(full_shard(exponent, batch_size, images=True).sample)
