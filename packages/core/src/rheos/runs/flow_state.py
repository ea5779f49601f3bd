"""FlowState: what a running flow and its actors remember, taken between two items and given back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rheos.errors import FlowTimeout, RheosWarning, RunFolderError, TreeError
from rheos.executors.protocol import NOTHING
from rheos.runs.checkpoint_states import EncodedState
from rheos.runs.segments import Columns, SegmentFiles, SegmentWriter
from rheos.streams import nodes
from rheos.trees import encode

if TYPE_CHECKING:
    from rheos.scheduler.flow import Flow
    from rheos.streams.actors import Actor
    from rheos.streams.stream import Stream

__all__ = ["ONLY_WEIGHTS", "FlowState", "NoState", "refuse_other_flow"]

ONLY_WEIGHTS = "only the weights are saved, the run cannot be resumed from there"
"""How a warning begins that says why a checkpoint has no state."""

State = dict[str, Any]


class _Stateful(Protocol):
    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any, /) -> None: ...


class _InEpisodes(Protocol):
    def begin_anew(self) -> None: ...


class _InSegments(Protocol):
    def segments(self) -> Sequence[str]: ...
    def segment(self, name: str, /) -> Columns: ...
    def load_segment(self, segment: tuple[str, Columns], /) -> None: ...


class NoState(Exception):
    """An actor has no `state_dict`, so the run cannot be resumed; the message says which one."""


class _Lacks(Exception):
    """An actor does not have the method that it was asked for."""


class _LeftOut(Exception):
    """A source failed without which the flow goes on."""


class FlowState:
    """Takes and gives back the state of a flow and of every actor in it.

    An actor is part of it with its `state_dict()` and `load_state_dict(state)`. A source that is in the middle of
    episodes has `begin_anew()`, which makes it do what `load_state_dict` makes it do: begin new ones. An actor whose
    state is large has parts of it in *segments*, which do not change: `segments()` names them, `segment(name)` gives
    one as arrays by name, and `load_segment((name, arrays))` is given one after another, behind `load_state_dict`.

    Args:
        flow: running; between two items whenever a method is called.
        stream: what it runs.
        learner: the actor whose weights are saved; part of the state also where the flow only reads its weights.
        restarts_sources: whether the flow goes on without a source that fails; then one that does so here, or is down,
            is left out.
        segments: writes those of the actors; without one they are no part of the state.
    """

    def __init__(
        self,
        flow: Flow[Any],
        stream: Stream[Any],
        learner: Actor[Any],
        *,
        restarts_sources: bool = False,
        segments: SegmentWriter | None = None,
    ) -> None:
        self._flow = flow
        self._restarts_sources = restarts_sources
        self._segments = segments
        self._order = nodes.stages(stream.node)
        mentioned = [actor for node in self._order for actor in node.actors()]
        self._actors = {actor.name: actor for actor in (*mentioned, learner)}
        sources = [node for node in self._order if isinstance(node, nodes.FromActors)]
        self._sources = {actor.name: actor for node in sources for actor in node.group}

    def take(self, timeout_s: float | None = None) -> State:
        """Return the state; the flow goes on as if nothing had been.

        Raises:
            NoState: if an actor has none, or if it does not come to rest in the time given, which is warned of.
            TreeError: if no file can hold a segment; names the actor.
            RheosError: if a segment cannot be written.
        """
        return self._take(timeout_s, self._segments)

    def _take(self, timeout_s: float | None, segments: SegmentWriter | None) -> State:
        try:
            flow = self._flow.state_dict(timeout_s)  # first: everything in flight finishes, so the actors are idle
        except FlowTimeout as error:
            warnings.warn(f"{ONLY_WEIGHTS}: {error}", RheosWarning, stacklevel=2)
            raise NoState(str(error)) from error
        if segments is not None:
            segments.begin()
        labels = [node.label for node in self._order]
        actors = {name: self._state_of(actor, segments) for name, actor in self._actors.items()}
        files = None if segments is None else segments.files()
        return {"labels": labels, "flow": flow, "actors": actors, "segments": files}

    def load(self, state: Mapping[str, Any]) -> None:
        """Give back what `take` gave, before the first item; segments one at a time."""
        self._flow.load_state_dict(state["flow"])
        for name, own in state["actors"].items():
            if own is not None:
                self._flow.ask(self._actors[name], _Stateful.load_state_dict, own)
        if state.get("segments") is not None:
            self._load_segments(state["segments"])

    def begin_anew(self, state: Mapping[str, Any]) -> bool:
        """Make the sources begin new episodes, and all else that those of a flow do that is given this state.

        Returns:
            Whether any of them was in the middle of episodes, and so cut them.
        """
        self._flow.begin_anew(state["flow"])
        has_cut = False
        for actor in filter(self._flow.is_up, self._sources.values()):
            try:
                self._ask(actor, _InEpisodes.begin_anew)
            except _Lacks:
                continue
            except Exception:
                if not self._restarts_sources:
                    raise
                continue  # its next request fails, too, or it is as it was
            has_cut = True
        return has_cut

    def encode(self, state: State, run: Any) -> EncodedState:
        """Return a state as it is written into a checkpoint, with what the run itself remembers.

        Raises:
            TreeError: if something in it cannot be written; names the stage or the actor whose it is.
        """
        tree = {key: part for key, part in state.items() if key != "segments"}
        try:
            return EncodedState(*encode({"run": run, **tree}), state.get("segments"))
        except TreeError:
            for owner, part in self._parts(state):
                encode(part, owner)
            raise

    def refuse_what_cannot_be_saved(self) -> None:
        """Take and encode the state of a flow that has not begun, so that a mistake is known before there is a loss.

        What stages will hold when they are in the middle of something is not known yet.

        Raises:
            TreeError: if something in it cannot be written; names the stage or the actor whose it is.
        """
        for number, node in enumerate(self._order, 1):
            state_of = getattr(node.function, "state_dict", None) if isinstance(node, nodes.ShardMap) else None
            if state_of is not None:
                encode(state_of(), f"{_named(number, node)} cannot be saved: state_dict()")
        try:
            self.encode(self._take(None, None), None)
        except NoState as error:
            text = f"the run cannot be resumed: {error}, so that its checkpoints hold weights only."
            warnings.warn(text, RheosWarning, stacklevel=2)

    def _state_of(self, actor: Actor[Any], segments: SegmentWriter | None) -> Any:
        """Return the state of an actor; None of a source that is down or fails, which the next run starts anew."""
        if self._may_be_left_out(actor) and not self._flow.is_up(actor):
            return None
        try:
            state = self._ask_or_leave_out(actor, _Stateful.state_dict)
            if segments is not None:
                self._keep_segments(actor, segments)
        except _Lacks as error:
            raise NoState(f"{actor.name} has no state_dict()") from error
        except _LeftOut:
            if segments is not None:
                segments.leave_out(actor.name)
            return None
        return state

    def _keep_segments(self, actor: Actor[Any], segments: SegmentWriter) -> None:
        try:
            names = self._ask_or_leave_out(actor, _InSegments.segments)
        except _Lacks:
            return
        segments.keep(
            actor.name,
            self._life_of(actor.name),
            names,
            lambda name: self._ask_or_leave_out(actor, _InSegments.segment, name),
        )

    def _load_segments(self, files: SegmentFiles) -> None:
        for name, checksums in files.checksums.items():
            for segment in checksums:
                self._flow.ask(self._actors[name], _InSegments.load_segment, (segment, files.read(name, segment)))
            if self._segments is not None:
                self._segments.know(name, self._life_of(name), checksums)

    def _life_of(self, name: str) -> int:
        """Return how often an actor was made anew."""
        return self._flow.statistics().actors[name].restarts

    def _may_be_left_out(self, actor: Actor[Any]) -> bool:
        return self._restarts_sources and actor.name in self._sources

    def _ask_or_leave_out(self, actor: Actor[Any], method: Callable[..., Any], message: Any = NOTHING) -> Any:
        """Ask an actor for a part of its state.

        Raises:
            _Lacks: if it has no such method.
            _LeftOut: if it fails, and the flow goes on without it.
        """
        try:
            return self._ask(actor, method, message)
        except _Lacks:
            raise
        except Exception as error:
            if self._may_be_left_out(actor):
                raise _LeftOut from error
            raise

    def _ask(self, actor: Actor[Any], method: Callable[..., Any], message: Any = NOTHING) -> Any:
        """Ask an actor that may have no such method.

        Raises:
            _Lacks: if it has none, which is not told by the AttributeError alone: its own code may raise the same one,
                and one that has travelled has lost what it is about.
        """
        try:
            return self._flow.ask(actor, method, message)
        except AttributeError as error:
            if method.__name__ not in self._flow.ask(actor, object.__dir__):
                raise _Lacks from error
            raise

    def _parts(self, state: State) -> Iterator[tuple[str, Any]]:
        """Give all parts, each with what it is called in an error."""
        flow = state["flow"]
        for number, node in enumerate(self._order, 1):
            if str(number) in flow["stages"]:
                yield f"{_named(number, node)} cannot be saved: state", flow["stages"][str(number)]
        for _, actor, value in flow["engine"]["announcements"]:
            yield f"what {actor} gave cannot be saved: reply", value
        for name, own in state["actors"].items():
            yield f"{name} cannot be saved: state_dict()", own


def refuse_other_flow(stream: Stream[Any], labels: list[str]) -> None:
    """Refuse the state of a flow with other stages than a stream has.

    Raises:
        RunFolderError: names the first stage that is another one.
    """
    order = nodes.stages(stream.node)
    for number, node in enumerate(order, 1):
        before = labels[number - 1] if number <= len(labels) else "not there"
        if before != node.label:
            raise RunFolderError(f"The flow is another one than that of the run: {_named(number, node)} was {before}.")
    if len(labels) > len(order):
        raise RunFolderError(
            f"The flow is another one than that of the run: it has {len(order)} stages, and had {len(labels)}."
        )


def _named(number: int, node: nodes.Node) -> str:
    return f"stage {number}: {node.label} [{node.origin}]"
