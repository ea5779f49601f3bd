"""How rows are cut into minibatches and between processes, and what a loss of a share is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.arrays.numpy_namespace import numpy_xp
from rheos_ops.minibatches import SHARE, Part, WeightedLoss, minibatch_bounds

counts = st.integers(1, 300)


@given(counts, counts)
def test_minibatches_cover_all_rows_and_differ_by_at_most_one(count, minibatch_size):
    bounds = minibatch_bounds(count, minibatch_size)

    sizes = [bound.stop - bound.start for bound in bounds]
    assert list(range(count)) == [row for bound in bounds for row in range(bound.start, bound.stop)]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(0, 50), counts, st.integers(1, 8))
def test_parts_cover_a_minibatch_once_and_their_shares_are_those_of_their_rows(start, count, size):
    minibatch = slice(start, start + count)

    parts = [Part(rank, size).of(minibatch) for rank in range(size)]

    assert pytest.approx(1.0) == sum(share for _, share in parts)
    if count < size:
        assert [(minibatch, 1 / size)] * size == parts
    else:
        assert list(range(start, start + count)) == [row for rows, _ in parts for row in range(rows.start, rows.stop)]
        assert [(rows.stop - rows.start) / count for rows, _ in parts] == [share for _, share in parts]


@given(st.integers(1, 40), st.integers(1, 5))
def test_weighted_losses_of_all_parts_add_up_to_the_loss_of_the_whole(count, size):
    def loss(xp, networks, batch, coefficients):
        return xp.mean(batch["x"]), {"mean_square": xp.mean(xp.square(batch["x"]))}

    x = np.random.default_rng(count).normal(size=count).astype(np.float32)
    expected, metrics = loss(numpy_xp, {}, {"x": x}, {})

    parts = [Part(rank, size).of(slice(0, count)) for rank in range(size)]
    told = [WeightedLoss(loss)(numpy_xp, {}, {"x": x[rows]}, {SHARE: np.float32(share)}) for rows, share in parts]

    # Sums of at most 40 numbers near 1 in float32, in another order.
    assert sum(value for value, _ in told) == pytest.approx(expected, abs=1e-5)
    assert sum(parts["mean_square"] for _, parts in told) == pytest.approx(metrics["mean_square"], abs=1e-5)
