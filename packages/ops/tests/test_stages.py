"""What the stages of flows do with batches and reports."""

from __future__ import annotations

import numpy as np
import pytest

from rheos import Batch, BatchInfo, Episode, LearnerReport, from_items, run
from rheos.errors import ShapeError
from rheos_ops.stages import concat, estimate_advantages, every_steps, rebatch, report, report_rollout


def fragment(steps, envs, *, source="rollout-0", version=0, fill=0.0):
    info = BatchInfo((source,), version, float(version), version, env_steps=steps * envs, agent_steps=steps * envs)
    return Batch({"rewards": np.full((steps, envs), fill, np.float32)}, info, axis=1)


def transition_rows(count, *, source="replay-0"):
    return Batch({"rewards": np.arange(count, dtype=np.float32)}, BatchInfo((source,), env_steps=count))


def test_concat_puts_fragments_side_by_side_and_keeps_time():
    joined = concat([fragment(3, 2, fill=1.0), fragment(3, 1, source="rollout-1", fill=2.0)])

    np.testing.assert_array_equal([[1, 1, 2]] * 3, joined["rewards"])
    assert ("rollout-0", "rollout-1") == joined.info.sources
    assert joined.info.env_steps == 9


def test_concat_puts_transitions_one_behind_the_other():
    joined = concat([transition_rows(2), transition_rows(3)])

    np.testing.assert_array_equal([0, 1, 0, 1, 2], joined["rewards"])


def test_concat_weighs_the_mean_version_by_steps():
    joined = concat([fragment(3, 1, version=0), fragment(3, 3, version=4)])

    assert (0, 3.0, 4) == (joined.info.version_min, joined.info.version_mean, joined.info.version_max)


@pytest.mark.parametrize("batches", [[], [fragment(2, 1), transition_rows(2)]])
def test_concat_refuses_nothing_and_batches_of_two_kinds(batches):
    with pytest.raises(ShapeError, match="concat got"):
        concat(batches)


def test_rebatch_gives_batches_of_at_least_its_size_and_the_remainder_at_the_end():
    parts = [fragment(2, 1, source=f"rollout-{index}") for index in range(5)]

    with run(from_items(parts).flat_map(rebatch(min_steps=4))) as flow:
        sizes = [(batch.info.env_steps, batch.info.sources) for batch in flow]

    assert [(4, ("rollout-0", "rollout-1")), (4, ("rollout-2", "rollout-3")), (2, ("rollout-4",))] == sizes


def test_rebatch_remembers_what_waits():
    first, second = rebatch(min_steps=4), rebatch(min_steps=4)
    assert first(fragment(2, 1, fill=1.0)) == []

    second.load_state_dict(first.state_dict())

    (whole,) = second(fragment(2, 1, fill=2.0))
    np.testing.assert_array_equal([[1, 2], [1, 2]], whole["rewards"])


def test_every_steps_counts_the_steps_of_each_source_apart():
    message = every_steps(4, lambda batch: batch.info.sources[0])
    order = ["a", "b", "a", "b", "a"]

    sent = [message(fragment(3, 1, source=source)) for source in order]

    assert [None, None, "a", "b", "a"] == sent  # a: 3, 6 -> 2 over, 5 -> 1 over; b: 3, 6


def test_every_steps_counts_an_item_of_several_sources_for_each_of_them_in_equal_parts():
    message = every_steps(4, lambda batch: batch.info.sources)
    both = concat([fragment(3, 1, source="a"), fragment(3, 1, source="b")])

    sent = [message(item) for item in (both, fragment(2, 1, source="b"), both)]

    assert [None, ("b",), ("a", "b")] == sent  # a: 3, 3, 6; b: 3, 5, 4


def test_every_steps_remembers_no_more_than_a_number_for_each_source():
    message = every_steps(1000, lambda _: "now")

    for order in ("abc", "acb", "bac", "bca", "cab", "cba"):
        message(concat([fragment(1, 1, source=source) for source in order]))

    assert {"a", "b", "c"} == message.state_dict()["since"].keys()


def test_every_steps_goes_on_where_it_was():
    first, second = every_steps(4, lambda _: "now"), every_steps(4, lambda _: "now")
    assert first(fragment(3, 1)) is None

    second.load_state_dict(first.state_dict())

    assert second(fragment(1, 1)) == "now"


@pytest.mark.parametrize("make", [lambda: rebatch(min_steps=0), lambda: every_steps(0, lambda _: None)])
def test_stages_that_count_steps_need_at_least_one(make):
    with pytest.raises(ValueError, match="expected at least 1"):
        make()


def test_a_report_tells_steps_episodes_and_how_far_behind_the_acting_weights_were():
    info = BatchInfo(("rollout-0",), 5, 6.5, 8, env_steps=20, agent_steps=20, episodes=(Episode(3.0, 7),))

    told = report(LearnerReport(info, version=10, updates=1, metrics={"loss": 0.5}))

    assert (20, 1, (Episode(3.0, 7),)) == (told.env_steps, told.updates, told.episodes)
    assert (1, 2.5, 4) == told.lag  # the update began at version 9


def test_a_report_of_a_rollout_has_steps_and_no_lag():
    told = report_rollout(fragment(4, 2))

    assert (8, 0, None) == (told.env_steps, told.updates, told.lag)


def test_estimated_advantages_are_returns_less_values_where_lambda_is_one():
    columns = {
        "rewards": np.ones((3, 1), np.float32),
        "values": np.array([[0.5], [0.25], [0.0]], np.float32),
        "next_values": np.array([[0.25], [0.0], [9.0]], np.float32),
        "terminated": np.array([[False], [False], [True]]),
        "truncated": np.zeros((3, 1), bool),
    }

    batch = estimate_advantages(discount=1.0, lambda_=1.0)(Batch(columns, BatchInfo(env_steps=3), axis=1))

    np.testing.assert_allclose([[3.0], [2.0], [1.0]], batch["returns"], atol=1e-6)  # float32 sums of a few numbers
    np.testing.assert_allclose([[2.5], [1.75], [1.0]], batch["advantages"], atol=1e-6)


@pytest.mark.parametrize("wrong", [{"discount": 1.5, "lambda_": 0.9}, {"discount": 0.9, "lambda_": -0.1}])
def test_advantages_need_numbers_between_0_and_1(wrong):
    with pytest.raises(ValueError, match=r"expected a number in \[0, 1\]"):
        estimate_advantages(**wrong)
