"""A wait that is too long is warned of, once, by stage, actor and method."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from rheos import ActorGroup, from_actors, run
from rheos.errors import FlowTimeout
from rheos.executors.threads import ThreadsExecutor
from rheos.scheduler.recovery import FailurePolicy
from rheos.testing.executors import ManualExecutor
from rheos.testing.failing import FragileTeam


def test_one_warning_for_one_wait_names_stage_actor_and_method(warned: list[str]):
    manual = ManualExecutor()
    flow = run(FragileTeam(2).give().gather_sync(), manual, warn_after_s=0.02)

    with pytest.raises(FlowTimeout):
        flow.next(timeout_s=0.3)

    (text,) = warned
    lines = text.splitlines()
    assert "Nothing has moved for 0.02 s." == lines[0]
    assert lines[1].startswith("  stage 2: gather_sync")
    assert lines[1].endswith("waits for worker-0.give, worker-1.give")


def test_a_warning_about_a_wait_names_an_actor_that_is_down(restart_clock: Any, warned: list[str]):
    team = FragileTeam(2, {(1, 0): 1})
    flow = run(team.give().gather_sync(), failures=FailurePolicy(3, 10.0), warn_after_s=0.01)

    with pytest.raises(FlowTimeout, match="down: worker-1"):
        flow.next(timeout_s=0.1)

    assert 2 == len(warned)
    assert "down: worker-1" in warned[1]


def test_nothing_is_warned_of_while_things_move_however_long_it_takes(warned: list[str]):
    manual = ManualExecutor()
    flow = run(FragileTeam(1).give().gather_sync(), manual, warn_after_s=0.2)
    stop = threading.Event()

    def finish_now_and_then() -> None:
        while not stop.wait(0.02):
            if manual.actors["worker-0"].waiting:
                manual.actors["worker-0"].finish()

    thread = threading.Thread(target=finish_now_and_then)
    thread.start()
    for _ in range(20):
        next(flow)
    stop.set()
    thread.join()

    assert [] == warned


def test_a_consumer_that_takes_its_time_is_no_wait_of_the_flow(warned: list[str]):
    flow = run(FragileTeam(1).give().gather_sync(), warn_after_s=0.01)

    for _ in range(3):
        next(flow)
        threading.Event().wait(0.03)

    assert [] == warned


class Born:
    """Takes its time to come to be."""

    may_be_born = threading.Event()

    def __init__(self, index: int) -> None:
        self.may_be_born.wait(10)

    def give(self) -> int:
        return 1


def test_an_actor_that_takes_long_to_start_is_named(warned: list[str]):
    Born.may_be_born.clear()
    birth = threading.Timer(0.2, Born.may_be_born.set)
    birth.start()

    with run(from_actors(ActorGroup("born", 1, Born), Born.give).gather_sync(), ThreadsExecutor(), warn_after_s=0.05):
        birth.join()

    assert ["born-0 has been starting for 0.05 s: its factory has not returned."] == warned


def test_the_time_that_actors_take_to_start_is_not_the_flows():
    Born.may_be_born.clear()
    birth = threading.Timer(0.3, Born.may_be_born.set)
    birth.start()

    with run(from_actors(ActorGroup("born", 1, Born), Born.give).gather_sync(), ThreadsExecutor()) as flow:
        wall_s = flow.statistics().wall_s

    assert wall_s < 0.2
    birth.join()
