"""Errors say where they came about, keep their type, and show no frame of the scheduler."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rheos import Actor, Published, Stream, concurrently, from_actors, from_items, run
from rheos.errors import EnvironmentFailed, FlowMistake, FlowTimeout, UserExit, UserStopIteration
from rheos.testing.executors import ManualExecutor
from rheos.testing.fakes import (
    CountingLearner,
    StampingWorker,
    failing_workers,
    fake_actor,
    fake_group,
    spied,
    stamping_workers,
)

HERE = Path(__file__).name


class Box:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def keep(self, item: Any) -> Any:
        self.items.append(item)
        return item

    def give(self) -> list[Any]:
        return self.items

    def explode(self, item: Any) -> Any:
        raise KeyError(item)


def explode(item: Any) -> Any:
    raise ZeroDivisionError(f"at {item}")


def explode_at(bad: int) -> Callable[[int], Any]:
    return lambda item: explode(item) if item == bad else item


def failure_of(stream: Stream[Any]) -> BaseException:
    flow = run(stream)
    try:
        for _ in range(1000):
            next(flow)
    except BaseException as error:
        return error
    raise AssertionError("the flow went on")


def notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))


# notes


@pytest.mark.parametrize(
    ("build", "label"),
    [
        (lambda items: items.map(explode_at(3)), "map(explode_at.<locals>.<lambda>)"),
        (lambda items: items.filter(explode_at(3)), "filter(explode_at.<locals>.<lambda>)"),
        (lambda items: items.tap(explode_at(3)), "tap(explode_at.<locals>.<lambda>)"),
        (lambda items: items.flat_map(lambda x: [explode_at(3)(x)]), "flat_map(<lambda>)"),
        (lambda items: items.tell(fake_actor("box", Box()), Box.keep, message=explode_at(3)), "tell(Box.keep)"),
    ],
)
def test_an_error_in_a_stage_names_stage_line_and_item(build: Any, label: str):
    line = inspect.getsourcelines(test_an_error_in_a_stage_names_stage_line_and_item)[1]
    stream = build(from_items([0, 1, 2, 3, 4]))

    error = failure_of(stream)

    assert isinstance(error, ZeroDivisionError)
    (note,) = notes(error)
    assert re.fullmatch(rf"in stage 2: {stream.node.verb}\(.*\) \[{HERE}:(\d+)\], item 4", note)
    assert abs(line - int(note.partition(f"{HERE}:")[2].partition("]")[0])) < 15
    assert label.rsplit("<locals>.", 1)[-1] in note


def test_an_error_of_an_actor_names_the_stage_the_item_and_where_it_came_from():
    line = inspect.getsourcelines(test_an_error_of_an_actor_names_the_stage_the_item_and_where_it_came_from)[1]
    group = stamping_workers(3)
    stream = from_actors(group, StampingWorker.rollout).gather_async()
    stream = stream.ask(fake_actor("box", Box()), Box.explode)

    error = failure_of(stream.map(str))

    assert isinstance(error, KeyError)
    assert [f"in stage 3: ask(Box.explode) [{HERE}:{line + 4}], item 1 from rollout-0"] == notes(error)


def test_an_error_of_a_tell_names_the_item_that_it_was_sent_for():
    class Picky(Box):
        def keep(self, item: int) -> None:
            if item == 2:
                raise ValueError(item)

    error = failure_of(from_items(range(10)).tell(fake_actor("box", Picky()), Picky.keep))

    assert isinstance(error, ValueError)
    assert [True] == [note.endswith(", item 3") for note in notes(error)]


@pytest.mark.parametrize("gather", ["gather_sync", "gather_async"])
def test_an_error_of_a_worker_names_the_worker_and_the_item(gather: str):
    workers = failing_workers(3, failing=1, after=2, error=lambda: EnvironmentFailed("environment 3, step 512"))
    stream = getattr(from_actors(workers, StampingWorker.rollout), gather)()

    error = failure_of(stream)

    assert isinstance(error, EnvironmentFailed)
    (note,) = notes(error)
    assert re.fullmatch(rf"in stage 2: {gather}.* \[{HERE}:\d+\], item \d+ from rollout-1", note)


def test_an_error_in_a_function_at_the_actor_names_that_function():
    stream = from_actors(stamping_workers(2), StampingWorker.rollout).map(len).map(explode).gather_sync()

    error = failure_of(from_actors(stamping_workers(2), StampingWorker.rollout).map(explode).map(len).gather_sync())

    assert isinstance(error, ZeroDivisionError)
    assert [True] == [note.startswith(f"in stage 2: map at the actor(explode) [{HERE}:") for note in notes(error)]
    assert isinstance(failure_of(stream), TypeError)


def test_an_error_in_the_first_message_names_the_source():
    stream = from_actors(
        stamping_workers(2), StampingWorker.rollout, first=(StampingWorker.load, explode)
    ).gather_sync()

    error = failure_of(stream)

    assert [True] == [note.startswith("in stage 1: from_actors(StampingWorker.rollout x 2)") for note in notes(error)]


def test_an_error_of_an_actor_at_its_first_message_names_the_source_too():
    group = fake_group("box", [Box()])
    stream = from_actors(group, Box.give, first=(Box.explode, lambda _: "hello")).gather_sync()

    error = failure_of(stream)

    assert [True] == [note.startswith("in stage 1: from_actors(") and note.endswith("box-0") for note in notes(error)]


def test_an_error_of_the_items_themselves_names_their_source():
    class Broken:
        def __iter__(self) -> Iterator[int]:
            yield 1
            raise OSError("disk")

    error = failure_of(from_items(Broken()))

    assert isinstance(error, OSError)
    assert [True] == [note.startswith("in stage 1: from_items [") and note.endswith("item 2") for note in notes(error)]


def test_an_error_while_weights_are_asked_for_reaches_those_who_wait_for_them():
    class Broken(CountingLearner):
        def weights(self) -> Any:
            raise MemoryError("no weights")

    learner = fake_actor("learner", Broken())
    first = (StampingWorker.load, lambda _: Published(learner, Broken.weights))

    error = failure_of(from_actors(stamping_workers(2), StampingWorker.rollout, first=first).gather_sync())

    assert isinstance(error, MemoryError)
    assert [True] == [note.endswith("from rollout-0") for note in notes(error)]


def test_an_actor_that_cannot_be_made_is_named_and_those_before_it_are_closed():
    workers, broken = stamping_workers(2), Actor("broken", lambda: explode("birth"))
    stream = from_actors(workers, StampingWorker.rollout).gather_sync().ask(broken, Box.keep)

    with pytest.raises(ZeroDivisionError) as caught:
        run(stream)

    assert ["while broken was started"] == notes(caught.value)
    assert [True, True] == [spied(worker).is_closed for worker in workers]
    assert_no_frame_of_ours(caught.value)


def test_a_method_that_the_actor_does_not_have_is_named():
    error = failure_of(from_items([1]).ask(fake_actor("box", Box()), CountingLearner.update))

    assert isinstance(error, AttributeError)
    assert "update" in str(error)


# the same again


def test_after_an_error_the_flow_raises_the_same_error_and_never_an_end():
    flow = run(from_items([1, 2]).map(explode))

    caught = []
    for _ in range(3):
        with pytest.raises(ZeroDivisionError) as info:
            next(flow)
        caught.append(info.value)

    assert caught[0] is caught[1] is caught[2]
    assert 1 == len(notes(caught[0]))


def test_an_error_is_raised_again_after_the_flow_was_closed():
    flow = run(from_items([1, 2]).map(explode))
    with pytest.raises(ZeroDivisionError):
        next(flow)

    flow.close()

    with pytest.raises(ZeroDivisionError):
        next(flow)


def test_items_before_an_error_are_given():
    flow = run(from_items(range(5)).map(explode_at(3)))

    assert [0, 1, 2] == [next(flow) for _ in range(3)]
    with pytest.raises(ZeroDivisionError):
        next(flow)


def test_a_failure_that_comes_up_while_a_flow_is_cut_is_raised_again_by_the_flow():
    class Late:
        def up(self, item: int) -> int:
            return 1 // (item - 2)

    flow = run(from_items(range(9)).ask(fake_group("late", [Late(), Late()]), Late.up, in_flight=2), ManualExecutor())
    with pytest.raises(FlowTimeout):
        flow.next(timeout_s=0)
    manual: Any = flow._engine._executor
    for actor in manual.actors.values():
        actor.finish(len(actor.waiting))

    with pytest.raises(ZeroDivisionError) as first:
        flow.state_dict()
    with pytest.raises(ZeroDivisionError) as second:
        next(flow)

    assert first.value is second.value


# what looks like an end


@pytest.mark.parametrize("end", [StopIteration, StopAsyncIteration, GeneratorExit])
@pytest.mark.parametrize(
    "build",
    [
        lambda fail, box: from_items([1]).map(fail),
        lambda fail, box: from_items([1]).filter(fail),
        lambda fail, box: from_items([1]).tap(fail),
        lambda fail, box: from_items([1]).flat_map(fail),
        lambda fail, box: from_items([1]).tell(box, Box.keep, message=fail),
        lambda fail, box: from_items([1]).ask(box, Box.explode),
        lambda fail, box: from_items([1]).tell(box, Box.explode),
        lambda fail, box: from_actors(stamping_workers(1), StampingWorker.rollout).map(fail).gather_sync(),
        lambda fail, box: from_actors(
            stamping_workers(1), StampingWorker.rollout, first=(StampingWorker.load, fail)
        ).gather_async(),
    ],
)
def test_what_would_look_like_an_end_becomes_an_error_of_its_own(end: type[BaseException], build: Any):
    def fail(item: Any) -> Any:
        raise end("mine")

    class Ending(Box):
        def explode(self, item: Any) -> Any:
            raise end("mine")

    error = failure_of(build(fail, fake_actor("box", Ending())))

    assert type(error) is UserStopIteration
    assert end.__name__ in str(error)
    assert isinstance(error.__cause__, end)
    assert 1 == len(notes(error))
    assert_no_frame_of_ours(error)


def test_an_actor_that_raises_an_end_while_it_is_made_is_no_end():
    def factory() -> Box:
        raise StopIteration

    with pytest.raises(UserStopIteration):
        list(run(from_items([1]).ask(Actor("box", factory), Box.keep)))


@pytest.mark.parametrize("verb", ["map", "filter", "tap", "flat_map", "message"])
def test_an_exit_in_a_function_of_the_driver_is_an_error_that_says_where(verb: str):
    def leave(item: Any) -> Any:
        raise SystemExit("bye")

    items = from_items([1])
    stream: Stream[Any] = (
        items.tell(fake_actor("box", Box()), Box.keep, message=leave)
        if verb == "message"
        else getattr(items, verb)(leave)
    )

    error = failure_of(stream)

    assert isinstance(error, UserExit)
    assert "SystemExit(bye)" in str(error)
    assert [True] == [note.startswith("in stage 2: ") for note in notes(error)]


# frames


def assert_no_frame_of_ours(error: BaseException) -> None:
    text = "".join(traceback.format_exception(error))
    ours = set(re.findall(r'File ".*?/src/(rheos/\w+/\w+\.py)", line \d+, in (\w+)', text))
    assert ours <= {("rheos/scheduler/flow.py", "next"), ("rheos/testing/fakes.py", "rollout")}


@pytest.mark.parametrize(
    "build",
    [
        lambda: from_items([1]).map(explode).filter(bool).tap(print),
        lambda: from_items([1]).ask(fake_actor("box", Box()), Box.explode).map(str),
        lambda: from_items([1]).tell(fake_actor("box", Box()), Box.explode).map(str),
        lambda: concurrently(*from_items([1]).map(explode).tee(2)),
        lambda: from_actors(failing_workers(2), StampingWorker.rollout).gather_sync().map(str),
        lambda: from_actors(stamping_workers(2), StampingWorker.rollout).map(explode).gather_async(),
        lambda: from_items([1]).flat_map(lambda item: (explode(item) for _ in range(3))),
    ],
)
def test_no_frame_of_the_scheduler_is_shown(build: Callable[[], Stream[Any]]):
    error = failure_of(build())

    assert_no_frame_of_ours(error)


def test_the_frames_are_the_same_each_time_that_the_error_is_raised():
    flow = run(from_items([1]).map(explode))
    shown = []

    for _ in range(3):
        with pytest.raises(ZeroDivisionError) as caught:
            next(flow)
        shown.append([frame.name for frame in traceback.extract_tb(caught.value.__traceback__)])

    assert "explode" == shown[0][-1]
    assert [name for name in shown[0] if name != "next"] == [name for name in shown[2] if name != "next"]
    assert len(shown[2]) <= len(shown[0]) + 1


def test_an_error_of_a_message_beside_the_flow_is_raised_where_it_was_asked_and_the_flow_goes_on():
    box = fake_actor("box", Box())
    flow = run(from_items([1, 2]).ask(box, Box.keep))

    with pytest.raises(KeyError) as caught:
        flow.ask(box, Box.explode, "beside")

    assert ["in a message beside the flow: box.explode"] == notes(caught.value)
    assert_no_frame_of_ours(caught.value)
    assert [1, 2] == list(flow)


# what is refused


def test_what_is_no_executor_is_refused():
    with pytest.raises(FlowMistake, match=r"^run\(executor=...\): got 'threads', expected an Executor"):
        run(from_items([1]), "threads")  # type: ignore[arg-type]


def test_what_is_no_placement_is_refused():
    with pytest.raises(FlowMistake, match=r"^Actor\('box'\): placement='thread', expected a Placement\."):
        Actor("box", Box, "thread")  # type: ignore[arg-type]
