"""Trees come back bit for bit, and what is no tree is refused by its path."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load, save

from rheos.batches import Batch, BatchInfo, Episode
from rheos.errors import TreeError
from rheos.executors.protocol import LocalShared
from rheos.reports import LearnerReport, Report, Weights
from rheos.seeds import generator_for
from rheos.streams.actors import Actor, EndOfShard, NotReady, Published
from rheos.tree_types import register_tree_type, tree_type
from rheos.trees import decode, encode

DTYPES = [np.float16, np.float32, np.float64, np.uint8, np.int8, np.int32, np.int64, np.uint64, np.bool_]
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**130), max_value=2**130)
    | st.floats()
    | st.text()
    | st.binary()
    | ARRAYS
    | st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.from_dtype(np.dtype(dtype)))
)
TREES = st.recursive(
    LEAVES,
    lambda trees: (
        st.lists(trees, max_size=3)
        | st.lists(trees, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(), trees, max_size=3)
        | trees.map(LocalShared)
    ),
    max_leaves=12,
)


def back_from_the_disk(tree: Any) -> Any:
    """Return a tree after it was bytes."""
    structure, arrays = encode(tree)
    return decode(json.loads(json.dumps(structure, allow_nan=False)), load(save(arrays)))


def in_bits(tree: Any) -> Any:
    """Return what tells two trees apart: types and bits, the order in dicts, too."""
    if isinstance(tree, np.ndarray | np.generic):
        return type(tree), tree.dtype, tree.shape, tree.tobytes()
    if isinstance(tree, float):
        return float, struct.pack("<d", tree)
    if isinstance(tree, list | tuple):
        return type(tree), [in_bits(part) for part in tree]
    if isinstance(tree, dict):
        return dict, [(type(key), key, in_bits(part)) for key, part in tree.items()]
    if isinstance(tree, LocalShared):
        return LocalShared, in_bits(tree.value)
    return type(tree), tree


@given(TREES)
def test_every_tree_comes_back_bit_for_bit(tree):
    assert in_bits(tree) == in_bits(back_from_the_disk(tree))


@pytest.mark.parametrize("number", [math.nan, -math.nan, math.inf, -math.inf, -0.0, 5e-324])
def test_the_numbers_that_json_has_no_word_for_come_back(number):
    tree = [number, np.float32(number), np.full(2, number, np.float32)]

    assert in_bits(tree) == in_bits(back_from_the_disk(tree))


def test_what_flows_comes_back():
    info = BatchInfo(("rollout-0",), 1, 1.5, 2, 8, 8, (Episode(3.0, 4),))
    batch = Batch({"rewards": np.ones((4, 2), np.float32)}, info, axis=1)
    weights = Weights(3, {"policy/kernel": np.zeros((2, 2), np.float32)})
    learned = LearnerReport(info, 3, 1, {"loss": 0.5}, LocalShared(weights))
    report = Report(8, 8, 1, (Episode(3.0, 4),), {"loss": 0.5}, (0, 0.5, 1))

    came = back_from_the_disk((batch, learned, report, NotReady("empty"), EndOfShard()))

    assert (info, 1) == (came[0].info, came[0].axis)
    np.testing.assert_array_equal(batch["rewards"], came[0]["rewards"])
    assert (learned.info, learned.metrics, 3) == (came[1].info, came[1].metrics, came[1].weights.get().version)
    assert (report, NotReady("empty"), EndOfShard()) == came[2:]
    assert isinstance(came[0].info.episodes[0], Episode)


def test_the_state_of_a_generator_comes_back_and_goes_on_alike():
    generator, other = generator_for(0, "one"), generator_for(0, "other")
    generator.random(3, np.float32)

    other.bit_generator.state = back_from_the_disk(generator.bit_generator.state)

    assert generator.random(5).tolist() == other.random(5).tolist()


def test_a_message_that_stands_for_published_weights_is_known_by_names():
    class Learner:
        def weights(self) -> int:
            return 7

    came = back_from_the_disk(Published(Actor("learner", Learner), Learner.weights))

    assert ("learner", "weights", 7) == (came.actor.name, came.method.__name__, came.method(Learner()))
    with pytest.raises(TreeError, match="the flow must mention it"):
        came.actor.factory()


def test_equal_arrays_are_kept_once_and_come_back_read_only():
    structure, arrays = encode([np.ones(1000), np.ones(1000), np.ones(1000, np.float32), np.ones((10, 100))])

    came = decode(structure, arrays)

    assert 3 == len(arrays)
    with pytest.raises(ValueError, match="read-only"):
        came[0][0] = 2.0


def test_arrays_of_the_same_bytes_but_another_shape_or_dtype_are_others():
    zeros = [np.zeros(4), np.zeros((2, 2)), np.zeros(4, np.int64), np.zeros((0, 4)), np.zeros((4, 0)), np.zeros(())]

    _, arrays = encode([*zeros, *zeros])

    assert 6 == len(arrays)


def test_large_arrays_are_not_in_memory_twice_when_a_tree_is_encoded():
    array = np.zeros(2**22)
    tracemalloc.start()

    encode({"moments": array})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < array.nbytes // 8


def test_a_shared_value_comes_back_by_whoever_shares():
    structure, arrays = encode({"weights": LocalShared(3)})

    came = decode(structure, arrays, share=lambda value: LocalShared(("put", value)))

    assert ("put", 3) == came["weights"].get()


class Pair(NamedTuple):
    left: int
    right: int


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": [1, {2, 3}]}, r"a\[1\]: got set \(\{2, 3\}\), expected arrays, numbers"),
        ({"a": {3: object}}, r"a\[3\]: got type \("),
        ({"a": {(1, 2): 3}}, r"a: got the key tuple \(\(1, 2\)\), expected strings or ints"),
        ({True: 1}, r"the tree: got the key bool \(True\)"),
        ({"a": Pair(1, 2)}, "a: got Pair"),
        ({"a": np.array(["x"])}, r"a: got an array of <U1, expected one of bools or numbers"),
        ({"a": np.array([object()])}, r"a: got an array of object"),
        ({"a": np.longdouble(1)}, r"a: got an array of float128"),
        ({"batch": Batch({"x": {1}})}, r"batch\.columns\.x: got set"),  # type: ignore[dict-item]
    ],
    ids=["set", "class", "tuple as key", "bool as key", "namedtuple", "strings", "objects", "longdouble", "column"],
)
def test_what_is_no_tree_is_refused_in_one_line_with_its_path(tree, message):
    with pytest.raises(TreeError, match=f"^{message}") as caught:
        encode(tree)

    assert 1 == len(str(caught.value).splitlines())


def test_a_tree_that_holds_itself_is_refused():
    tree: list[Any] = []
    tree.append(tree)

    with pytest.raises(TreeError, match="nested too deeply, or holds itself"):
        encode(tree)


def test_a_class_of_ones_own_is_known_by_its_name_once_it_is_registered():
    @tree_type("test.Attempt")
    @dataclass(frozen=True)
    class Attempt:
        score: float

        def to_tree(self):
            return {"score": self.score}

        @staticmethod
        def from_tree(tree):
            return Attempt(**tree)

    structure, arrays = encode([Attempt(2.5)])

    assert [{"object": ["test.Attempt", {"dict": {"score": 2.5}}]}] == structure
    assert [Attempt(2.5)] == decode(structure, arrays)


def test_a_class_of_somebody_else_is_registered_with_two_functions():
    register_tree_type("test.complex", complex, lambda z: (z.real, z.imag), lambda pair: complex(*pair))

    assert 1 + 2j == back_from_the_disk(1 + 2j)


def test_a_subclass_is_another_class():
    class Special(Weights):
        pass

    with pytest.raises(TreeError, match=r"got .*Special"):
        encode(Special(1, {}))


def test_two_classes_cannot_have_one_name():
    register_tree_type("test.range", range, lambda r: r.stop, range)

    with pytest.raises(TreeError, match=r"'test.range': range has this name already"):
        register_tree_type("test.range", slice, lambda s: s.stop, slice)


@pytest.mark.parametrize("name", ["os.system", "rheos.testing.toy.ToyWorker", "test.Unheard"])
def test_a_file_names_no_code_only_types_that_are_registered(name):
    with pytest.raises(TreeError, match=f"type '{name}', which nothing that is imported here registers"):
        decode({"object": [name, None]}, {})


@pytest.mark.parametrize(
    "structure", [{"nothing": 1}, {"array": "9"}, {"tuple": 3}, {"float": "zz"}, {"scalar": ["O", "00"]}, {}]
)
def test_a_structure_that_encode_never_gave_is_refused(structure):
    with pytest.raises(TreeError, match="This is no encoded tree"):
        decode(structure, {})
