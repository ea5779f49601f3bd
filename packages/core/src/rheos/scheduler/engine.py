"""Engine: what the stages of one running flow share: its actors, its messages, and the one place where it waits."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rheos.errors import ActorStuck, FlowError, FlowTimeout, RheosWarning
from rheos.executors.host import freeze
from rheos.executors.protocol import NOTHING, Call, Completions, Control, RunningActor, Shared
from rheos.reports import LearnerReport
from rheos.scheduler.recovery import FailurePolicy, Recovery
from rheos.scheduler.statistics import ActorStatistics
from rheos.streams import nodes
from rheos.streams.actors import Actor, ActorGroup, Placement, Published

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor
    from rheos.scheduler.running import RunningNode, State
    from rheos.scheduler.trace import Trace
    from rheos.streams.nodes import Node

__all__ = ["Engine"]

__tracebackhide__ = True


class Engine:
    """Starts the actors that a flow mentions, sends messages, and takes in what has finished.

    `moves` counts every item that went on anywhere in the flow. Nobody is asked again, and the run does not
    look again, before it has changed or something was announced.
    """

    def __init__(
        self,
        order: tuple[Node, ...],
        executor: Executor,
        failures: FailurePolicy,
        warn_after_s: float,
        trace: Trace | None = None,
    ) -> None:
        self.moves = 0
        self.completions = Completions()
        self._executor = executor
        self._warn_after_s = warn_after_s
        self._numbers = {node: number for number, node in enumerate(order, 1)}
        self._actors: dict[str, RunningActor] = {}
        self._outstanding: dict[int, Call] = {}
        self._unannounced: deque[Call] = deque()  # finished while nothing might be announced; one a pass
        self._published: dict[str, Shared[Any]] = {}
        self._asked: dict[str, Call] = {}  # actors that were asked what they have not published yet
        self._last_key = 0
        self._busy_s: dict[str, float] = {}  # by actor
        self._on_driver: set[str] = set()
        self._roles = {actor.name: group.role for node in order for group in _groups(node) for actor in group}
        self.trace = trace
        sources = [node.group for node in order if isinstance(node, nodes.FromActors)]
        self._remote = frozenset(actor.name for group in sources for actor in group)
        self._elsewhere = Placement.DRIVER if _is_synchronous(order) else Placement.THREAD
        self.recovery: Recovery | None = None
        """None where a failure ends the run."""
        if failures.max_restarts or failures.min_healthy is not None:
            self.recovery = Recovery(self, failures, [tuple(actor.name for actor in group) for group in sources])
        try:
            for node in order:
                for actor in node.actors():
                    self._start(actor)
            for name in self._actors:
                self._wait_until_started(name)
        except BaseException:
            self.close(0.0)
            raise

    def _start(self, actor: Actor[Any]) -> None:
        if actor.name not in self._actors:
            with _noting(f"while {actor.name} was started"):
                self._actors[actor.name] = self._executor.spawn(self._placed(actor), self.completions)
            self._busy_s[actor.name] = 0.0

    def _placed(self, actor: Actor[Any]) -> Actor[Any]:
        if actor.placement is not Placement.AUTO:
            return actor
        return replace(actor, placement=Placement.REMOTE if actor.name in self._remote else self._elsewhere)

    def _wait_until_started(self, name: str) -> None:
        with _noting(f"while {name} was started"):
            if not self._actors[name].wait_until_started(self._warn_after_s):
                text = f"{name} has been starting for {self._warn_after_s:g} s: its factory has not returned."
                warnings.warn(text, RheosWarning, stacklevel=6)
                self._actors[name].wait_until_started()

    # who is who

    def number_of(self, node: Node) -> int:
        """Return the number of a stage, from 1."""
        return self._numbers[node]

    def describe(self, node: Node) -> str:
        """Return how a note names a stage: `stage 5: ask(Learner.update) [flow.py:27]`."""
        return f"stage {self._numbers[node]}: {node.label} [{node.origin}]"

    def actors(self) -> dict[str, ActorStatistics]:
        """Return what each actor did, by its name."""
        restarts = {} if self.recovery is None else self.recovery.restarts
        return {
            name: ActorStatistics(self._roles.get(name, name), busy_s, restarts.get(name, 0), name in self._on_driver)
            for name, busy_s in self._busy_s.items()
        }

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
        if message is not NOTHING:
            message = self._newest(message) if isinstance(message, Published) else freeze(message)
        running = self._actors.get(actor)
        if running is None:
            known = ", ".join(self._actors) or "none, for the flow is closed or needs none"
            raise FlowError(f"{actor!r} is no actor of this flow. Its actors: {known}.")
        return self._follow(running.call(method, message, through), owner)

    def restart(self, owner: Recovery, actor: str, times: int) -> None:
        """Have an actor made anew, for the `times`-th time; `owner.finished(call)` hears of it."""
        self._follow(self._actors[actor].restart(times), owner)

    def _follow(self, call: Call, owner: RunningNode | Recovery | None) -> Call:
        self._last_key += 1
        call.key, call.owner = self._last_key, owner
        if self.recovery is not None:
            call.incarnation = self.recovery.restarts[call.actor]
        self._outstanding[call.key] = call
        return call

    def _newest(self, wanted: Published[Any]) -> Shared[Any] | Call:
        name = wanted.actor.name
        if name in self._published:
            return self._published[name]
        if name not in self._asked:
            self._start(wanted.actor)
            self._wait_until_started(name)
            self._asked[name] = self.send(None, name, wanted.method.__name__)
        return self._asked[name]

    def published(self, actor: str) -> Any:
        """Return what an actor published last; None before the first."""
        shared = self._published.get(actor)
        return None if shared is None else shared.get()

    def ask(self, actor: str, method: str | Control, message: Any = NOTHING, timeout_s: float | None = None) -> Any:
        """Send a message beside the flow and wait for the reply; what else finishes is announced later, in order."""
        call = self.send(None, actor, method, message)
        self._settle(lambda: call in self._unannounced, timeout_s)
        self._unannounced.remove(call)
        self._take_down(call)
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

    def is_up(self, actor: str) -> bool:
        """Whether messages can be sent to an actor."""
        return self.recovery is None or self.recovery.is_up(actor)

    @property
    def is_waiting(self) -> bool:
        """Whether something will come without anybody's doing: a reply, or the restart of an actor."""
        return bool(self._outstanding) or (self.recovery is not None and self.recovery.is_under_way)

    def take_in(self) -> None:
        """Run at most one call on the driver, and hand every call that has finished to its owner."""
        if self._unannounced:
            self._announce(self._unannounced.popleft())
            return
        if self.recovery is not None and self.recovery.is_under_way:
            self.recovery.send_due()
        completions = self.completions
        if completions.on_driver and completions.has_driver_work:
            self._announce(self._run_one())
        if not completions.announced.empty():
            while (call := completions.take()) is not None:
                self._announce(call)

    def wait(self, timeout_s: float | None) -> None:
        """Block until something is announced, a restart is due, or the time is over."""
        if self.recovery is not None and self.recovery.is_under_way:
            due_in_s = self.recovery.due_in_s()
            timeout_s = due_in_s if timeout_s is None else min(timeout_s, due_in_s)
        began_at = perf_counter()
        call = self.completions.wait(timeout_s)
        if self.trace is not None:
            self.trace.add_wait(began_at, perf_counter())
        if call is not None:
            self._announce(call)

    def _run_one(self) -> Call:
        call = self.completions.run_one_on_driver()
        owner = call.owner
        self._on_driver.add(call.actor)
        if owner is not None:
            owner.busy_s += call.ended_at - call.began_at
        return call

    def _announce(self, call: Call) -> None:
        owner = call.owner
        self._take_down(call)
        if isinstance(call.value, LearnerReport) and isinstance(call.value.weights, Shared):
            self._published[call.actor] = call.value.weights
            self._asked.pop(call.actor, None)
        if owner is not None:
            owner.finished(call)

    def _take_down(self, call: Call) -> None:
        del self._outstanding[call.key]
        self._busy_s[call.actor] += call.ended_at - call.began_at
        if self.trace is not None:
            self.trace.add_call(call)

    # cutting and going on

    def settle(self, timeout_s: float | None = None) -> None:
        """Let everything that is in flight finish without announcing it; the run goes on as if nothing had been.

        Only failures are announced: they are no news that could be saved. One that the flow does not recover from is
        raised.

        Raises:
            FlowTimeout: if that takes longer than `timeout_s`; names what has not finished.
        """
        self._settle(lambda: False, timeout_s)
        for call in list(self._unannounced):
            if call.error is not None or (self.recovery is not None and self.recovery.is_too_late(call)):
                self._unannounced.remove(call)
                self._announce(call)

    def _settle(self, is_enough: Callable[[], bool], timeout_s: float | None) -> None:
        give_up_at = None if timeout_s is None else perf_counter() + timeout_s
        while not is_enough():
            call = self._run_one() if self.completions.has_driver_work else self.completions.take()
            if call is None:
                if len(self._unannounced) == len(self._outstanding):
                    return
                left_s = None if give_up_at is None else give_up_at - perf_counter()
                if left_s is not None and left_s <= 0:
                    waiting = ", ".join(repr(call) for call in self._outstanding.values() if not call.finished)
                    raise FlowTimeout(f"Not finished in {timeout_s:g} s: {waiting}.")
                call = self.completions.wait(left_s)
            if call is not None:
                self._unannounced.append(call)

    def state_dict(self) -> State:
        """Return what finished but is not announced, in its order, and what was published; settle first."""
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

    def close(self, grace_s: float) -> None:
        """Close the actors, the last one first, within `grace_s` together; the first error is raised at the end."""
        self.completions.abandon(FlowError("The flow is closed."))
        give_up_at = perf_counter() + grace_s
        stuck: list[str] = []
        errors: list[BaseException] = []
        while self._actors:
            _, actor = self._actors.popitem()
            try:
                actor.close(max(give_up_at - perf_counter(), 0.0))
            except ActorStuck as error:
                stuck.append(str(error))
            except BaseException as error:
                error.add_note(f"while {actor.name} was closed")
                errors.append(error)
                if not isinstance(error, Exception):  # Ctrl-C: the others have no more time
                    give_up_at = 0.0
        for text in stuck:  # at the end, for a filter may make errors of warnings
            warnings.warn(text, RheosWarning, stacklevel=2)
        if errors:
            raise next((error for error in errors if not isinstance(error, Exception)), errors[0])


def _groups(node: Node) -> tuple[ActorGroup[Any], ...]:
    return (node.group,) if isinstance(node, nodes.FromActors | nodes.Ask | nodes.Tell) else ()


def _is_synchronous(order: tuple[Node, ...]) -> bool:
    """Whether a flow does one thing after the other: nothing in it runs ahead or beside."""
    return not any(
        isinstance(node, nodes.GatherAsync | nodes.Concurrently | nodes.RoundRobin | nodes.Tee)
        or (isinstance(node, nodes.Ask) and node.in_flight * len(node.group) > 1)
        for node in order
    )


@contextmanager
def _noting(note: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise
