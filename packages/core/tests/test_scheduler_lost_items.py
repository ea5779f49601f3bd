"""Items whose columns are gone with the machine that held them: dropped and counted where a flow recovers."""

from __future__ import annotations

from typing import Any

import pytest

from rheos import ActorGroup, Route, from_actors, run
from rheos.errors import ItemLost
from rheos.executors.inline import InlineExecutor
from rheos.scheduler.recovery import FailurePolicy
from rheos.testing.executor_suite.base import failure_of

AT_ONCE = FailurePolicy(max_restarts=3, backoff_s=0.0)


class Source:
    """Counts."""

    def __init__(self, index: int) -> None:
        self.count = 0

    def give(self) -> int:
        self.count += 1
        return self.count


class Receiver:
    """Cannot be brought every third item, as an engine would tell."""

    made = 0

    def __init__(self, index: int) -> None:
        Receiver.made += 1

    def take(self, item: int) -> int:
        if item % 3 == 0:
            raise ItemLost(f"the columns of {item} are gone")
        return item


def sent(stage: str, **settings: Any) -> Any:
    source, receivers = ActorGroup("source", 1, Source), ActorGroup("receiver", 1, Receiver)
    return getattr(from_actors(source, Source.give).gather_sync().map(lambda round_: round_[0]), stage)(
        receivers, Receiver.take, **settings
    )


@pytest.mark.parametrize("settings", [{}, {"in_flight": 2}, {"in_flight": 2, "ordered": False}, {"route": Route.ANY}])
def test_an_ask_goes_on_without_them_and_counts_them(settings):
    with run(sent("ask", **settings), InlineExecutor(), failures=AT_ONCE) as flow:
        replies = [next(flow) for _ in range(6)]
        lost = flow.statistics().lost

    assert [1, 2, 4, 5, 7, 8] == replies
    assert lost == (
        2 if settings.get("in_flight", 1) == 1 else pytest.approx(2.5, abs=0.5)
    )  # one more may be under way


def test_a_tell_goes_on_with_them_counts_them_and_does_not_blame_the_receiver():
    Receiver.made = 0

    with run(sent("tell", in_flight=1), InlineExecutor(), failures=AT_ONCE) as flow:
        items = [next(flow) for _ in range(7)]
        statistics = flow.statistics()

    assert list(range(1, 8)) == items
    assert (2, 0, 1) == (statistics.lost, statistics.restarts, Receiver.made)


@pytest.mark.parametrize("stage", ["ask", "tell"])
def test_without_recovery_it_ends_the_flow(stage):
    with run(sent(stage), InlineExecutor()) as flow:
        error = failure_of(flow)

    assert (ItemLost, "the columns of 3 are gone") == (type(error), str(error))
    assert any(f"{stage}(Receiver.take)" in note and "item 3 from source-0" in note for note in error.__notes__)
