"""Running stages that bring the shards of actors to the driver: the barrier, and items as they are ready."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rheos.errors import ActorDied, FlowError
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
from rheos.streams.actors import EndOfShard, NotReady

if TYPE_CHECKING:
    from rheos.scheduler.engine import Engine

__all__ = ["Gather", "GatherAsync", "GatherSync"]

__tracebackhide__ = True


class Gather(RunningNode):
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
        self._method = source.method.__name__
        self._names = tuple(actor.name for actor in source.group)
        self._first: Any = None if source.first is None else own_copy(source.first[1])
        self._argument = source.arguments[0] if source.arguments else NOTHING
        self._greeted: list[int | None] = [None] * len(self._names)  # which incarnation of each actor was greeted
        self._greetings: dict[int, str] = {}  # key of the call -> actor
        self._requests: dict[int, int] = {}  # key of the call -> shard
        self._asleep: deque[tuple[int, int, str]] = deque()  # shard, moves of the flow by then, and why
        self._lost: deque[int] = deque()  # a shard for every request that its actor was down for
        self._given_up: list[int] = []  # as many of those as nobody will answer
        self._ended: set[int] = set()  # shards that said so
        if engine.recovery is not None:
            engine.recovery.follow(self)

    def _request(self, shard: int) -> None:
        name, recovery = self._names[shard], self.engine.recovery
        if recovery is not None and not recovery.is_up(name):
            self._lost.append(shard)
            return
        if self._greeted[shard] != self._incarnation(name):
            self._greet(shard)
        call = self.engine.send(self, name, self._method, self._argument, self._through)
        self._requests[call.key] = shard

    def greet(self, name: str) -> None:
        """Greet an actor that has just been made anew, if it had been greeted before."""
        if name in self._names and self._greeted[self._names.index(name)] is not None:
            self._greet(self._names.index(name))

    def _greet(self, shard: int) -> None:
        name = self._names[shard]
        self._greeted[shard] = self._incarnation(name)
        for method, message in self._greeting(name):
            self._greetings[self.engine.send(self, name, method, message).key] = name

    def _incarnation(self, name: str) -> int:
        return 0 if self.engine.recovery is None else self.engine.recovery.restarts[name]

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
        """Ask again: shards that were not ready, if the flow has moved since, and those whose actors are up again."""
        for _ in range(len(self._asleep)):
            shard, moves, reason = self._asleep.popleft()
            if shard in self._ended:
                continue
            if moves == self.engine.moves:
                self._asleep.append((shard, moves, reason))
            else:
                self._request(shard)
        for _ in range(len(self._lost)):
            shard = self._lost.popleft()
            if shard in self._ended:
                continue
            if self.engine.recovery is not None and self.engine.recovery.is_given_up(self._names[shard]):
                self._given_up.append(shard)
            else:
                self._request(shard)

    def finished(self, call: Call) -> None:
        """Take in a reply."""
        shard = self._requests.pop(call.key, None)
        if shard is None:
            del self._greetings[call.key]
        if call.error is not None:
            recovery = self.engine.recovery
            if recovery is not None and shard in self._ended:
                return  # it had no more to give
            if recovery is None or not recovery.takes(call):
                where = self._source if shard is None else self._functions.get(call.failed_in or "")
                self.fail(call.error, self.items + 1, (call.actor,), where)
            if shard is not None:
                self._lost.append(shard)
            return
        if shard is None:
            return
        if self.engine.recovery is not None and self.engine.recovery.is_too_late(call):
            self._lost.append(shard)
            return
        if isinstance(call.value, NotReady):
            self._asleep.append((shard, self.engine.moves, call.value.reason))
            return
        self.engine.moves += 1
        if isinstance(call.value, EndOfShard):
            self._ended.add(shard)
        elif call.value is NotReady or call.value is EndOfShard:
            name = call.value.__name__
            self.fail(FlowError(f"{call!r} gave the class {name}: return {name}()."), self.items + 1, (call.actor,))
        else:
            self._keep(shard, call.value, call.ended_at)

    def _missing(self) -> Signal | None:
        """Return what to answer while shards are asked, or will be; None where no more can come."""
        if self._requests or self._lost:
            return Signal.PENDING
        return Signal.IDLE if self._asleep else None

    @abstractmethod
    def _keep(self, shard: int, value: Any, born_at: float) -> None:
        """Keep what a shard gave until it goes on."""

    @property
    def outstanding(self) -> int:
        """How many requests have not been answered."""
        return len(self._requests)

    def waiting(self) -> str:
        """Say which shards are outstanding, not ready or down."""
        asked = sorted(set(self._requests.values()))
        parts = []
        if asked:
            method = self._method
            parts.append("waits for " + ", ".join(f"{self._names[shard]}.{method}" for shard in asked))
        if self._lost:
            parts.append(f"down: {', '.join(self._names[shard] for shard in dict.fromkeys(self._lost))}")
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
                "lost": [*self._lost, *self._given_up],
                "ended": sorted(self._ended),
                "greeted": [
                    name for name, greeted in zip(self._names, self._greeted, strict=True) if greeted is not None
                ],
                "functions": self._states_of_functions(),
            }
        )

    def _states_of_functions(self) -> dict[str, dict[str, State | None]]:
        states: dict[str, dict[str, State | None]] = {}
        for name, greeted in zip(self._names, self._greeted, strict=True):
            if self._functions and greeted == self._incarnation(name) and self.engine.is_up(name):
                try:
                    states[name] = {
                        function: self.engine.ask(name, Control.FUNCTION_STATE, function)
                        for function in self._functions
                    }
                except ActorDied:
                    if self.engine.recovery is None:
                        raise  # else its next request fails, too, and its successor begins anew
        return states

    def load_state_dict(self, state: State) -> None:
        """Take over the requests that were on their way; shards that had been greeted are new, so they are again."""
        super().load_state_dict(state)
        load_function_state(self._first, state)
        self._requests = dict(state["requests"])
        self._greetings = dict(state["greetings"])
        self._asleep = deque(tuple(entry) for entry in state["asleep"])
        self._lost = deque(state["lost"])
        self._ended = set(state["ended"])
        for key in (*self._requests, *self._greetings):
            self.engine.adopt(self, key)
        for shard, name in enumerate(self._names):
            if name in state["greeted"]:
                self._greeted[shard] = 0
        self.begin_anew(state)

    def begin_anew(self, state: State) -> None:
        """Greet the actors again that had been greeted when the state was taken, beside the flow, its order unchanged.

        So functions take back what they remembered, and the actors get their first message, in a flow that is restored
        as in the one that goes on.
        """
        for name in filter(self.engine.is_up, state["greeted"]):
            for method, message in self._greeting(name, state["functions"].get(name, {})):
                try:
                    self.engine.ask(name, method, message)
                except Exception:
                    if self.engine.recovery is None:
                        raise
                    break  # its next request fails, too, or it is as it was


class GatherSync(Gather):
    """A barrier: the requests of a round go out when the consumer comes back, so behind all its messages."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._round: dict[int, Any] | None = None
        self._born_at = 0.0  # of the oldest part of the round

    def poll(self) -> Answer:
        """Give the round once it is whole; begin one if none is under way."""
        if self._round is None:
            self._round = {}
            for shard in range(len(self._names)):
                if shard not in self._ended:
                    self._request(shard)
        if self._asleep or self._lost:
            self._ask_again()
        missing = self._missing()
        if missing is not None:
            return missing
        round_, self._round = self._round, None
        self._given_up.clear()
        if not round_:
            return Signal.END
        shards = sorted(round_)
        self.items += 1
        self.engine.moves += 1
        return Item(
            tuple([round_[shard] for shard in shards]), tuple([self._names[shard] for shard in shards]), self._born_at
        )

    def _keep(self, shard: int, value: Any, born_at: float) -> None:
        assert self._round is not None
        self._born_at = min(self._born_at, born_at) if self._round else born_at
        self._round[shard] = value

    def state_dict(self) -> State:
        """Add the part of the round that is there."""
        return super().state_dict() | {"round": None if self._round is None else list(self._round.items())}

    def load_state_dict(self, state: State) -> None:
        """Take the part of the round that was there."""
        super().load_state_dict(state)
        self._round = None if state["round"] is None else dict(state["round"])


class GatherAsync(Gather):
    """Items as they are ready; a shard is asked for its next one when the consumer comes back."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        node: Any = self.node
        self._free: deque[int] = deque(list(range(len(self._names))) * node.in_flight)
        self._ready: deque[tuple[int, Any, float]] = deque()

    def poll(self) -> Answer:
        """Fill the windows of the shards, then give an item that is ready."""
        while self._free:
            shard = self._free.popleft()
            if shard not in self._ended:
                self._request(shard)
        if self._asleep or self._lost:
            self._ask_again()
        if not self._ready:
            return self._missing() or Signal.END
        shard, value, born_at = self._ready.popleft()
        self._free.append(shard)
        self.items += 1
        self.engine.moves += 1
        return Item(value, (self._names[shard],), born_at)

    def _keep(self, shard: int, value: Any, born_at: float) -> None:
        self._ready.append((shard, value, born_at))

    def state_dict(self) -> State:
        """Add the items that are ready, and the windows that are free."""
        return super().state_dict() | {
            "free": list(self._free),
            "ready": [(shard, value) for shard, value, _ in self._ready],
        }

    def load_state_dict(self, state: State) -> None:
        """Take the items that were ready, too."""
        super().load_state_dict(state)
        self._free = deque(state["free"])
        self._ready = deque((shard, value, 0.0) for shard, value in state["ready"])
