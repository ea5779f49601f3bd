"""RunningNode: a stage of a flow that runs, and the answers that it gives when it is polled."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rheos.executors.host import ENDS, user_exit, user_stop_iteration
from rheos.scheduler.statistics import StageStatistics
from rheos.streams.nodes import Node

if TYPE_CHECKING:
    from rheos.executors.protocol import Call
    from rheos.scheduler.engine import Engine

__all__ = ["Answer", "FunctionNode", "Item", "RunningNode", "Signal", "State", "own_copy"]

__tracebackhide__ = True

State = dict[str, Any]
"""What a node remembers between two items: a tree of dicts, lists, tuples, numbers, strings and the items' values."""

F = TypeVar("F")


class Item:
    """A value on its way through the flow, and the names of the actors that it came from.

    It belongs to one path at a time, so a stage may change it in place; a tee makes a copy for each branch.
    """

    __slots__ = ("born_at", "sources", "value")

    def __init__(self, value: Any, sources: tuple[str, ...], born_at: float = 0.0) -> None:
        self.value = value
        self.sources = sources
        self.born_at = born_at
        """When an actor finished it, by perf_counter; 0.0 where that is not known."""


class Signal(Enum):
    """What a node answers when it has no item to give."""

    DRAINED = "drained"
    """An item was used up; it counts in a ratio."""
    PENDING = "pending"
    """Something is outstanding, or another branch has to move first."""
    IDLE = "idle"
    """All its sources answered NotReady."""
    END = "end"


Answer = Item | Signal


class RunningNode(ABC):
    """A stage that runs.

    Args:
        node: the stage as it was written.
        number: its number in the flow, from 1.
        inputs: the running stages that it reads.
        engine: carries its messages, and counts what moves.
    """

    def __init__(self, node: Node, number: int, inputs: tuple[RunningNode, ...], engine: Engine) -> None:
        self.node = node
        self.number = number
        self.inputs = inputs
        self.engine = engine
        self.items = 0
        """Items that it gave so far."""
        self.busy_s = 0.0
        """Seconds that the driver spent in its function, or in its actors where they live on the driver."""

    @abstractmethod
    def poll(self) -> Answer:
        """Give an item, or say why there is none; never wait."""

    def finished(self, call: Call) -> None:
        """Take in a call of this node that has finished; only stages that send calls get one back."""
        raise AssertionError(f"{self.node.label} sends no calls, got {call!r}")

    @property
    def outstanding(self) -> int:
        """How many of its calls have not been taken in."""
        return 0

    def waiting(self) -> str:
        """Say what it waits for, or "" if for nothing of its own."""
        return ""

    def statistics(self) -> StageStatistics:
        """Return what passed through it since the run began."""
        return StageStatistics(self.engine.describe(self.node), self.items, self.busy_s, self.outstanding)

    def state_dict(self) -> State:
        """Return what it remembers between two items."""
        return {"items": self.items}

    def load_state_dict(self, state: State) -> None:
        """Take what `state_dict` gave."""
        self.items = state["items"]

    def fail(self, error: BaseException, number: int, sources: tuple[str, ...], where: Node | None = None) -> NoReturn:
        """Raise the error with a note that says at which stage and item it came about.

        Args:
            error: what user code raised; what would end an iteration or the program becomes an ordinary error, as
                in `guarded`. A KeyboardInterrupt is raised as it is.
            number: of the item, from 1.
            sources: of the item.
            where: the stage, if it is not this one.
        """
        stage = where or self.node
        note = f"in {self.engine.describe(stage)}, item {number}" + (f" from {', '.join(sources)}" if sources else "")
        if isinstance(error, KeyboardInterrupt):
            raise error
        if isinstance(error, Exception) and not isinstance(error, ENDS):
            error.add_note(note)
            raise error
        make = user_stop_iteration if isinstance(error, ENDS) else user_exit
        substitute = make(stage.label, error)
        substitute.add_note(note)
        raise substitute from error


def own_copy(function: F) -> F:
    """Return a run's own copy of a function that remembers something; any other function is used as it is."""
    return copy.deepcopy(function) if hasattr(function, "state_dict") else function


class FunctionNode(RunningNode):
    """A stage that runs a function on the driver; a function with a `state_dict` is part of its state."""

    def __init__(self, node: Any, number: int, inputs: tuple[RunningNode, ...], engine: Engine) -> None:
        super().__init__(node, number, inputs, engine)
        self.source = inputs[0]
        self.function: Callable[[Any], Any] = own_copy(node.function)

    def call(self, item: Item, number: int) -> Any:
        """Return the function of the value of an item, the number of which is for the error's note."""
        started = perf_counter()
        try:
            value = self.function(item.value)
        except BaseException as error:
            self.fail(error, number, item.sources)
        self.busy_s += perf_counter() - started
        return value

    def state_dict(self) -> State:
        """Add the function's state."""
        return super().state_dict() | function_state(self.function)

    def load_state_dict(self, state: State) -> None:
        """Take the function's state, too."""
        super().load_state_dict(state)
        load_function_state(self.function, state)


def function_state(function: Any) -> State:
    """Return the state of a function as an entry of its node's, or nothing."""
    return {"function": copy.deepcopy(function.state_dict())} if hasattr(function, "state_dict") else {}


def load_function_state(function: Any, state: State) -> None:
    """Take what `function_state` gave."""
    if "function" in state:
        function.load_state_dict(copy.deepcopy(state["function"]))
