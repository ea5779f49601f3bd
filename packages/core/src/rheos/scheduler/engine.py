"""Engine: what the stages of one running flow share: its actors, its messages, and the one place where it waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rheos.errors import FlowError
from rheos.executors.host import freeze
from rheos.executors.protocol import NOTHING, Call, Completions, Control, RunningActor, Shared
from rheos.reports import LearnerReport
from rheos.streams.actors import Actor, Published

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor
    from rheos.scheduler.running import RunningNode, State
    from rheos.streams.nodes import Node

__all__ = ["Engine"]

__tracebackhide__ = True


class Engine:
    """Starts the actors that a flow mentions, sends messages, and takes in what has finished.

    `moves` counts every item that went on anywhere in the flow. Nobody is asked again, and the run does not
    look again, before it has changed or something was announced.
    """

    def __init__(self, order: tuple[Node, ...], executor: Executor) -> None:
        self.moves = 0
        self.completions = Completions()
        self._executor = executor
        self._numbers = {node: number for number, node in enumerate(order, 1)}
        self._actors: dict[str, RunningActor] = {}
        self._outstanding: dict[int, Call] = {}
        self._unannounced: deque[Call] = deque()  # finished while nothing might be announced; one a pass
        self._published: dict[str, Shared[Any]] = {}
        self._asked: dict[str, Call] = {}  # actors that were asked what they have not published yet
        self._last_key = 0
        try:
            for node in order:
                for actor in node.actors():
                    self._start(actor)
        except BaseException:
            self.close()
            raise

    def _start(self, actor: Actor[Any]) -> None:
        if actor.name not in self._actors:
            try:
                self._actors[actor.name] = self._executor.spawn(actor, self.completions)
            except Exception as error:
                error.add_note(f"while {actor.name} was started")
                raise

    # who is who

    def number_of(self, node: Node) -> int:
        """Return the number of a stage, from 1."""
        return self._numbers[node]

    def describe(self, node: Node) -> str:
        """Return how a note names a stage: `stage 5: ask(Learner.update) [flow.py:27]`."""
        return f"stage {self._numbers[node]}: {node.label} [{node.origin}]"

    # messages

    def send(
        self,
        owner: RunningNode | None,
        actor: str,
        method: str | Control,
        message: Any = NOTHING,
        through: tuple[str, ...] = (),
    ) -> Call:
        """Send a message; `owner.finished(call)` takes it in once it is announced."""
        if isinstance(message, Published):
            message = self._newest(message)
        running = self._actors.get(actor)
        if running is None:
            known = ", ".join(self._actors) or "none, for the flow is closed or needs none"
            raise FlowError(f"{actor!r} is no actor of this flow. Its actors: {known}.")
        call = running.call(method, freeze(message), through)
        self._last_key += 1
        call.key, call.owner = self._last_key, owner
        self._outstanding[call.key] = call
        return call

    def _newest(self, wanted: Published[Any]) -> Shared[Any] | Call:
        name = wanted.actor.name
        if name in self._published:
            return self._published[name]
        if name not in self._asked:
            self._start(wanted.actor)
            self._asked[name] = self.send(None, name, wanted.method.__name__)
        return self._asked[name]

    def ask(self, actor: str, method: str | Control, message: Any = NOTHING) -> Any:
        """Send a message beside the flow and wait for the reply; what else finishes is announced later, in order."""
        call = self.send(None, actor, method, message)
        self._settle(lambda: call in self._unannounced)
        self._unannounced.remove(call)
        del self._outstanding[call.key]
        if call.error is not None:
            call.error.add_note(f"in a message beside the flow: {call!r}")
            raise call.error
        return call.value

    @property
    def outstanding(self) -> int:
        """How many calls have not been taken in."""
        return len(self._outstanding)

    @property
    def has_news(self) -> bool:
        """Whether a look at what has finished would find something, or a call on the driver can run."""
        return bool(self._unannounced) or self.completions.has_driver_work

    def take_in(self) -> None:
        """Run at most one call on the driver, and hand every call that has finished to its owner."""
        if self._unannounced:
            self._announce(self._unannounced.popleft())
            return
        completions = self.completions
        if completions.has_driver_work:
            self._announce(self._run_one())
        while (call := completions.take()) is not None:
            self._announce(call)

    def wait(self, timeout_s: float | None) -> None:
        """Block until something is announced, or the time is over."""
        call = self.completions.wait(timeout_s)
        if call is not None:
            self._announce(call)

    def _run_one(self) -> Call:
        started = perf_counter()
        call = self.completions.run_one_on_driver()
        if call.owner is not None:
            call.owner.busy_s += perf_counter() - started
        return call

    def _announce(self, call: Call) -> None:
        del self._outstanding[call.key]
        if isinstance(call.value, LearnerReport) and isinstance(call.value.weights, Shared):
            self._published[call.actor] = call.value.weights
            self._asked.pop(call.actor, None)
        if call.owner is not None:
            call.owner.finished(call)

    # cutting and going on

    def settle(self) -> None:
        """Let everything that is in flight finish without announcing it; the run goes on as if nothing had been."""
        self._settle(lambda: False)

    def _settle(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            call = self._run_one() if self.completions.has_driver_work else self.completions.take()
            if call is None:
                if len(self._unannounced) == len(self._outstanding):
                    return
                call = self.completions.wait(None)
            if call is not None:
                self._unannounced.append(call)

    def state_dict(self) -> State:
        """Return what finished but is not announced, in its order, and what was published; settle first."""
        for call in self._unannounced:
            if call.error is not None:
                raise call.error
        return {
            "moves": self.moves,
            "last_key": self._last_key,
            "announcements": [(call.key, call.actor, call.value) for call in self._unannounced],
            "published": {name: shared.get() for name, shared in self._published.items()},
            "asked": {name: call.value for name, call in self._asked.items()},
        }

    def load_state_dict(self, state: State) -> None:
        """Take what `state_dict` gave; the stages then `adopt` the calls that are theirs."""
        self.moves = state["moves"]
        self._last_key = state["last_key"]
        self._published = {name: self._executor.put(value) for name, value in state["published"].items()}
        self._asked = {name: self._restored(name, value) for name, value in state["asked"].items()}
        for key, actor, value in state["announcements"]:
            call = self._outstanding[key] = self._restored(actor, value)
            call.key = key
            self._unannounced.append(call)

    def adopt(self, owner: RunningNode, key: int) -> None:
        """Give a call of a run that was cut back to the stage that sent it."""
        self._outstanding[key].owner = owner

    def _restored(self, actor: str, value: Any) -> Call:
        call = Call(actor, "restored", NOTHING, ())
        call.finish(value, None)
        return call

    # the end

    def close(self) -> None:
        """Close the actors, the last one first; every one is closed, the first error is raised."""
        errors: list[Exception] = []
        while self._actors:
            _, actor = self._actors.popitem()
            try:
                actor.close()
            except Exception as error:
                error.add_note(f"while {actor.name} was closed")
                errors.append(error)
        if errors:
            raise errors[0]
