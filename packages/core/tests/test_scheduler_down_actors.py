"""Messages to actors that are down, and flows that are cut while one is."""

from __future__ import annotations

from typing import Any

import pytest

from rheos import ActorGroup, Route, Stream, concurrently, from_actors, from_items, run
from rheos.errors import ActorDied
from rheos.executors.protocol import Executor
from rheos.scheduler.flow import Flow
from rheos.scheduler.recovery import FailurePolicy
from rheos.testing.executors import ManualExecutor
from rheos.testing.failing import FragileTeam, FragileWorker, item_now, methods_waiting, state_by_hand
from rheos.testing.fakes import fake_actor

AT_ONCE = FailurePolicy(max_restarts=3, backoff_s=0.0)


def take(flow: Flow[Any], count: int) -> list[Any]:
    with flow:
        return [next(flow) for _ in range(count)]


# messages to actors that are down


def through(stage: str, team: FragileTeam, count: int, route: Route) -> Stream[Any]:
    """Send items to workers that are sources, too; the items come from elsewhere."""
    kept = team.give().gather_async().map(lambda item: item[2])
    return getattr(kept, stage)(team.workers, FragileWorker.take, route=route, in_flight=count)


def test_an_ask_raises_although_restarts_are_allowed(executor: Executor):
    team = FragileTeam(2, poison=2)

    with (
        pytest.raises(ValueError, match="cannot take 2") as caught,
        run(through("ask", team, 1, Route.ANY), executor, failures=AT_ONCE) as flow,
    ):
        list(flow)

    assert [True] == [note.startswith("in stage 4: ask(FragileWorker.take)") for note in caught.value.__notes__]


def test_an_actor_that_is_no_source_ends_the_flow_although_restarts_are_allowed(executor: Executor):
    team = FragileTeam(1, poison=3)
    stream = from_items(range(9)).tell(team.workers, FragileWorker.take)

    with pytest.raises(ValueError, match="cannot take 3"), run(stream, executor, failures=AT_ONCE) as flow:
        list(flow)


def test_a_tell_that_failed_is_counted_and_not_sent_again(executor: Executor, warned: list[str]):
    team = FragileTeam(1, poison=3)
    numbers = iter(range(100))
    stream = team.give().gather_sync().map(lambda _: next(numbers)).tell(team.workers, FragileWorker.take)
    flow = run(stream, executor, failures=AT_ONCE)

    taken = take(flow, 8)

    assert list(range(8)) == taken, "the item itself goes on"
    assert {1} == set(team.told.values())
    assert [] == [number for number in (0, 1, 2, 4, 5, 6) if number not in team.told]
    assert 1 == lost_in(flow)
    assert 1 == len(warned)


def lost_in(flow: Flow[Any]) -> int:
    return sum(getattr(stage, "lost", 0) for stage in flow._stages)


def with_one_down(stage: Any, restart_clock: Any) -> tuple[Flow[Any], ManualExecutor]:
    """Return a flow of three workers of which the second has just failed at its first item; time stands still."""
    team, manual = FragileTeam(3, {(1, 0): 1}), ManualExecutor()
    flow = run(stage(team.give().gather_async(), team.workers), manual, failures=FailurePolicy(3, 10.0))
    item_now(flow)
    manual.actors["worker-1"].finish()
    assert None is item_now(flow)
    return flow, manual


def test_route_any_passes_over_an_actor_that_is_down(restart_clock: Any, warned: Any):
    flow, manual = with_one_down(lambda items, workers: items.tell(workers, FragileWorker.take), restart_clock)

    manual.actors["worker-0"].finish()
    assert (0, 0, 1) == item_now(flow)
    manual.actors["worker-2"].finish()
    assert (2, 0, 1) == item_now(flow)

    assert [1, 0, 1] == [methods_waiting(manual, f"worker-{index}").count("take") for index in range(3)]
    assert 0 == lost_in(flow)


def test_route_any_of_an_ask_passes_over_an_actor_that_is_down(restart_clock: Any, warned: Any):
    flow, manual = with_one_down(
        lambda items, workers: items.ask(workers, FragileWorker.take, in_flight=2), restart_clock
    )

    manual.actors["worker-0"].finish()
    manual.actors["worker-2"].finish()
    item_now(flow)

    assert [1, 0, 1] == [methods_waiting(manual, f"worker-{index}").count("take") for index in range(3)]


def test_route_all_skips_an_actor_that_is_down_and_counts_what_it_loses(restart_clock: Any, warned: Any):
    flow, manual = with_one_down(
        lambda items, workers: items.tell(workers, FragileWorker.take, route=Route.ALL), restart_clock
    )

    manual.actors["worker-0"].finish()
    assert (0, 0, 1) == item_now(flow)

    assert [1, 0, 1] == [methods_waiting(manual, f"worker-{index}").count("take") for index in range(3)]
    assert 1 == lost_in(flow)


def test_route_source_skips_an_actor_that_is_down_and_counts_what_it_loses(restart_clock: Any, warned: Any):
    team, manual = FragileTeam(2, {(1, 0): 2}), ManualExecutor()
    stream = team.give().gather_async(in_flight=2).tell(team.workers, FragileWorker.take, route=Route.SOURCE)
    flow = run(stream, manual, failures=FailurePolicy(3, 10.0))
    item_now(flow)

    manual.actors["worker-1"].finish(2)  # one item, then the failure
    assert (1, 0, 1) == item_now(flow)

    assert [] == methods_waiting(manual, "worker-1")
    assert 1 == lost_in(flow)


def test_an_actor_that_is_up_again_is_told_again(restart_clock: Any, warned: Any):
    flow, manual = with_one_down(
        lambda items, workers: items.tell(workers, FragileWorker.take, route=Route.ALL), restart_clock
    )
    restart_clock.now = 11.0
    item_now(flow), item_now(flow)
    manual.actors["worker-1"].finish(2)  # its restart and a request

    assert (1, 1, 1) == item_now(flow)
    assert ["take"] == methods_waiting(manual, "worker-1")


def test_an_ask_of_an_actor_that_is_given_up_raises_and_names_it(warned: Any):
    team, manual = FragileTeam(2, {(1, 0): 1, (1, 1): 2}), ManualExecutor()
    stream = team.give().gather_async(in_flight=2).ask(team.workers, FragileWorker.take, route=Route.SOURCE)
    flow = run(stream, manual, failures=FailurePolicy(1, 0.0, min_healthy=1))
    item_now(flow)
    manual.actors["worker-1"].finish(2)
    item_now(flow), item_now(flow)

    manual.actors["worker-1"].finish(3)  # its restart, an item, and the failure after which it is given up

    with pytest.raises(ActorDied, match="worker-1 is given up"):
        item_now(flow)


# cut while an actor is down


def test_a_flow_that_is_cut_while_an_actor_is_down_goes_on_in_the_same_round(restart_clock: Any, warned: Any):
    team, manual, again = FragileTeam(2, {(1, 0): 1}), ManualExecutor(), FragileTeam(2)
    flow = run(team.give().map(Numbering()).gather_sync(), manual, failures=FailurePolicy(3, 10.0))
    item_now(flow)
    manual.actors["worker-0"].finish(2)
    manual.actors["worker-1"].finish(2)
    item_now(flow)

    state = state_by_hand(flow, manual)
    restored = run(again.give().map(Numbering()).gather_sync(), failures=AT_ONCE)
    restored.load_state_dict(state)

    assert ((0, 0, 1, 1), (1, 0, 1, 1)) == next(restored)
    assert 0 == again.newest[0].given, "what was there is not asked for again"
    assert ((0, 0, 1, 2), (1, 0, 2, 2)) == next(restored)


class Other:
    """An actor that is no source."""

    def echo(self, item: Any) -> Any:
        return item


class Numbering:
    """Numbers what passes."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, item: Any) -> Any:
        self.count += 1
        return (*item, self.count)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


@pytest.mark.parametrize("gather", ["gather_sync", "gather_async"])
@pytest.mark.parametrize("passes", range(6))
def test_a_flow_can_be_cut_at_any_pass_of_a_restart(gather: str, passes: int, restart_clock: Any, warned: Any):
    team, again, manual = FragileTeam(2, {(1, 0): 1}), FragileTeam(2), ManualExecutor()
    flow = run(getattr(team.give().map(Numbering()), gather)(), manual, failures=FailurePolicy(3, 10.0))
    item_now(flow)
    manual.actors["worker-1"].finish(2)
    for number in range(passes):
        restart_clock.now += 4.0
        item_now(flow)
        if number == 4:
            manual.actors["worker-1"].finish()  # the restart, and nothing that follows

    state = state_by_hand(flow, manual)
    restored = run(getattr(again.give().map(Numbering()), gather)(), failures=AT_ONCE)
    restored.load_state_dict(state)

    assert 10 == len(take(restored, 10))
    restart_clock.now += 100.0
    assert None is item_now(flow), "the one that was cut goes on, too"
    assert methods_waiting(manual, "worker-1")[-1:] in (["give"], [])


def test_a_flow_is_cut_behind_a_restart_before_the_new_actor_got_its_functions(restart_clock: Any, warned: Any):
    team, again, manual = FragileTeam(2, {(1, 0): 1}), FragileTeam(2), ManualExecutor()

    def stream(team: FragileTeam) -> Stream[Any]:
        return team.give().map(Numbering()).gather_async().ask(fake_actor("other", Other()), Other.echo)

    flow = run(stream(team), manual, failures=FailurePolicy(3, 10.0))
    item_now(flow)
    manual.actors["worker-1"].finish(2)
    manual.actors["worker-0"].finish(2)
    item_now(flow)  # the window of the ask is full, so the gather is not asked again
    restart_clock.now = 11.0
    item_now(flow)
    assert ["restart", "install"] == methods_waiting(manual, "worker-1")

    state = state_by_hand(flow, manual)
    restored = run(stream(again), failures=AT_ONCE)
    restored.load_state_dict(state)

    assert 10 == len(take(restored, 10))


def test_a_failure_that_is_found_while_the_flow_is_cut_is_recovered_from_afterwards(executor: Executor, warned: Any):
    team = FragileTeam(3, {(1, 0): 2})
    with run(team.give().map(Numbering()).gather_async(in_flight=2), executor, failures=AT_ONCE) as flow:
        taken = [next(flow)]

        flow.state_dict()
        taken += [next(flow) for _ in range(40)]

    for index in range(3):
        counts = [(incarnation, given) for who, incarnation, given, _ in taken if who == index]
        assert counts == sorted(set(counts))
    assert (1, 0, 1, 1) in taken


def test_an_actor_that_was_given_up_is_tried_again_in_a_restored_flow(warned: Any):
    team, again = FragileTeam(2, {(1, incarnation): 1 for incarnation in range(9)}), FragileTeam(2)
    policy = FailurePolicy(1, 0.0, min_healthy=1)
    flow = run(team.give().map(Numbering()).gather_sync(), failures=policy)
    assert [[0], [0]] == [[index for index, *_ in next(flow)] for _ in range(2)]

    restored = run(again.give().map(Numbering()).gather_sync(), failures=policy)
    restored.load_state_dict(flow.state_dict())

    assert [[0, 1], [0, 1]] == [[index for index, *_ in next(restored)] for _ in range(2)]


def test_nobody_elses_message_reaches_a_new_actor_before_its_first_one(executor: Executor, warned: Any):
    team = FragileTeam(2, {(0, 0): 3})
    told_before_first: list[Any] = []

    class Watched(FragileWorker):
        def take(self, item: Any) -> Any:
            if not self.loaded:
                told_before_first.append((self.index, self.incarnation, item))
            return item

    def make(index: int) -> Watched:
        incarnation = team.made[index]
        team.made[index] += 1
        return Watched(index, incarnation, team)

    workers = ActorGroup("worker", 2, make)
    given = from_actors(workers, Watched.give, first=(Watched.load, lambda _: "weights")).gather_async()
    told = from_actors(ActorGroup("clock", 1, lambda _: Ticking()), Ticking.tick).gather_async()
    stream = concurrently(given, told.tell(workers, Watched.take, route=Route.ALL, in_flight=1).filter(lambda _: False))

    with run(stream, executor, failures=AT_ONCE) as flow:
        while team.made[0] < 2:
            next(flow)
        for _ in range(30):
            next(flow)

    assert [] == [told for told in told_before_first if told[1] > 0]


class Ticking:
    """Counts."""

    def __init__(self) -> None:
        self.count = 0

    def tick(self) -> Any:
        self.count += 1
        return self.count


@pytest.mark.parametrize("restarts", [0, 3])
def test_a_source_that_fails_as_it_is_greeted_anew_ends_the_flow_only_where_none_is_made_anew(
    restarts: int, warned: list[str]
):
    team = FragileTeam(2)
    source = from_actors(team.workers, FragileWorker.give, first=(FragileWorker.load, lambda _: "weights"))
    with run(source.gather_async(), failures=FailurePolicy(restarts, 0.0)) as flow:
        assert {0, 1} == {next(flow)[0] for _ in range(4)}  # so both were greeted
        team.deaf = [(1, 0)]
        state = flow.state_dict()

        if restarts:
            flow.begin_anew(state)
            assert {0, 1} == {next(flow)[0] for _ in range(10)}
        else:
            with pytest.raises(OSError, match="worker 1 is deaf"):
                flow.begin_anew(state)
