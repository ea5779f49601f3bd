"""Running stages that bring the shards of actors to the driver: the barrier, and items as they are ready."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rheos.executors.protocol import NOTHING, Call, Control
from rheos.scheduler.running import (
    Answer,
    Item,
    RunningNode,
    Signal,
    State,
    function_state,
    load_function_state,
    own_copy,
)
from rheos.streams import nodes
from rheos.streams.actors import NotReady

if TYPE_CHECKING:
    from rheos.scheduler.engine import Engine

__all__ = ["GatherAsync", "GatherSync"]

__tracebackhide__ = True


class _Gather(RunningNode):
    """Sends requests to shards; every shard gets its functions and its first message before its first request."""

    def __init__(self, node: nodes.Node, number: int, inputs: tuple[RunningNode, ...], engine: Engine) -> None:
        super().__init__(node, number, inputs, engine)
        self._functions: dict[str, nodes.ShardMap] = {}
        source = node.inputs[0]
        while isinstance(source, nodes.ShardMap):
            self._functions[f"stage-{engine.number_of(source)}"] = source
            source = source.inputs[0]
        assert isinstance(source, nodes.FromActors)
        self._functions = dict(reversed(self._functions.items()))
        self._through = tuple(self._functions)
        self._source = source
        self._names = tuple(actor.name for actor in source.group)
        self._first: Any = None if source.first is None else own_copy(source.first[1])
        self._argument = source.arguments[0] if source.arguments else NOTHING
        self._is_greeted = [False] * len(self._names)
        self._greetings: dict[int, str] = {}  # key of the call -> actor
        self._requests: dict[int, int] = {}  # key of the call -> shard
        self._asleep: deque[tuple[int, int, str]] = deque()  # shard, moves of the flow by then, and why

    def _request(self, shard: int) -> None:
        if not self._is_greeted[shard]:
            self._is_greeted[shard] = True
            name = self._names[shard]
            for method, message in self._greeting(name):
                self._greetings[self.engine.send(self, name, method, message).key] = name
        call = self.engine.send(self, self._names[shard], self._source.method.__name__, self._argument, self._through)
        self._requests[call.key] = shard

    def _greeting(
        self, name: str, function_states: Mapping[str, State | None] = MappingProxyType({})
    ) -> Iterator[tuple[str | Control, Any]]:
        """Give what a new actor is sent before its first request: its functions, then its first message."""
        for function, stage in self._functions.items():
            yield Control.INSTALL, (function, stage.function)
            state = function_states.get(function)
            if state is not None:
                yield Control.LOAD_FUNCTION_STATE, (function, state)
        if self._source.first is not None:
            try:
                first = self._first(None)
            except BaseException as error:
                self.fail(error, self.items + 1, (name,), self._source)
            if first is not None:
                yield self._source.first[0].__name__, first

    def _ask_again(self) -> None:
        """Ask the shards again that were not ready, if the flow has moved since they said so."""
        for _ in range(len(self._asleep)):
            shard, moves, reason = self._asleep.popleft()
            if moves == self.engine.moves:
                self._asleep.append((shard, moves, reason))
            else:
                self._request(shard)

    def finished(self, call: Call) -> None:
        """Take in a reply."""
        if call.error is not None:
            where = self._source if call.key in self._greetings else self._functions.get(call.failed_in or "")
            self.fail(call.error, self.items + 1, (call.actor,), where)
        if call.key in self._greetings:
            del self._greetings[call.key]
            return
        shard = self._requests.pop(call.key)
        if isinstance(call.value, NotReady):
            self._asleep.append((shard, self.engine.moves, call.value.reason))
        else:
            self.engine.moves += 1
            self._keep(shard, call.value)

    @abstractmethod
    def _keep(self, shard: int, value: Any) -> None:
        """Keep what a shard gave until it goes on."""

    @property
    def outstanding(self) -> int:
        """How many requests have not been answered."""
        return len(self._requests)

    def waiting(self) -> str:
        """Say which shards are outstanding or not ready."""
        asked = sorted(set(self._requests.values()))
        parts = []
        if asked:
            parts.append("waits for " + ", ".join(self._names[shard] for shard in asked))
        if self._asleep:
            names = (self._names[shard] + (f" ({reason})" if reason else "") for shard, _, reason in self._asleep)
            parts.append(f"not ready: {', '.join(names)}")
        return "; ".join(parts)

    def state_dict(self) -> State:
        """Add the requests that are on their way, and the state of the functions at the actors."""
        return (
            super().state_dict()
            | function_state(self._first)
            | {
                "requests": list(self._requests.items()),
                "greetings": list(self._greetings.items()),
                "asleep": list(self._asleep),
                "is_greeted": list(self._is_greeted),
                "functions": self._states_of_functions(),
            }
        )

    def _states_of_functions(self) -> dict[str, dict[str, State | None]]:
        return {
            name: {function: self.engine.ask(name, Control.FUNCTION_STATE, function) for function in self._functions}
            for name, is_greeted in zip(self._names, self._is_greeted, strict=True)
            if is_greeted and self._functions
        }

    def load_state_dict(self, state: State) -> None:
        """Take over the requests that were on their way; shards that had been greeted are new, so they are again."""
        super().load_state_dict(state)
        load_function_state(self._first, state)
        self._requests = dict(state["requests"])
        self._greetings = dict(state["greetings"])
        self._asleep = deque(tuple(entry) for entry in state["asleep"])
        self._is_greeted = list(state["is_greeted"])
        for key in (*self._requests, *self._greetings):
            self.engine.adopt(self, key)
        for name, is_greeted in zip(self._names, self._is_greeted, strict=True):
            if is_greeted:
                for method, message in self._greeting(name, state["functions"].get(name, {})):
                    self.engine.ask(name, method, message)  # beside the flow, whose order it must not change


class GatherSync(_Gather):
    """A barrier: the requests of a round go out when the consumer comes back, so behind all its messages."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._round: dict[int, Any] | None = None

    def poll(self) -> Answer:
        """Give the round once it is whole; begin one if none is under way."""
        if self._round is None:
            self._round = {}
            for shard in range(len(self._names)):
                self._request(shard)
        elif self._asleep:
            self._ask_again()
        if len(self._round) < len(self._names):
            return Signal.PENDING if self._requests else Signal.IDLE
        whole = tuple(self._round[shard] for shard in range(len(self._names)))
        self._round = None
        self.items += 1
        self.engine.moves += 1
        return Item(whole, self._names)

    def _keep(self, shard: int, value: Any) -> None:
        assert self._round is not None
        self._round[shard] = value

    def state_dict(self) -> State:
        """Add the part of the round that is there."""
        return super().state_dict() | {"round": None if self._round is None else list(self._round.items())}

    def load_state_dict(self, state: State) -> None:
        """Take the part of the round that was there."""
        super().load_state_dict(state)
        self._round = None if state["round"] is None else dict(state["round"])


class GatherAsync(_Gather):
    """Items as they are ready; a shard is asked for its next one when the consumer comes back."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        node: Any = self.node
        self._free: deque[int] = deque(list(range(len(self._names))) * node.in_flight)
        self._ready: deque[tuple[int, Any]] = deque()

    def poll(self) -> Answer:
        """Fill the windows of the shards, then give an item that is ready."""
        while self._free:
            self._request(self._free.popleft())
        if self._asleep:
            self._ask_again()
        if not self._ready:
            return Signal.PENDING if self._requests else Signal.IDLE
        shard, value = self._ready.popleft()
        self._free.append(shard)
        self.items += 1
        self.engine.moves += 1
        return Item(value, (self._names[shard],))

    def _keep(self, shard: int, value: Any) -> None:
        self._ready.append((shard, value))

    def state_dict(self) -> State:
        """Add the items that are ready, and the windows that are free."""
        return super().state_dict() | {"free": list(self._free), "ready": list(self._ready)}

    def load_state_dict(self, state: State) -> None:
        """Take the items that were ready, too."""
        super().load_state_dict(state)
        self._free = deque(state["free"])
        self._ready = deque(tuple(entry) for entry in state["ready"])
