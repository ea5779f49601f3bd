"""The fakes do what their documentation says, so that tests which stand on them mean something."""

from __future__ import annotations

import pytest

from rheos import Actor, Batch, NotReady, Weights, from_items, run
from rheos.errors import FlowTimeout
from rheos.reports import LearnerReport
from rheos.testing.executors import ManualExecutor
from rheos.testing.fakes import (
    CountingLearner,
    StampingWorker,
    counting_learner,
    failing_workers,
    fake_actor,
    fake_group,
    replay_shards,
    spied,
    stamping_workers,
    versions_in,
)


def test_a_stamping_worker_stamps_each_rollout_with_the_weights_that_it_has():
    worker = spied(stamping_workers(2, rollout_steps=3)[1])

    before = worker.rollout()
    worker.load(Weights(4, {}))
    after = worker.rollout()

    assert ([-1], [4]) == (versions_in(before), versions_in(after))
    assert (3, 1) == after["version"].shape == after["rewards"].shape
    assert ("rollout-1",) == after.info.sources
    assert (4, 4.0, 4) == (after.info.version_min, after.info.version_mean, after.info.version_max)
    assert 3 == after.info.env_steps
    assert ([4], 2) == (worker.loaded, worker.rollouts)


def test_a_counting_learner_remembers_what_it_saw_and_publishes_when_it_is_due():
    learner = spied(counting_learner(publish_every=2))
    batches = [Batch({}), Batch({}), Batch({})]

    reports = [learner.update(batch) for batch in batches]

    assert batches == learner.seen
    assert [1, 2, 3] == [report.version for report in reports]
    assert [False, True, False] == [isinstance(report.weights, Weights) for report in reports]
    assert 3 == learner.weights().version
    assert 1 == learner.asked_for_weights


def test_one_of_the_failing_workers_fails_after_so_many_rollouts():
    first, second = (spied(worker) for worker in failing_workers(2, failing=1, after=1, error=KeyError))

    first.rollout(), first.rollout()
    second.rollout()

    with pytest.raises(KeyError):
        second.rollout()


def test_a_replay_shard_is_not_ready_before_it_holds_enough():
    shard = spied(replay_shards(1, learning_starts=2)[0])
    batch = Batch({})

    shard.add(batch)
    early = shard.sample()
    shard.add(batch)

    assert NotReady("1 of 2 batches") == early
    assert batch is shard.sample()
    shard.update_priorities(LearnerReport())
    assert (1, 1, [LearnerReport()]) == (shard.refused, shard.samples, shard.priorities)


def test_the_state_of_a_fake_carries_over_to_another():
    worker, other = StampingWorker("a"), StampingWorker("a")
    worker.load(Weights(3, {}))
    worker.rollout()
    learner, another = CountingLearner(), CountingLearner()
    learner.update(Batch({}))

    other.load_state_dict(worker.state_dict())
    another.load_state_dict(learner.state_dict())

    assert worker.state_dict() == other.state_dict()
    assert learner.state_dict() == another.state_dict()


def test_the_object_behind_a_fake_is_the_one_that_the_flow_talks_to():
    box: list[int] = []
    actor = fake_actor("box", box)

    list(run(from_items([1, 2]).tell(actor, list.append)))

    assert box is spied(actor)
    assert [1, 2] == box


def test_only_a_fake_can_be_spied_on():
    with pytest.raises(TypeError, match="worker is no fake"):
        spied(Actor("worker", list))


def test_a_group_of_fakes_keeps_their_order():
    assert ["a", "b"] == [spied(actor) for actor in fake_group("letter", ["a", "b"])]


def test_a_manual_executor_finishes_calls_one_by_one_in_their_order():
    manual, box = ManualExecutor(), []
    flow = run(from_items([1, 2, 3]).tell(fake_actor("box", box), list.append).drain(), manual)

    with pytest.raises(FlowTimeout):
        flow.next(timeout_s=0.05)
    sent = len(manual.actors["box"].waiting)
    manual.actors["box"].finish(2)

    assert (3, [1, 2]) == (sent, box)
