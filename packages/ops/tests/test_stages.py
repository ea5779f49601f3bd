"""What the stages of flows do with batches and reports."""

from __future__ import annotations

import numpy as np
import pytest

from rheos import Batch, BatchInfo, Episode, LearnerReport, from_items, run
from rheos.errors import ShapeError
from rheos_ops.stages import (
    concat,
    discounted_returns,
    estimate_advantages,
    every_steps,
    rebatch,
    report,
    report_rollout,
)


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


def rewarded(rewards, ended):
    rewards, ended = np.asarray(rewards, np.float32), np.asarray(ended, np.bool_)
    return Batch({"rewards": rewards, "terminated": ended, "truncated": np.zeros_like(ended)}, axis=1)


def returns_one_by_one(rewards, ended, discount):
    """The discounted return so far, step by step."""
    so_far, rows = np.zeros(rewards.shape[1]), []
    for reward, end in zip(rewards, ended, strict=True):
        so_far = reward + discount * so_far
        rows.append(so_far)
        so_far = np.where(end, 0.0, so_far)
    return np.stack(rows)


@pytest.mark.parametrize("cuts", [[], [1], [5], [3, 4, 17], list(range(1, 20))], ids=str)
def test_discounted_returns_are_carried_over_fragments_wherever_they_are_cut(cuts):
    generator = np.random.default_rng(0)
    rewards, ended = generator.normal(size=(20, 3)), generator.random((20, 3)) < 0.2
    stage = discounted_returns(discount=0.9)

    parts = [
        stage(rewarded(reward, end))["discounted_returns"]
        for reward, end in zip(np.split(rewards, cuts), np.split(ended, cuts), strict=True)
    ]

    np.testing.assert_allclose(returns_one_by_one(rewards, ended, 0.9), np.concatenate(parts), atol=1e-5)  # float32


def test_advantages_are_estimated_of_the_rewards_that_are_named():
    columns = {name: np.zeros((1, 1), np.float32) for name in ("rewards", "values", "next_values")}
    flags = {name: np.zeros((1, 1), np.bool_) for name in ("terminated", "truncated")}
    batch = Batch({**columns, **flags, "normalized_rewards": np.full((1, 1), 3.0, np.float32)}, axis=1)

    estimated = estimate_advantages(discount=1.0, lambda_=1.0, rewards="normalized_rewards")(batch)

    assert estimated["advantages"].item() == 3.0
    with pytest.raises(ShapeError, match=r"rewards='scaled'.*no such column, it has rewards, values"):
        estimate_advantages(discount=1.0, lambda_=1.0, rewards="scaled")(batch)


@pytest.mark.parametrize("discount", [-0.1, 1.1])
def test_a_discount_outside_of_0_to_1_is_refused(discount):
    with pytest.raises(ValueError, match="expected a number in"):
        discounted_returns(discount=discount)


def one_column(rewards, terminated=None, truncated=None, *, source="rollout-0"):
    """A fragment of one environment."""
    none = [False] * len(rewards)
    columns = {"rewards": np.array(rewards, np.float32)[:, None]}
    for name, flags in (("terminated", terminated or none), ("truncated", truncated or none)):
        columns[name] = np.array(flags)[:, None]
    return Batch(columns, BatchInfo((source,)), axis=1)


def test_the_discounted_return_adds_up_what_came_before_and_goes_to_1_over_1_minus_the_discount():
    stage = discounted_returns(discount=0.5)

    returns = stage(one_column([1.0, 1.0, 1.0, 1.0]))["discounted_returns"]

    assert [1.0, 1.5, 1.75, 1.875] == returns[:, 0].tolist()
    assert np.float32 == returns.dtype
    np.testing.assert_allclose(2.0, stage(one_column([1.0] * 40))["discounted_returns"][-1], rtol=1e-6)  # float32


@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_the_discounted_return_begins_anew_with_each_episode(ends):
    batch = one_column([1.0, 1.0, 1.0, 1.0], **{ends: [False, True, False, False]})

    returns = discounted_returns(discount=0.5)(batch)["discounted_returns"]

    assert [1.0, 1.5, 1.0, 1.5] == returns[:, 0].tolist()


def test_the_discounted_return_of_a_worker_does_not_see_those_of_another():
    stage = discounted_returns(discount=0.5)
    stage(one_column([8.0], source="rollout-0"))

    other, same = stage(one_column([1.0], source="rollout-1")), stage(one_column([1.0], source="rollout-0"))

    assert (1.0, 5.0) == (other["discounted_returns"].item(), same["discounted_returns"].item())


def test_the_discounted_return_begins_anew_when_a_run_is_resumed_as_the_episodes_do():
    stage = discounted_returns(discount=0.5)
    stage(one_column([8.0]))

    stage.load_state_dict(stage.state_dict())

    assert 1.0 == stage(one_column([1.0]))["discounted_returns"].item()
