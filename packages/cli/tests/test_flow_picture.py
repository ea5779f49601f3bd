"""The picture of a flow shows every stage once, from the sources down, and nothing in it covers anything else."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from rheos import Route, concurrently, from_actors, from_items, round_robin
from rheos.streams.nodes import stages
from rheos.testing.fakes import (
    CountingLearner,
    ReplayShard,
    StampingWorker,
    counting_learner,
    replay_shards,
    stamping_workers,
)
from rheos_cli.flow_boxes import Direction
from rheos_cli.flow_columns import columns_of, crossings_of
from rheos_cli.flow_layout import layout
from rheos_cli.flow_picture import draw_flow


def ppo(num_workers=4):
    workers, learner = stamping_workers(num_workers), counting_learner()
    return (
        from_actors(workers, StampingWorker.rollout)
        .gather_sync()
        .map(list)
        .ask(learner, CountingLearner.update)
        .tell(workers, StampingWorker.load, message=str, route=Route.ALL)
    )


def apex():
    workers, shards, learner = stamping_workers(4), replay_shards(2), counting_learner()
    act = (
        from_actors(workers, StampingWorker.rollout)
        .gather_async()
        .tell(shards, ReplayShard.add)
        .tell(workers, StampingWorker.load, message=str, route=Route.SOURCE)
    )
    learn = (
        from_actors(shards, ReplayShard.sample)
        .gather_async()
        .ask(learner, CountingLearner.update)
        .tell(shards, ReplayShard.update_priorities, route=Route.SOURCE)
    )
    return concurrently(act, learn.map(str), from_items([1]))


def two_trainers():
    shards = replay_shards(2)
    first, second = from_actors(stamping_workers(4), StampingWorker.rollout).gather_sync().tee(2)
    store = second.map(list).tell(shards, ReplayShard.add).drain()
    learn = from_actors(shards, ReplayShard.sample).gather_async().map(str)
    return concurrently(first.map(str), round_robin(store, learn, weights=(1, 4)))


def groups_in_each_others_way():
    workers, shards, learner = stamping_workers(3), replay_shards(2), counting_learner()
    flow = from_actors(workers, StampingWorker.rollout).gather_sync()
    for _ in range(2):
        flow = (
            flow.tell(shards, ReplayShard.add)
            .tell(learner, CountingLearner.update)
            .tell(workers, StampingWorker.load, message=str)
        )
    return flow


def a_stream_read_thrice():
    source = from_items([1])
    return concurrently(source.map(str).map(str), source, source.map(int))


PROGRAMS = [ppo, apex, two_trainers, groups_in_each_others_way, a_stream_read_thrice]


@st.composite
def flows(draw):
    """Make any flow: stages are put upon streams, merged and split at random, and all is merged in the end."""
    workers, learner = stamping_workers(2), counting_learner()
    streams = [
        draw(st.sampled_from([from_items([1]), from_actors(workers, StampingWorker.rollout).gather_async()]))
        for _ in range(draw(st.integers(1, 4)))
    ]
    for _ in range(draw(st.integers(0, 12))):
        stream = streams.pop(draw(st.integers(0, len(streams) - 1)))
        match draw(st.sampled_from(["map", "ask", "tell", "tee", "merge"])):
            case "map":
                streams.append(stream.map(str))
            case "ask":
                streams.append(stream.ask(learner, CountingLearner.update))
            case "tell":
                streams.append(stream.tell(workers, StampingWorker.load))
            case "tee":
                streams.extend(stream.tee(draw(st.integers(2, 4))))
            case "merge":
                streams.append(concurrently(stream, *(streams.pop() for _ in streams[:2])))
    return concurrently(*streams)


def assert_is_sound(root, placed):
    boxes = [*placed.stages.values(), *(actor.box for actor in placed.actors)]
    assert list(stages(root)) == list(placed.stages)
    for node, box in placed.stages.items():
        assert all(placed.stages[source].y > box.y for source in node.inputs), "inputs are above"
    for box in boxes:
        assert 0 <= box.left < box.right <= placed.width
        assert 0 <= box.bottom < box.top <= placed.height
    for one, other in combinations(boxes, 2):
        is_beside = one.right < other.left or other.right < one.left
        assert is_beside or one.top < other.bottom or other.top < one.bottom, f"{one} covers {other}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_stage_has_a_box_below_its_inputs_and_no_two_boxes_overlap(program):
    root = program().node

    assert_is_sound(root, layout(root))
    assert_is_sound(root, layout(root, dict.fromkeys(stages(root), "1,234 items, busy 12 % of the time, " * 9)))


@given(flows())
@settings(max_examples=60, deadline=None)
def test_this_is_so_of_any_flow(stream):
    assert_is_sound(stream.node, layout(stream.node))


@given(flows())
@settings(max_examples=60, deadline=None)
def test_data_goes_from_every_input_to_its_reader_around_all_other_boxes(stream):
    placed = layout(stream.node)

    data = [line.points for line in placed.lines if line.direction is Direction.DATA]
    wanted = {(source, node) for node in placed.stages for source in node.inputs}
    ends = {
        ((upper.x, upper.bottom), (lower.x, lower.top))
        for upper, lower in ((placed.stages[source], placed.stages[node]) for source, node in wanted)
    }
    assert ends == {(points[0], points[-1]) for points in data}
    for points in data:
        for (x1, y1), (x2, y2) in pairwise(points):
            left, right, low, high = min(x1, x2), max(x1, x2), min(y1, y2), max(y1, y2)
            for box in placed.stages.values():
                assert not (left < box.right and box.left < right and low < box.top and box.bottom < high)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_no_lines_cross_where_an_order_withoutcrossings_of_exists(program):
    assert 0 == crossings_of(columns_of(stages(program().node)))


def test_branches_that_are_merged_crosswise_change_places():
    first, second, third = from_items([1]).tee(3)
    left, right = from_items([2]), from_items([3])
    root = concurrently(
        round_robin(first.map(str), right), round_robin(left, third.map(str)), second.map(str).map(str).map(str)
    ).node

    assert 0 == crossings_of(columns_of(stages(root)))


def test_actors_stand_once_beside_all_stages_of_a_column_that_talk_to_them():
    root = ppo(num_workers=3).node

    placed = layout(root)

    source, _, in_the_middle, ask, _ = placed.stages.values()
    workers, learner = placed.actors
    assert [("rollout-0", "rollout-1", "rollout-2"), ("learner",)] == [workers.names, learner.names]
    assert workers.box.right < source.left < source.right < learner.box.left
    assert (in_the_middle.y, ask.y) == (workers.box.y, learner.box.y)
    assert [Direction.FROM_ACTOR, Direction.TO_ACTOR, Direction.BOTH] == [
        line.direction for line in placed.lines if line.names is not None
    ]


def test_a_long_label_is_broken_where_a_name_ends_and_cut_after_three_lines():
    def named(name):
        def function(_):
            return 1

        function.__qualname__ = name
        return function

    stream = from_items([1]).map(named("Estimator.estimate_advantages_of_fragments")).map(named("x" * 200))

    _, broken, cut = (box.text.label for box in layout(stream.node).stages.values())

    assert ("2  map(Estimator.", "estimate_advantages_of_fragments)") == broken
    assert (3, "…") == (len(cut), cut[-1][-1])
    assert all(len(line) <= 40 for line in cut)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_text_lies_within_its_box(program, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    root = program().node
    remarks = dict.fromkeys(stages(root), "WWWWWWWW 1,234 items, busy 12 % of the time $x$")

    draw_flow(root, tmp_path / "flow.png", remarks)

    placed = layout(root, remarks)
    boxes = [*placed.stages.values(), *(actor.box for actor in placed.actors)]
    (axes,) = drawn[0].axes
    found = [text.get_window_extent().transformed(axes.transData.inverted()) for text in axes.texts]
    assert sum(len(box.text.label) + len(box.text.remark) for box in boxes) == len(found)
    for text in found:
        assert any(
            box.left < text.x0 and text.x1 < box.right and box.bottom < text.y0 and text.y1 < box.top for box in boxes
        )


@pytest.mark.parametrize(("ending", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_ending_says_which_kind_of_picture(ending, begins, tmp_path):
    draw_flow(apex().node, tmp_path / f"flow{ending}")

    assert (tmp_path / f"flow{ending}").read_bytes().startswith(begins)


def test_the_same_flow_gives_the_same_picture(tmp_path):
    for name in ("a.svg", "b.svg"):
        draw_flow(ppo().node, tmp_path / name)

    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
