"""Columns that stay with their actors on Ray, through the stages of rheos-ops."""

from __future__ import annotations

import numpy as np

from rheos import Batch, BatchInfo
from rheos_ops.stages import concat
from rheos_ray.messages import left_behind, packed, reply_of, unpacked


def batch(number: float) -> Batch:
    return Batch({"rewards": np.full(2, number)}, BatchInfo(("rollout-0",), env_steps=2))


def test_batches_that_are_elsewhere_are_joined_where_they_are_read():
    first, second = (reply_of(left_behind(batch(number), 1)[0], f"parts of {number}") for number in (1.0, 2.0))

    joined = concat([first, second, batch(3.0)])
    message, arguments = packed(joined, lambda call: None)
    arrived = unpacked(message, [left_behind(batch(number), 1)[1] for number in (1.0, 2.0)])

    assert joined.is_deferred
    assert ["parts of 1.0", "parts of 2.0"] == arguments
    assert [1.0, 1.0, 2.0, 2.0, 3.0, 3.0] == arrived["rewards"].tolist()
    assert (6, ("rollout-0",)) == (arrived.info.env_steps, arrived.info.sources)
    assert not arrived["rewards"].flags.writeable
