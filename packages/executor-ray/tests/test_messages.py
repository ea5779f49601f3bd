"""What travels and what stays: replies without their large parts, messages with references as arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rheos import Batch, BatchInfo, Episode, LearnerReport
from rheos.executors.protocol import NOTHING, Call, Control, LocalShared
from rheos.reports import Weights
from rheos_ray.messages import Outcome, Part, Stored, left_behind, packed, received, reply_of, request_of, unpacked

INFO = BatchInfo(("rollout-0",), env_steps=2)


def batch(number: float = 1.0, axis: int = 0) -> Batch:
    return Batch({"rewards": np.full(2, number)}, INFO, axis)


def reference(name: str) -> Any:
    """Stand for a reference of the engine, which only carries it."""
    return name


def no_call(call: Call) -> None:
    return None


@pytest.mark.parametrize(
    ("reply", "count"),
    [
        (batch(), 1),
        ((batch(1.0), [batch(2.0)], 3), 2),
        ({"a": batch(1.0), "b": None}, 1),
        (LearnerReport(INFO, 1, 1, {}, LocalShared(Weights(1, {"bias": np.ones(3, np.float32)}))), 1),
        (LearnerReport(INFO, 1, 1), 0),
        (Batch({}, INFO), 0),
        ((1, "two", np.zeros(3), NOTHING, Control.RESTART, INFO), 0),
    ],
)
def test_large_parts_of_a_reply_stay_and_come_with_the_message_that_it_is_sent_in(reply, count):
    small, parts = left_behind(reply, 1)
    seen = reply_of(small, reference("parts"))
    message, arguments = packed(seen, no_call)

    arrived = unpacked(message, [parts for _ in arguments])

    assert count == len(parts)
    assert (["parts"] if count else []) == arguments
    assert plain(reply) == plain(arrived)


def plain(tree: Any) -> Any:
    """Return a tree in which equal parts compare equal."""
    if isinstance(tree, Batch):
        return plain(dict(tree.columns)), tree.info, tree.axis
    if isinstance(tree, LearnerReport):
        weights = tree.weights.get() if isinstance(tree.weights, LocalShared) else tree.weights
        return tree.info, tree.version, None if weights is None else plain(weights.arrays)
    if isinstance(tree, np.ndarray):
        return tree.tolist()
    if isinstance(tree, dict):
        return {key: plain(value) for key, value in tree.items()}
    return type(tree)(map(plain, tree)) if type(tree) in (list, tuple) else tree


def test_the_driver_sees_what_is_known_of_a_batch_without_its_columns():
    small, _ = left_behind((batch(axis=1), 7), 1)

    seen, number = reply_of(small, reference("parts"))

    assert (INFO, 1, True, 7) == (seen.info, seen.axis, seen.is_deferred, number)
    assert isinstance(seen.content, Part)


def test_a_reply_without_large_parts_is_the_same_object():
    reply = {"numbers": (1, 2), "array": np.zeros(2)}

    small, parts = left_behind(reply, 1)

    assert small is reply
    assert [] == parts
    assert reply_of(small, reference("parts")) is reply


def test_a_reference_that_a_message_has_twice_is_one_argument():
    stored = Stored(reference("weights"))

    message, arguments = packed([stored, {"again": stored}], no_call)

    assert ["weights"] == arguments
    assert [LocalShared("w"), {"again": LocalShared("w")}] == unpacked(message, ["w"])


def test_a_call_stands_for_its_reply_with_what_stayed_behind():
    small, parts = left_behind((batch(), 7), 1)
    call = Call("sender", "give", NOTHING, ())

    message, arguments = packed(call, lambda _: (reference("outcome"), reference("parts")))
    arrived = unpacked(message, [Outcome(small, None, None, 0.0).to_bytes(), parts])

    assert ["outcome", "parts"] == arguments
    assert [1.0, 1.0] == arrived[0]["rewards"].tolist()
    assert 7 == arrived[1]


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_a_call_that_failed_raises_where_it_was_to_be_the_message(is_elsewhere):
    call = Call("sender", "give", NOTHING, ())
    call.finish(None, KeyError("no such item"))
    outcome = Outcome(None, KeyError("no such item"), None, 0.0)

    message, arguments = packed(call, (lambda _: ("outcome", "parts")) if is_elsewhere else no_call)

    with pytest.raises(KeyError, match="no such item"):
        unpacked(message, [outcome.to_bytes(), []] if arguments else [])


def test_a_call_on_the_driver_stands_for_a_reply_that_has_references_in_it():
    call = Call("sender", "give", NOTHING, ())
    call.finish({"weights": Stored(reference("weights"))}, None)

    message, arguments = packed(call, no_call)

    assert ["weights"] == arguments
    assert {"weights": LocalShared("w")} == unpacked(message, ["w"])


def test_small_parts_come_along():
    reply = (batch(), 7)

    small, parts = left_behind(reply)

    assert small is reply
    assert [] == parts


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"rewards": np.arange(7, dtype=np.float32), "dones": np.zeros((3, 5), bool), "nothing": np.zeros((0, 4))},
        np.arange(12.0).reshape(3, 4).T,
        np.arange(24).reshape(2, 3, 4)[:, ::2],
        np.array([1 + 2j], np.complex128),
    ],
    ids=["none", "columns", "transposed", "strided", "complex"],
)
def test_an_outcome_arrives_as_it_left_and_cannot_be_written(value):
    arrived = Outcome.from_bytes(Outcome(value, None, "stage-3", 0.25).to_bytes())

    assert (None, "stage-3", 0.25, False) == arrived[1:]
    for sent, seen in zip(arrays_of(value), arrays_of(arrived.value), strict=True):
        assert (sent.dtype, sent.shape, sent.tolist()) == (seen.dtype, seen.shape, seen.tolist())
        assert seen.flags.aligned
        assert not seen.flags.writeable


@pytest.mark.parametrize(
    "make", [np.asarray, np.asfortranarray, lambda array: array[::2], lambda array: array.astype(">f4")]
)
def test_batches_of_all_kinds_of_columns_arrive_as_they_left(make):
    columns = {"observations": make(np.arange(24.0).reshape(4, 6)), "dones": np.zeros((4, 0), bool)}
    item = Batch(columns, BatchInfo(("rollout-1",), 3, 3.5, 4, 8, 8, (Episode(1.5, 7),)), 1)

    arrived = Outcome.from_bytes(Outcome(item, None, None, 0.0).to_bytes()).value

    assert plain(item) == plain(arrived)
    assert [array.dtype for array in item.columns.values()] == [array.dtype for array in arrived.columns.values()]
    assert not any(array.flags.writeable for array in arrived.columns.values())


def test_a_batch_of_objects_travels_too():
    item = Batch({"notes": np.array(["a", None, {"b": 1}], object)}, INFO)

    arrived = Outcome.from_bytes(Outcome(item, None, None, 0.0).to_bytes()).value

    assert ["a", None, {"b": 1}] == arrived["notes"].tolist()


def arrays_of(tree: Any) -> list[np.ndarray]:
    if isinstance(tree, dict):
        return list(tree.values())
    return [] if tree is None else [tree]


def test_what_python_cannot_pickle_by_name_travels_by_value():
    outcome = Outcome((lambda x: x + 1, np.ones(3)), None, None, 0.0)

    function, array = Outcome.from_bytes(outcome.to_bytes()).value

    assert 3 == function(2)
    assert [1.0, 1.0, 1.0] == array.tolist()


def test_requests_that_are_alike_are_the_same_bytes():
    requests = {request_of("act", NOTHING, (), no_call)[0] for _ in range(2)}
    others = {request_of(*other, no_call)[0] for other in [("act", None, ()), ("act", NOTHING, ("stage-1",))]}

    assert 1 == len(requests)
    assert 3 == len(requests | others)


@pytest.mark.parametrize("message", [NOTHING, None, 7, {"epsilon": 0.1}, [batch()]])
def test_a_request_arrives_as_it_was_sent(message):
    request, arguments = request_of("act", message, ("stage-1",), no_call)

    arrived = received(request, arguments)

    assert ("act", ("stage-1",)) == (arrived.method, arrived.through)
    assert plain(message) == plain(arrived.message)


def test_a_stored_message_is_a_place_in_the_request():
    request, arguments = request_of("load", Stored(reference("weights")), (), no_call)

    assert ["weights"] == arguments
    assert LocalShared("w") == received(request, ["w"]).message
