"""run and Flow: a stream that runs, as an iterator that can be asked, looked at, saved and closed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from rheos.errors import FlowMistake, FlowStalled, FlowTimeout, RheosWarning
from rheos.executors.inline import InlineExecutor
from rheos.executors.protocol import NOTHING
from rheos.scheduler import gathers, merges, messages, values
from rheos.scheduler.engine import Engine
from rheos.scheduler.recovery import FailurePolicy
from rheos.scheduler.running import Item, RunningNode, Signal, State
from rheos.scheduler.statistics import FlowStatistics
from rheos.scheduler.trace import Trace
from rheos.streams import drawings, nodes
from rheos.streams.actors import Actor

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor
    from rheos.streams.stream import Stream

__all__ = ["Flow", "run"]

__tracebackhide__ = True

A = TypeVar("A")
M = TypeVar("M")
R = TypeVar("R")
T = TypeVar("T")

_RAISE = FailurePolicy()
_RUNNING: dict[type[nodes.Node], type[RunningNode]] = {
    nodes.FromItems: values.FromItems,
    nodes.Map: values.Map,
    nodes.FlatMap: values.FlatMap,
    nodes.Filter: values.Filter,
    nodes.Tap: values.Tap,
    nodes.Drain: values.Drain,
    nodes.GatherSync: gathers.GatherSync,
    nodes.GatherAsync: gathers.GatherAsync,
    nodes.Ask: messages.Ask,
    nodes.Tell: messages.Tell,
    nodes.Tee: merges.Tee,
    nodes.TeeBranch: merges.TeeBranch,
    nodes.Concurrently: merges.Concurrently,
    nodes.RoundRobin: merges.RoundRobin,
}


def run(
    stream: Stream[T],
    executor: Executor | None = None,
    *,
    failures: FailurePolicy = _RAISE,
    warn_after_s: float = 60.0,
    grace_s: float = 5.0,
    trace: Path | None = None,
) -> Flow[T]:
    """Start the actors that a stream mentions and return the running flow.

    Args:
        stream: what to run. It stays a value: it can be run again, also at the same time.
        executor: where the actors live; inline, in this thread, by default.
        failures: what becomes of it when a source fails; by default the error is raised.
        warn_after_s: seconds of one wait after which a `RheosWarning` says what is waited for.
        grace_s: seconds that the actors have to finish when the flow is closed, all together.
        trace: a file that gets what every actor did and when; see `rheos.scheduler.trace.Trace`.

    Raises:
        FlowMistake: if `stream.check()` finds something, or the executor is none; nothing has been started then.

    Example:
        >>> from rheos import from_items, run
        >>> with run(from_items([1, 2, 3]).map(lambda x: x * x)) as flow:
        ...     print(list(flow))
        [1, 4, 9]
    """
    if executor is not None and not hasattr(executor, "spawn"):
        raise FlowMistake(f"run(executor=...): got {executor!r}, expected an Executor such as ThreadsExecutor().")
    mistakes = stream.check()
    if mistakes:
        raise FlowMistake("\n".join(map(str, mistakes)))
    try:
        return Flow(
            stream.node,
            InlineExecutor() if executor is None else executor,
            failures=failures,
            warn_after_s=warn_after_s,
            grace_s=grace_s,
            trace=trace,
        )
    except BaseException as error:
        _hide_our_frames(error)
        raise


class Flow(Generic[T]):
    """A running flow: an iterator of its items, and a context manager that closes it."""

    def __init__(
        self,
        root: nodes.Node,
        executor: Executor,
        *,
        failures: FailurePolicy,
        warn_after_s: float,
        grace_s: float,
        trace: Path | None,
    ) -> None:
        order = nodes.stages(root)
        self._root_node = root
        self._warn_after_s = warn_after_s
        self._grace_s = grace_s
        self._failure: tuple[BaseException, TracebackType | None] | None = None
        self._is_ended = False
        self._is_closed = False
        self._trace = None if trace is None else Trace(trace, perf_counter())
        try:
            self._engine = Engine(order, executor, failures, warn_after_s, self._trace)
        except BaseException:
            if self._trace is not None:
                self._trace.close()
            raise
        running: dict[nodes.Node, RunningNode] = {}
        try:
            for number, node in enumerate(order, 1):
                if not isinstance(node, nodes.FromActors | nodes.ShardMap):
                    inputs = tuple(running[source] for source in node.inputs if source in running)
                    running[node] = _RUNNING[type(node)](node, number, inputs, self._engine)
        except BaseException:
            self.close()
            raise
        self._stages = tuple(running.values())
        self._root = running[root]
        self._started_s = perf_counter()

    # items

    def __iter__(self) -> Self:
        """Return the flow itself."""
        return self

    def next(self, timeout_s: float | None = None) -> T:
        """Return the next item.

        Args:
            timeout_s: seconds after which to give up; None waits as long as it takes.

        Raises:
            StopIteration: at the end of the flow, after `stop()` and after `close()`.
            FlowTimeout: when the time is over; the flow goes on with the next call.
            FlowStalled: when nothing is outstanding and nothing can move.
            Exception: what user code raised, with a note that says where; the same one on every later call.
        """
        if self._failure is not None:
            raise self._failure[0].with_traceback(self._failure[1])
        deadline = None if timeout_s is None else perf_counter() + timeout_s
        try:
            item = self._advance(deadline)
        except FlowTimeout as error:
            _hide_our_frames(error)
            raise
        except BaseException as error:
            _hide_our_frames(error)
            self._failure = (error, error.__traceback__)
            raise
        if item is None:
            raise StopIteration
        value: T = item.value
        return value

    __next__ = next

    def _advance(self, deadline: float | None) -> Item | None:
        """Poll the root until it gives an item; None at the end."""
        engine, root = self._engine, self._root
        quiet: _Quiet | None = None
        while not self._is_ended:
            moves = engine.moves
            engine.take_in()
            answer = root.poll()
            if isinstance(answer, Item):
                return answer
            if answer is Signal.END:
                self._is_ended = True
                break
            is_quiet = answer is not Signal.DRAINED and engine.moves == moves and not engine.has_news
            if is_quiet and not engine.is_waiting:
                raise FlowStalled(f"Nothing is outstanding and nothing can move.{self._waiting()}")
            left_s = None if deadline is None else deadline - perf_counter()
            if left_s is not None and left_s <= 0:
                raise FlowTimeout(f"No item in the time given.{self._waiting()}")
            if not is_quiet:
                quiet = None
            elif not self._has_ended():  # `stop` may have come just now, and its token been taken in
                quiet = quiet or _Quiet(self._warn_after_s)
                self._wait(quiet, left_s)
        return None

    def _wait(self, quiet: _Quiet, left_s: float | None) -> None:
        self._engine.wait(quiet.shorten(left_s))
        if quiet.is_too_long():
            text = f"Nothing has moved for {self._warn_after_s:g} s.{self._waiting()}"
            warnings.warn(text, RheosWarning, stacklevel=5)

    def _has_ended(self) -> bool:
        return self._is_ended  # a method: another thread may set it between two looks

    def _waiting(self) -> str:
        lines = [
            f"\n  {self._engine.describe(stage.node)}: {stage.waiting()}" for stage in self._stages if stage.waiting()
        ]
        return "".join(lines)

    def stop(self) -> None:
        """End the flow between two items: from any thread, and from a signal handler."""
        self._is_ended = True
        self._engine.completions.wake()

    def ask(
        self, actor: Actor[A], method: Callable[..., R], message: Any = NOTHING, *, timeout_s: float | None = None
    ) -> R:
        """Send one message beside the flow and wait for the reply; the flow's own order is not disturbed.

        Raises:
            FlowTimeout: if there is none after `timeout_s`; the message is still on its way then.
            Exception: what the actor raised.
        """
        try:
            reply: R = self._engine.ask(actor.name, method.__name__, message, timeout_s)
        except BaseException as error:
            _hide_our_frames(error)
            raise
        return reply

    def is_up(self, actor: Actor[Any]) -> bool:
        """Whether an actor of the flow can be asked: it neither waits for its restart nor is given up."""
        return self._engine.is_up(actor.name)

    def published(self, actor: Actor[Any]) -> Any:
        """Return the weights that an actor published last, without asking it; None before the first."""
        return self._engine.published(actor.name)

    # state

    def state_dict(self, timeout_s: float | None = None) -> State:
        """Return what the flow remembers, between two items; the flow goes on as if nothing had been.

        What is in flight finishes first, without being announced; the announcements are part of the state,
        so a restored flow takes them in one by one, as this one does. The state of the actors is theirs: `ask`
        them for it.

        Raises:
            FlowTimeout: if what is in flight has not finished after `timeout_s`; names it.
        """
        try:
            self._engine.settle(timeout_s)
        except FlowTimeout:
            raise
        except BaseException as error:  # news of a failure, which the flow cannot go on from
            _hide_our_frames(error)
            self._failure = (error, error.__traceback__)
            raise
        stages = {str(stage.number): stage.state_dict() for stage in self._stages}
        return {"engine": self._engine.state_dict(), "stages": stages}

    def load_state_dict(self, state: State) -> None:
        """Take what `state_dict` gave, before the first item is asked for."""
        self._engine.load_state_dict(state["engine"])
        for stage in self._stages:
            stage.load_state_dict(state["stages"][str(stage.number)])

    def begin_anew(self, state: State) -> None:
        """Treat the sources as a flow does that is given this state, which `state_dict` has just given.

        Functions at their actors take back what they remembered, and the actors get their first message again. A run
        that does so at its checkpoints is the same as one that is resumed from them.
        """
        for stage in self._stages:
            if isinstance(stage, gathers.Gather):
                stage.begin_anew(state["stages"][str(stage.number)])

    # looking at it

    def statistics(self) -> FlowStatistics:
        """Return what the flow measured since it began: its stages, its actors, and for how long it waited."""
        return FlowStatistics(
            wall_s=max(perf_counter() - self._started_s, 1e-9),
            waited_s=self._engine.completions.waited_s,
            stages=tuple(stage.statistics() for stage in self._stages),
            actors=self._engine.actors(),
        )

    def explain(self, stats: bool = False) -> str:
        """Return the flow as text, a line a stage; with `stats`, what passed through each, and the bottleneck."""
        if not stats:
            return drawings.explain(self._root_node)
        found = self.statistics()
        remarks = {
            stage.node: measured.describe(found.wall_s)
            for stage, measured in zip(self._stages, found.stages, strict=True)
        }
        shares = ", ".join(f"{role} {share:.0%}" for role, share in found.busy_since().items())
        return (
            f"{drawings.explain(self._root_node, remarks)}\n"
            f"{found.wall_s:.2f} s, of which busy: {shares}\n"
            f"bottleneck: {found.bottleneck}"
        )

    def to_mermaid(self) -> str:
        """Return the flow as a Mermaid flowchart."""
        return drawings.to_mermaid(self._root_node)

    # the end

    def close(self) -> None:
        """Issue nothing more and close the actors, the last one first, within `grace_s`. Idempotent."""
        self._is_ended = True
        if not self._is_closed:
            self._is_closed = True
            try:
                self._engine.close(self._grace_s)
            finally:
                if self._trace is not None:
                    self._trace.close()

    def __enter__(self) -> Self:
        """Return the flow itself."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        """Close the flow; what goes wrong then becomes a note of the error that is on its way, if there is one."""
        try:
            self.close()
        except Exception as another:
            if error is None:
                raise
            error.add_note(f"and while the flow was closed: {type(another).__name__}: {another}")

    def __del__(self) -> None:
        """Close a flow that was forgotten."""
        if hasattr(self, "_engine"):  # else its actors never started
            self.close()


class _Quiet:
    """A time in which nothing moves, while an item is waited for; says once that it is too long."""

    def __init__(self, limit_s: float) -> None:
        self._too_long_at: float | None = perf_counter() + limit_s  # None once that was said

    def shorten(self, timeout_s: float | None) -> float | None:
        """Return the time to wait, so that it ends when there is something to say."""
        if self._too_long_at is None:
            return timeout_s
        left_s = max(self._too_long_at - perf_counter(), 0.0)
        return left_s if timeout_s is None else min(timeout_s, left_s)

    def is_too_long(self) -> bool:
        """Whether it is time to say so; once."""
        if self._too_long_at is None or perf_counter() < self._too_long_at:
            return False
        self._too_long_at = None
        return True


def _hide_our_frames(error: BaseException) -> None:
    """Take the frames of modules that hide theirs out of the tracebacks of an error and its causes."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__traceback__ = _visible(link.__traceback__)
        link = link.__cause__ or link.__context__


def _visible(trace: TracebackType | None) -> TracebackType | None:
    frames = []
    while trace is not None:
        if not trace.tb_frame.f_globals.get("__tracebackhide__"):
            frames.append(trace)
        trace = trace.tb_next
    visible: TracebackType | None = None
    for frame in reversed(frames):
        visible = TracebackType(visible, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return visible
