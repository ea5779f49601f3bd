"""Running stages that work on values, on the driver."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from rheos.batches import Batch
from rheos.executors.host import ATOMS, freeze
from rheos.scheduler.running import Answer, FunctionNode, Item, RunningNode, Signal, State

__all__ = ["Drain", "Filter", "FlatMap", "FromItems", "Map", "Tap"]

__tracebackhide__ = True


class FromItems(RunningNode):
    """Gives the items of an iterable; remembers how many it gave."""

    _iterator: Iterator[Any] | None = None

    def poll(self) -> Answer:
        """Give the next item."""
        node: Any = self.node
        try:
            if self._iterator is None:
                self._iterator = iter(node.items)
                for _ in range(self.items):
                    next(self._iterator)
            value = next(self._iterator)
        except StopIteration:
            return Signal.END
        except Exception as error:
            self.fail(error, self.items + 1, ())
        self.items += 1
        self.engine.moves += 1
        return Item(value if type(value) in ATOMS else freeze(value), ())


class Map(FunctionNode):
    """One item to one item. Maps in a row are polled as one, by the last of them: flows have most of these."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        before = self.source
        self._row: tuple[Map, ...] = (*before._row, self) if isinstance(before, Map) else (self,)
        self._take: Callable[[], Answer] = before._take if isinstance(before, Map) else before.poll

    def poll(self) -> Answer:
        """Give the function of the next item."""
        item = self._take()
        if isinstance(item, Item):
            value = item.value
            began_at = perf_counter()
            for stage in self._row:
                before = value
                try:
                    value = stage.function(value)
                except BaseException as error:
                    stage.fail(error, stage.items + 1, item.sources)
                if type(value) not in ATOMS and not (value is before and _cannot_change(value)):
                    freeze(value)
                ended_at = perf_counter()
                stage.busy_s += ended_at - began_at
                stage.items += 1
                began_at = ended_at
            item.value = value
        return item


def _cannot_change(value: Any) -> bool:
    """Whether what was read-only once stays so, whoever had it: a batch, and a round of them."""
    kind = type(value)
    return kind is Batch or (kind is tuple and all(type(part) is Batch for part in value))


class Tap(FunctionNode):
    """An effect for each item."""

    def poll(self) -> Answer:
        """Give the next item after the effect."""
        item = self.source.poll()
        if isinstance(item, Item):
            self.call(item, self.items + 1)
            self.items += 1
        return item


class Filter(FunctionNode):
    """Those items for which the predicate is true."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._taken = 0

    def poll(self) -> Answer:
        """Give the next item if it passes; else it was used up."""
        item = self.source.poll()
        if isinstance(item, Item):
            self._taken += 1
            if not self.call(item, self._taken):
                return Signal.DRAINED
            self.items += 1
        return item

    def state_dict(self) -> State:
        """Add how many items it looked at."""
        return super().state_dict() | {"taken": self._taken}

    def load_state_dict(self, state: State) -> None:
        """Take how many it looked at, too."""
        super().load_state_dict(state)
        self._taken = state["taken"]


class FlatMap(FunctionNode):
    """One item to any number; what it gives comes from everything taken since it gave something before."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._taken = 0
        self._sources: dict[str, None] = {}
        self._born_at = 0.0  # of what was taken first since it gave something
        self._ready: deque[Item] = deque()
        self._is_finished = False

    def poll(self) -> Answer:
        """Give what is ready; else take one item, which may make some ready or be used up."""
        if not self._ready:
            item = Signal.END if self._is_finished else self.source.poll()
            if isinstance(item, Item):
                self._taken += 1
                self._sources.update(dict.fromkeys(item.sources))
                self._born_at = self._born_at or item.born_at
                self._run(self.function, item.value)
                if not self._ready:
                    return Signal.DRAINED
            elif item is Signal.END and not self._is_finished:
                self._is_finished = True
                finish = getattr(self.function, "finish", None)
                if finish is not None:
                    self._run(finish)
                if not self._ready:
                    return Signal.END
            else:
                return item
        self.items += 1
        self.engine.moves += 1
        return self._ready.popleft()

    def _run(self, function: Any, *arguments: Any) -> None:
        sources = tuple(self._sources)
        started = perf_counter()
        try:
            self._ready.extend(Item(freeze(value), sources, self._born_at) for value in function(*arguments))
        except BaseException as error:
            self.fail(error, self._taken, sources)
        self.busy_s += perf_counter() - started
        if self._ready:
            self._sources.clear()
            self._born_at = 0.0

    def state_dict(self) -> State:
        """Add what is ready, and where what was taken since came from."""
        return super().state_dict() | {
            "taken": self._taken,
            "sources": list(self._sources),
            "ready": [(item.value, item.sources) for item in self._ready],
            "is_finished": self._is_finished,
        }

    def load_state_dict(self, state: State) -> None:
        """Take what is ready, too."""
        super().load_state_dict(state)
        self._taken = state["taken"]
        self._sources = dict.fromkeys(state["sources"])
        self._ready = deque(Item(value, tuple(sources)) for value, sources in state["ready"])
        self._is_finished = state["is_finished"]


class Drain(RunningNode):
    """Uses every item up."""

    def poll(self) -> Answer:
        """Take an item and say so."""
        item = self.inputs[0].poll()
        if not isinstance(item, Item):
            return item
        self.items += 1
        return Signal.DRAINED
