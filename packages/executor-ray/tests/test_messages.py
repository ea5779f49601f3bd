"""What travels and what stays: replies without their large parts, messages with references as arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rheos import Batch, BatchInfo, LearnerReport
from rheos.executors.protocol import NOTHING, Call, Control, LocalShared
from rheos.reports import Weights
from rheos_ray.messages import Outcome, Part, Stored, left_behind, packed, reply_of, unpacked

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
    small, parts = left_behind(reply)
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
    small, _ = left_behind((batch(axis=1), 7))

    seen, number = reply_of(small, reference("parts"))

    assert (INFO, 1, True, 7) == (seen.info, seen.axis, seen.is_deferred, number)
    assert isinstance(seen.content, Part)


def test_a_reply_without_large_parts_is_the_same_object():
    reply = {"numbers": (1, 2), "array": np.zeros(2)}

    small, parts = left_behind(reply)

    assert small is reply
    assert [] == parts
    assert reply_of(small, reference("parts")) is reply


def test_a_reference_that_a_message_has_twice_is_one_argument():
    stored = Stored(reference("weights"))

    message, arguments = packed([stored, {"again": stored}], no_call)

    assert ["weights"] == arguments
    assert ["w", {"again": "w"}] == unpacked(message, ["w"])


def test_a_call_stands_for_its_reply_with_what_stayed_behind():
    small, parts = left_behind((batch(), 7))
    call = Call("sender", "give", NOTHING, ())

    message, arguments = packed(call, lambda _: (reference("outcome"), reference("parts")))
    arrived = unpacked(message, [Outcome(small, None, None, 0.0), parts])

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
        unpacked(message, [outcome, []] if arguments else [])


def test_a_call_on_the_driver_stands_for_a_reply_that_has_references_in_it():
    call = Call("sender", "give", NOTHING, ())
    call.finish({"weights": Stored(reference("weights"))}, None)

    message, arguments = packed(call, no_call)

    assert ["weights"] == arguments
    assert {"weights": "w"} == unpacked(message, ["w"])
