"""Schedules: numbers as functions of env steps."""

from __future__ import annotations

import pytest

from rheos_ops.schedules import Constant, Linear


def test_a_constant_is_the_same_at_every_step():
    assert [0.3, 0.3] == [Constant(0.3)(steps) for steps in (0, 10**9)]


@pytest.mark.parametrize(("start", "end"), [(1.0, 0.0), (0.1, 0.3), (2.0, 2.0)])
def test_a_linear_schedule_starts_and_ends_exactly_and_is_half_way_at_half_the_steps(start, end):
    schedule = Linear(start, end, steps=1000)

    assert [start, end, end] == [schedule(steps) for steps in (0, 1000, 5000)]
    assert pytest.approx((start + end) / 2) == schedule(500)


def test_a_linear_schedule_takes_a_step_at_least():
    assert [1.0, 0.0] == [Linear(1.0, 0.0, steps=1)(steps) for steps in (0, 1)]
    with pytest.raises(ValueError, match=r"Linear\(steps=0\): expected at least 1"):
        Linear(1.0, 0.0, steps=0)
