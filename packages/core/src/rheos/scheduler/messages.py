"""Running stages that send messages to actors: ask, whose reply goes on, and tell, whose item goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rheos.errors import ActorDied, FlowError, ItemLost
from rheos.executors.protocol import Call
from rheos.reports import LearnerReport
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
from rheos.scheduler.statistics import Mean, StageStatistics
from rheos.streams import nodes
from rheos.streams.actors import Route

if TYPE_CHECKING:
    from rheos.scheduler.engine import Engine

__all__ = ["Ask", "Tell"]

__tracebackhide__ = True


class _Message(RunningNode):
    """Keeps a window for each actor, and chooses to whom an item goes."""

    def __init__(self, node: Any, number: int, inputs: tuple[RunningNode, ...], engine: Engine) -> None:
        super().__init__(node, number, inputs, engine)
        stage: nodes.Ask | nodes.Tell = node
        self._method = stage.method.__name__
        self._route = stage.route
        self._in_flight = stage.in_flight
        self._names = tuple(actor.name for actor in stage.group)
        self._index = {name: index for index, name in enumerate(self._names)}
        self._used = [0] * len(self._names)
        self._turn = 0
        self.source = inputs[0]
        self._age_s = Mean()

    def _note_age(self, item: Item) -> None:
        if item.born_at:
            self._age_s.add(perf_counter() - item.born_at)

    def _has_room(self, actor: int) -> bool:
        return self._used[actor] < self._in_flight and self.engine.is_up(self._names[actor])

    def _next_in_turn(self) -> int | None:
        """Return the next actor in turn that has room, or None."""
        count = len(self._names)
        for step in range(count):
            actor = (self._turn + step) % count
            if self._has_room(actor):
                self._turn = (actor + 1) % count
                return actor
        return None

    @property
    def _is_given_up(self) -> bool:
        """Whether no actor of the group will ever take a message again."""
        recovery = self.engine.recovery
        return recovery is not None and all(map(recovery.is_given_up, self._names))

    def _sources(self, item: Item, number: int) -> list[int]:
        found = [self._index[name] for name in item.sources if name in self._index]
        if not found:
            sources = ", ".join(item.sources) or "no actor"
            self.fail(
                FlowError(
                    f"{self.node.label}: the item came from {sources}, but route=Route.SOURCE needs one of"
                    f" {self._names[0]} ... {self._names[-1]}."
                ),
                number,
                item.sources,
            )
        return found

    def _waits_for(self, actors: Iterable[int]) -> str:
        names = dict.fromkeys(f"{self._names[actor]}.{self._method}" for actor in actors)
        return f"waits for {', '.join(names)}" if names else ""

    def state_dict(self) -> State:
        """Add the windows and whose turn it is."""
        return super().state_dict() | {"used": list(self._used), "turn": self._turn}

    def load_state_dict(self, state: State) -> None:
        """Take the windows, too."""
        super().load_state_dict(state)
        self._used = list(state["used"])
        self._turn = state["turn"]


@dataclass
class _Slot:
    """An item whose reply has not gone on yet."""

    key: int
    actor: int
    item: Item
    number: int
    is_done: bool = False


class Ask(_Message):
    """The asynchronous stage: takes items while an actor has room, gives their replies."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        node: Any = self.node
        self._is_ordered: bool = node.ordered
        self._slots: dict[int, _Slot] = {}  # by key, in the order of the items
        self._done: deque[int] = deque()  # keys, in the order of the replies
        self._held: Item | None = None  # taken, but its actor has no room
        self._lag = Mean()
        self.taken = 0
        self.lost = 0
        """Items whose columns were gone with their machine before they could be sent on."""

    def poll(self) -> Answer:
        """Give a reply if one is due, else take items while there is room."""
        if self._done and (not self._is_ordered or next(iter(self._slots.values())).is_done):
            return self._give()
        while True:
            if self._held is None:
                if not any(map(self._has_room, range(len(self._names)))):
                    self._refuse_if_given_up(self.taken + 1, ())
                    return Signal.PENDING  # and the input is not asked, so a barrier above holds
                answer = self.source.poll()
                if not isinstance(answer, Item):
                    return Signal.PENDING if self._slots and answer is not Signal.DRAINED else answer
                self._held = answer
                self.taken += 1
            if not self._send_held():
                return Signal.PENDING

    def _refuse_if_given_up(self, number: int, sources: tuple[str, ...]) -> None:
        if self._is_given_up:
            names = ", ".join(self._names)
            self.fail(ActorDied(f"{names}: given up, so nobody can be asked."), number, sources)

    def _give(self) -> Item:
        key = next(iter(self._slots)) if self._is_ordered else self._done[0]
        self._done.remove(key)
        slot = self._slots.pop(key)
        self._used[slot.actor] -= 1
        self.items += 1
        self.engine.moves += 1
        return slot.item

    def _send_held(self) -> bool:
        item = self._held
        assert item is not None
        if self._route is Route.ANY:
            actor = self._next_in_turn()
            if actor is None:
                self._refuse_if_given_up(self.taken, item.sources)
        else:
            sources = self._sources(item, self.taken)
            if len(sources) > 1:
                self.fail(
                    FlowError(f"{self.node.label}: route=Route.SOURCE needs an item of one source."),
                    self.taken,
                    item.sources,
                )
            actor = sources[0] if self._has_room(sources[0]) else None
            name = self._names[sources[0]]
            if self.engine.recovery is not None and self.engine.recovery.is_given_up(name):
                self.fail(ActorDied(f"{name} is given up: nobody can be asked."), self.taken, item.sources)
        if actor is None:
            return False
        self._held = None
        self._used[actor] += 1
        self._note_age(item)
        call = self.engine.send(self, self._names[actor], self._method, item.value)
        item.value = None  # the reply takes its place; the item is not kept twice
        self._slots[call.key] = _Slot(call.key, actor, item, self.taken)
        return True

    def finished(self, call: Call) -> None:
        """Take in a reply."""
        slot = self._slots[call.key]
        if isinstance(call.error, ItemLost) and self.engine.recovery is not None:
            self._drop(slot)
            return
        if call.error is not None:
            self.fail(call.error, slot.number, slot.item.sources)
        learned = slot.item.value = call.value
        if isinstance(learned, LearnerReport) and learned.updates:
            self._lag.add(learned.version - learned.updates - learned.info.version_mean)
        slot.item.born_at = call.ended_at
        slot.is_done = True
        self._done.append(call.key)
        self.engine.moves += 1

    def _drop(self, slot: _Slot) -> None:
        """Go on without an item, as if its source had not given it."""
        del self._slots[slot.key]
        self._used[slot.actor] -= 1
        self.lost += 1
        self.engine.moves += 1

    @property
    def outstanding(self) -> int:
        """How many items have no reply yet."""
        return len(self._slots) - len(self._done)

    def statistics(self) -> StageStatistics:
        """Add how old items were when they were sent, and how far behind the weights that made them."""
        lag = None if self._lag.value is None else (self._lag.value, self._lag.most)
        return replace(super().statistics(), lost=self.lost, age_s=self._age_s.value, lag=lag)

    def waiting(self) -> str:
        """Say which actors have not replied."""
        return self._waits_for(slot.actor for slot in self._slots.values() if not slot.is_done)

    def state_dict(self) -> State:
        """Add the items that are with the actors, and the one that waits for room."""
        return super().state_dict() | {
            "taken": self.taken,
            "slots": [
                (slot.key, slot.actor, slot.item.value, slot.item.sources, slot.number, slot.is_done)
                for slot in self._slots.values()
            ],
            "done": list(self._done),
            "held": None if self._held is None else (self._held.value, self._held.sources),
        }

    def load_state_dict(self, state: State) -> None:
        """Take over the items that were with the actors."""
        super().load_state_dict(state)
        self.taken = state["taken"]
        self._done = deque(state["done"])
        self._held = None if state["held"] is None else Item(state["held"][0], tuple(state["held"][1]))
        for key, actor, value, sources, number, is_done in state["slots"]:
            self._slots[key] = _Slot(key, actor, Item(value, tuple(sources)), number, is_done)
            if not is_done:
                self.engine.adopt(self, key)


class Tell(_Message):
    """Sends a message for each item, which goes on at once; every message is acknowledged, and bounded."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        node: Any = self.node
        self._message = None if node.message is None else own_copy(node.message)
        self._held: tuple[Item, Any, list[int]] | None = None  # an item, its message, who still has to get it
        self._sent: dict[int, tuple[int, int, tuple[str, ...]]] = {}  # key -> actor, number and sources of the item
        self.taken = 0
        self.lost = 0
        """Messages that an actor did not get, or did not answer, because it failed and was made anew."""

    def poll(self) -> Answer:
        """Give the next item once its messages are sent; the end comes when all are acknowledged."""
        if self._held is None:
            answer = self.source.poll()
            if not isinstance(answer, Item):
                return Signal.PENDING if answer is Signal.END and self._sent else answer
            self._take(answer)
        assert self._held is not None
        item, message, targets = self._held
        if not self._deliver(item, message, targets):
            return Signal.PENDING
        self._held = None
        self.items += 1
        self.engine.moves += 1
        self._note_age(item)
        return item

    def _take(self, item: Item) -> None:
        self.taken += 1
        message = item.value
        if self._message is not None:
            try:
                message = self._message(item.value)
            except BaseException as error:
                self.fail(error, self.taken, item.sources)
        if message is None:
            targets = []
        elif self._route is Route.ALL:
            targets = list(range(len(self._names)))
        elif self._route is Route.SOURCE:
            targets = self._sources(item, self.taken)
        else:
            targets = [-1]  # whoever is next in turn when there is room
        self._held = (item, message, targets)

    def _deliver(self, item: Item, message: Any, targets: list[int]) -> bool:
        """Send the message to those targets that have room, and take them off the list; True when none is left."""
        for target in list(targets):
            if target >= 0 and not self.engine.is_up(self._names[target]):
                targets.remove(target)
                self.lost += 1
                continue
            actor = self._next_in_turn() if target < 0 else target
            if actor is None and self._is_given_up:
                targets.remove(target)
                self.lost += 1
                continue
            if actor is None or not self._has_room(actor):
                continue
            targets.remove(target)
            self._used[actor] += 1
            call = self.engine.send(self, self._names[actor], self._method, message)
            self._sent[call.key] = (actor, self.taken, item.sources)
        return not targets

    def finished(self, call: Call) -> None:
        """Take in an acknowledgement."""
        actor, number, sources = self._sent.pop(call.key)
        self._used[actor] -= 1
        self.engine.moves += 1
        if call.error is not None:
            recovery = self.engine.recovery
            is_taken = recovery is not None and (isinstance(call.error, ItemLost) or recovery.takes(call))
            if not is_taken:
                self.fail(call.error, number, sources)
            self.lost += 1

    @property
    def outstanding(self) -> int:
        """How many messages are not acknowledged."""
        return len(self._sent)

    def statistics(self) -> StageStatistics:
        """Add how old items were when their messages were sent, and how many messages were lost."""
        return replace(super().statistics(), lost=self.lost, age_s=self._age_s.value)

    def waiting(self) -> str:
        """Say which actors have not acknowledged, or have to have room for the message that is held."""
        waited_for = [actor for actor, _, _ in self._sent.values()]
        if self._held is not None:
            targets = self._held[2]
            waited_for += range(len(self._names)) if targets == [-1] else targets
        return self._waits_for(waited_for)

    def state_dict(self) -> State:
        """Add the messages that are on their way, the item that waits for room, and the message's own state."""
        held = None
        if self._held is not None:
            item, message, targets = self._held
            held = (item.value, item.sources, message, list(targets))
        own = {"taken": self.taken, "held": held, "sent": list(self._sent.items())}
        return super().state_dict() | function_state(self._message) | own

    def load_state_dict(self, state: State) -> None:
        """Take over the messages that were on their way."""
        super().load_state_dict(state)
        load_function_state(self._message, state)
        self.taken = state["taken"]
        if state["held"] is not None:
            value, sources, message, targets = state["held"]
            self._held = (Item(value, tuple(sources)), message, list(targets))
        self._sent = {key: (actor, number, tuple(sources)) for key, (actor, number, sources) in state["sent"]}
        for key in self._sent:
            self.engine.adopt(self, key)
