"""How old the weights are that act: barriers, lag, and published weights, shown by stamped versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from rheos import (
    Actor,
    ActorGroup,
    Batch,
    BatchInfo,
    LearnerReport,
    Published,
    Route,
    Stream,
    Weights,
    concurrently,
    from_actors,
    from_items,
    round_robin,
    run,
)
from rheos.testing.fakes import (
    CountingLearner,
    StampingWorker,
    counting_learner,
    fake_actor,
    fake_group,
    spied,
    stamping_workers,
    versions_in,
)

Newest = Callable[[Any], Published[Weights]]


def newest_weights(learner: Actor[CountingLearner]) -> Newest:
    return lambda _: Published(learner, CountingLearner.weights)


def join(batches: Sequence[Batch]) -> Batch:
    columns = {"version": np.concatenate([batch["version"] for batch in batches], axis=1)}
    return Batch(columns, BatchInfo.union(batch.info for batch in batches), axis=1)


def rollouts(workers: ActorGroup[StampingWorker], learner: Actor[CountingLearner]) -> Any:
    return from_actors(workers, StampingWorker.rollout, first=(StampingWorker.load, newest_weights(learner)))


def synchronous(workers: ActorGroup[StampingWorker], learner: Actor[CountingLearner]) -> Stream[LearnerReport]:
    return (
        rollouts(workers, learner)
        .gather_sync()
        .map(join)
        .ask(learner, CountingLearner.update)
        .tell(workers, StampingWorker.load, message=newest_weights(learner), route=Route.ALL)
    )


def asynchronous(
    workers: ActorGroup[StampingWorker], learner: Actor[CountingLearner], *, in_flight: int
) -> Stream[LearnerReport]:
    return (
        rollouts(workers, learner)
        .gather_async(in_flight=in_flight)
        .ask(learner, CountingLearner.update)
        .tell(workers, StampingWorker.load, message=newest_weights(learner), route=Route.SOURCE)
    )


def own_lags(learner: CountingLearner) -> list[int]:
    """How many updates from a worker's own rollouts its weights missed, for each of its rollouts."""
    made: dict[str, list[int]] = {}  # source -> versions that its rollouts led to
    lags = []
    for version, batch in enumerate(learner.seen, 1):
        (source,), (acted,) = batch.info.sources, versions_in(batch)
        lags.append(sum(one > acted for one in made.setdefault(source, [])))
        made[source].append(version)
    return lags


# barrier


@pytest.mark.parametrize("count", [1, 4])
def test_every_rollout_of_a_round_was_made_with_the_weights_of_the_update_before(count: int):
    workers, learner = stamping_workers(count), counting_learner()

    with run(synchronous(workers, learner)) as flow:
        for _ in range(5):
            next(flow)

    assert [[0], [1], [2], [3], [4]] == [versions_in(batch) for batch in spied(learner).seen]


def test_a_barrier_sends_the_next_requests_only_when_the_consumer_comes_back():
    workers = stamping_workers(2)

    with run(from_actors(workers, StampingWorker.rollout).gather_sync()) as flow:
        next(flow)
        flow.ask(workers[0], StampingWorker.state_dict)  # whatever had been sent would be done before this

        assert [1, 1] == [spied(worker).rollouts for worker in workers]


def test_a_barrier_holds_where_an_actor_is_asked_by_source():
    (worker,) = workers = stamping_workers(1)
    learner = counting_learner()

    class Both(StampingWorker):
        """Acts and learns: the item goes back to where it came from."""

        def update(self, batch: Batch) -> Weights:
            return Weights(batch.info.version_max + 1, {})

    both = fake_group("rollout", [Both("rollout-0")])
    stream = (
        from_actors(both, StampingWorker.rollout, first=(StampingWorker.load, lambda _: Weights(0, {})))
        .gather_sync()
        .tap(lambda batches: acted.append(batches[0].info.version_max))
        .map(join)
        .ask(both, Both.update, route=Route.SOURCE)
        .tell(both, StampingWorker.load, route=Route.ALL)
    )
    acted: list[int] = []

    with run(stream) as flow:
        for _ in range(4):
            next(flow)

    assert [0, 1, 2, 3] == acted
    assert worker is workers[0]
    assert 0 == spied(learner).updates


def test_a_barrier_holds_beside_a_sibling_that_never_waits():
    workers, learner = stamping_workers(3), counting_learner()
    stream = concurrently(synchronous(workers, learner).map(lambda _: "learned"), from_items(range(1000)))

    with run(stream) as flow:
        while spied(learner).updates < 5:
            next(flow)

    assert [[0], [1], [2], [3], [4]] == [versions_in(batch) for batch in spied(learner).seen[:5]]


def test_two_barriers_side_by_side_each_see_their_own_weights():
    pairs = [(fake_group(f"rollout{n}", [StampingWorker(f"{n}-0"), StampingWorker(f"{n}-1")]), n) for n in range(2)]
    learners = [fake_actor(f"learner{n}", CountingLearner()) for n in range(2)]

    with run(concurrently(*(synchronous(workers, learners[n]) for workers, n in pairs))) as flow:
        for _ in range(8):
            next(flow)

    for learner in learners:
        assert [[0], [1], [2], [3]] == [versions_in(batch) for batch in spied(learner).seen[:4]]


def test_a_barrier_under_round_robin_waits_for_its_own_turn():
    workers, learner = stamping_workers(2), counting_learner()
    stream = round_robin(synchronous(workers, learner).map(lambda _: "learned"), from_items("abcdef"), weights=(1, 2))

    with run(stream) as flow:
        items = [next(flow) for _ in range(3)]
        flow.ask(workers[0], StampingWorker.state_dict)

        assert ["learned", "a", "b"] == items
        assert [1, 1] == [spied(worker).rollouts for worker in workers]
        for _ in range(4):
            next(flow)

    assert [[0], [1], [2]] == [versions_in(batch) for batch in spied(learner).seen]


@pytest.mark.parametrize(
    "between",
    [
        lambda rounds: rounds.filter(lambda batches: True),
        lambda rounds: rounds.tap(len),
        lambda rounds: rounds.flat_map(lambda batches: [batches]),
        lambda rounds: rounds.through(lambda stream: stream),
        lambda rounds: concurrently(rounds),
        lambda rounds: round_robin(rounds),
    ],
)
def test_a_barrier_holds_through_stages_between_it_and_the_learner(between: Any):
    workers, learner = stamping_workers(2), counting_learner()
    stream = (
        between(rollouts(workers, learner).gather_sync())
        .map(join)
        .ask(learner, CountingLearner.update)
        .tell(workers, StampingWorker.load, message=newest_weights(learner), route=Route.ALL)
    )

    with run(stream) as flow:
        for _ in range(4):
            next(flow)

    assert [[0], [1], [2], [3]] == [versions_in(batch) for batch in spied(learner).seen]


def test_a_filter_behind_the_barrier_drops_rounds_and_not_freshness():
    workers, learner = stamping_workers(2), counting_learner()
    numbers = iter(range(100))
    stream = (
        rollouts(workers, learner)
        .gather_sync()
        .filter(lambda _: next(numbers) % 3 == 0)
        .map(join)
        .ask(learner, CountingLearner.update)
        .tell(workers, StampingWorker.load, message=newest_weights(learner), route=Route.ALL)
    )

    with run(stream) as flow:
        for _ in range(4):
            next(flow)

    assert [[0], [1], [2], [3]] == [versions_in(batch) for batch in spied(learner).seen]


# lag of gather_async


@pytest.mark.parametrize("in_flight", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 3])
def test_the_own_lag_of_gather_async_is_in_flight_minus_one(count: int, in_flight: int):
    workers, learner = stamping_workers(count), counting_learner()

    with run(asynchronous(workers, learner, in_flight=in_flight)) as flow:
        for _ in range(30):
            next(flow)

    lags = own_lags(spied(learner))
    assert in_flight - 1 == max(lags)
    assert {in_flight - 1} == set(lags[count * in_flight :])


@pytest.mark.parametrize("in_flight", [1, 2])
def test_the_version_lag_of_n_shards_is_at_most_n_times_in_flight_minus_one(in_flight: int):
    count = 4
    workers, learner = stamping_workers(count), counting_learner()

    with run(asynchronous(workers, learner, in_flight=in_flight)) as flow:
        for _ in range(40):
            next(flow)

    lags = [version - batch.info.version_max for version, batch in enumerate(spied(learner).seen)]
    assert count * in_flight - 1 == max(lags)


def test_every_worker_that_contributed_gets_the_new_weights():
    class Threes:
        """Joins three batches."""

        def __init__(self) -> None:
            self.parts: list[Batch] = []

        def __call__(self, batch: Batch) -> list[Batch]:
            self.parts.append(batch)
            if len(self.parts) < 3:
                return []
            parts, self.parts = self.parts, []
            return [join(parts)]

    workers, learner = stamping_workers(3), counting_learner()
    stream = (
        rollouts(workers, learner)
        .gather_async()
        .flat_map(Threes())
        .ask(learner, CountingLearner.update)
        .tell(workers, StampingWorker.load, message=newest_weights(learner), route=Route.SOURCE)
    )

    with run(stream) as flow:
        for _ in range(4):
            next(flow)

    assert [[0, 1, 2, 3]] * 3 == [spied(worker).loaded[:4] for worker in workers]


# published weights


def test_a_learner_that_has_not_published_is_asked_once_for_all_who_wait():
    workers, learner = stamping_workers(4), counting_learner()

    with run(synchronous(workers, learner)) as flow:
        for _ in range(3):
            next(flow)

    assert 1 == spied(learner).asked_for_weights
    assert [[0, 1, 2]] * 4 == [spied(worker).loaded[:3] for worker in workers]


def test_a_learner_is_never_asked_once_it_has_published():
    learner, log = counting_learner(), fake_actor("log", StampingWorker("log"))
    stream = from_items([Batch({})] * 3).ask(learner, CountingLearner.update)

    list(run(stream.tell(log, StampingWorker.load, message=newest_weights(learner))))

    assert 0 == spied(learner).asked_for_weights
    assert [1, 2, 3] == spied(log).loaded


def test_between_two_publications_the_newest_published_weights_are_sent():
    learner, log = counting_learner(publish_every=3), fake_actor("log", StampingWorker("log"))
    stream = from_items([Batch({})] * 7).ask(learner, CountingLearner.update)

    list(run(stream.tell(log, StampingWorker.load, message=newest_weights(learner))))

    assert 1 == spied(learner).asked_for_weights
    assert [1, 1, 3, 3, 3, 6, 6] == spied(log).loaded  # asked once, behind its first update


def test_published_weights_are_put_once_and_shared_by_all():
    workers, learner = stamping_workers(3), counting_learner()
    loaded: list[Weights] = []

    class Keeping(StampingWorker):
        def load(self, weights: Weights) -> None:
            super().load(weights)
            loaded.append(weights)

    workers = fake_group("rollout", [Keeping(f"rollout-{index}") for index in range(3)])

    with run(synchronous(workers, learner)) as flow:
        next(flow), next(flow)

    ones = [weights for weights in loaded if weights.version == 1]
    assert 3 == len(ones)
    assert all(weights is ones[0] for weights in ones)


def test_a_learner_outside_the_flow_is_started_when_its_weights_are_wanted():
    workers, learner = stamping_workers(1), counting_learner()

    with run(rollouts(workers, learner).gather_sync()) as flow:
        (batch,) = next(flow)

    assert [0] == versions_in(batch)
    assert spied(learner).is_closed


def test_a_first_message_that_remembers_something_is_each_runs_own():
    class Counting:
        def __init__(self) -> None:
            self.count = 0

        def __call__(self, _: object) -> Weights:
            self.count += 1
            return Weights(self.count, {})

        def state_dict(self) -> dict[str, int]:
            return {"count": self.count}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.count = state["count"]

    stream = from_actors(stamping_workers(2), StampingWorker.rollout, first=(StampingWorker.load, Counting()))

    seen = [[versions_in(batch) for batch in next(run(stream.gather_sync()))] for _ in range(2)]

    assert [[[1], [2]], [[1], [2]]] == seen
