"""Items are values: the same everywhere, read-only, of any size, and sent once where many read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rheos.batches import Batch
from rheos.executors.protocol import Shared
from rheos.reports import Weights
from rheos.scheduler.flow import run
from rheos.streams.actors import Actor, ActorGroup, Placement, Published, Route
from rheos.streams.stream import from_actors, from_items
from rheos.testing.executor_suite.actors import Keeper, Publisher, Tattling
from rheos.testing.executor_suite.base import ContractBase, failure_of
from rheos.testing.executor_suite.troubles import Spoiling, spoil

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor
    from rheos.testing.executor_suite.gates import Diary

__all__ = ["ValuesContract"]

PLACES = [Placement.DRIVER, Placement.THREAD, Placement.REMOTE]
MEGABYTES = 8


class ValuesContract(ContractBase):
    """What goes through a flow arrives as it was, and nobody can change it under another's hands."""

    @pytest.mark.parametrize("place", PLACES)
    def test_what_is_sent_comes_back_equal_with_its_types(self, executor: Executor, place: Placement) -> None:
        """Trees of what items are made of, also an empty round."""
        items: list[Any] = [None, True, 1, 0.5, "ä", b"b", (), [], {}, (1, ("two", [3.0])), {"a": {"b": (None,)}}]

        with run(from_items(items).ask(Actor("keeper", Keeper, place), Keeper.echo), executor) as flow:
            replies = self.rest(flow)

        assert items == replies
        assert list(map(type, items)) == list(map(type, replies))

    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int64", "bool"])
    def test_an_array_comes_back_with_its_values_shape_and_type(
        self, executor: Executor, place: Placement, dtype: str
    ) -> None:
        """Also without an element, and without a dimension."""
        arrays = [np.arange(6).reshape(2, 3).astype(dtype), np.zeros((0, 4), dtype), np.ones((), dtype)]

        with run(from_items(arrays).ask(Actor("keeper", Keeper, place), Keeper.echo), executor) as flow:
            replies = self.rest(flow)

        for array, reply in zip(arrays, replies, strict=True):
            assert (array.dtype, array.shape) == (reply.dtype, reply.shape)
            np.testing.assert_array_equal(array, reply)

    @pytest.mark.parametrize("place", PLACES)
    def test_a_batch_comes_back_with_its_columns_and_what_is_known_about_it(
        self, executor: Executor, place: Placement
    ) -> None:
        """Batches are what most items are."""
        batch = Batch({"rewards": np.arange(6.0).reshape(3, 2)}, axis=1)

        with run(from_items([batch]).ask(Actor("keeper", Keeper, place), Keeper.echo), executor) as flow:
            (reply,) = self.rest(flow)

        assert (batch.info, batch.axis, list(batch.columns)) == (reply.info, reply.axis, list(reply.columns))
        np.testing.assert_array_equal(batch["rewards"], reply["rewards"])

    @pytest.mark.parametrize("place", PLACES)
    def test_items_of_several_megabytes_go_both_ways(self, executor: Executor, place: Placement) -> None:
        """The last one after the first ones have been given back."""
        big = np.arange(MEGABYTES * 2**20 // 8, dtype=np.int64)
        keeper = Actor("keeper", Keeper, place)

        with run(from_items([0, 1, 2]).map(lambda number: big + number).ask(keeper, Keeper.echo), executor) as flow:
            replies = self.rest(flow)

        assert [MEGABYTES * 2**20] * 3 == [reply.nbytes for reply in replies]
        assert [True] * 3 == [np.array_equal(big + number, reply) for number, reply in enumerate(replies)]

    @pytest.mark.parametrize("place", PLACES)
    def test_an_actor_that_writes_into_what_it_got_gets_an_error(self, executor: Executor, place: Placement) -> None:
        """An array in a flow is read-only, on every executor."""
        items = from_items([{"arrays": [np.zeros(3)]}])

        with run(items.ask(Actor("spoiling", Spoiling, place), Spoiling.spoil), executor) as flow:
            error = failure_of(flow)

        assert isinstance(error, ValueError)
        assert "read-only" in str(error)

    @pytest.mark.parametrize("key", ["arrays", "batch"])
    def test_a_driver_that_writes_into_a_reply_gets_an_error(self, executor: Executor, key: str) -> None:
        """Also deep inside, and in a column of a batch."""
        group = ActorGroup("spoiling", 2, _spoiling)
        items = from_actors(group, Spoiling.give).gather_async()

        with run(items.map(lambda reply: _write(reply[key])), executor) as flow:
            error = failure_of(flow)

        assert isinstance(error, ValueError)
        assert "read-only" in str(error)

    def test_a_function_at_the_actor_that_writes_into_an_item_gets_an_error(self, executor: Executor) -> None:
        """It gets what the driver would get."""
        stream = from_actors(ActorGroup("spoiling", 1, _spoiling), Spoiling.give).map(spoil).gather_sync()

        with run(stream, executor) as flow:
            error = failure_of(flow)

        assert isinstance(error, ValueError)
        assert "read-only" in str(error)

    def test_an_actor_that_writes_into_published_weights_gets_an_error(self, executor: Executor) -> None:
        """They are everybody's."""
        learner, group = Actor("learner", Publisher), ActorGroup("spoiling", 2, _spoiling)
        newest = Published(learner, Publisher.weights)
        updates = from_items([0, 1, 2]).ask(learner, Publisher.update)

        with run(updates.tell(group, Spoiling.load, message=lambda _: newest, route=Route.ALL), executor) as flow:
            error = failure_of(flow)

        assert isinstance(error, ValueError)
        assert "read-only" in str(error)

    @pytest.mark.parametrize("place", PLACES)
    def test_the_weights_of_an_update_come_as_a_reference_that_is_shared(
        self, executor: Executor, place: Placement
    ) -> None:
        """So that the driver and everybody else only handles that."""
        updates = from_items([0, 1]).ask(Actor("learner", Publisher, place), Publisher.update)

        with run(updates, executor) as flow:
            shared = [report.weights for report in self.rest(flow)]
            weights = [reference.get() for reference in shared if isinstance(reference, Shared)]

        assert [1, 2] == [one.version for one in weights]
        assert [[1, 1, 1], [2, 2, 2]] == [one.arrays["bias"].tolist() for one in weights]
        assert [Weights, Weights] == list(map(type, weights))

    def test_a_value_that_is_put_is_packed_once_and_read_by_all(self, executor: Executor, diary: Diary) -> None:
        """At most once: within one process there is nothing to pack."""
        group = ActorGroup("keeper", 5, Keeper)
        shared = executor.put(Tattling(diary))
        stream = from_items(range(4)).tell(group, Keeper.keep, message=lambda _: shared, route=Route.ALL)

        with run(stream, executor) as flow:
            self.rest(flow)
            read = [flow.ask(keeper, Keeper.told) for keeper in group]
            packed = len(diary.lines())

        assert [(index, 4) for index in range(5)] == read
        assert packed <= 1


def _spoiling(index: int) -> Spoiling:
    return Spoiling()


def _write(part: Any) -> Any:
    return spoil(part["rewards"] if isinstance(part, Batch) else part)
