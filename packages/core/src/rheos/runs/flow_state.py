"""FlowState: what a running flow and its actors remember, taken between two items and given back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from rheos.errors import FlowTimeout, RheosWarning, RunFolderError, TreeError
from rheos.runs.checkpoint_states import EncodedState
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


class NoState(Exception):
    """An actor has no `state_dict`, so the run cannot be resumed; the message says which one."""


class _Lacks(Exception):
    """An actor does not have the method that it was asked for."""


class FlowState:
    """Takes and gives back the state of a flow and of every actor in it.

    An actor is part of it with its `state_dict()` and `load_state_dict(state)`. A source that is in the middle of
    episodes has `begin_anew()`, which makes it do what `load_state_dict` makes it do: begin new ones.

    Args:
        flow: running; between two items whenever a method is called.
        stream: what it runs.
        learner: the actor whose weights are saved; part of the state also where the flow only reads its weights.
        restarts_sources: whether the flow goes on without a source that fails; then one that does so here, or is down,
            is left out.
    """

    def __init__(
        self, flow: Flow[Any], stream: Stream[Any], learner: Actor[Any], *, restarts_sources: bool = False
    ) -> None:
        self._flow = flow
        self._restarts_sources = restarts_sources
        self._order = nodes.stages(stream.node)
        mentioned = [actor for node in self._order for actor in node.actors()]
        self._actors = {actor.name: actor for actor in (*mentioned, learner)}
        sources = [node for node in self._order if isinstance(node, nodes.FromActors)]
        self._sources = {actor.name: actor for node in sources for actor in node.group}

    def take(self, timeout_s: float | None = None) -> State:
        """Return the state; the flow goes on as if nothing had been.

        Raises:
            NoState: if an actor has none, or if it does not come to rest in the time given, which is warned of.
        """
        try:
            flow = self._flow.state_dict(timeout_s)  # first: everything in flight finishes, so the actors are idle
        except FlowTimeout as error:
            warnings.warn(f"{ONLY_WEIGHTS}: {error}", RheosWarning, stacklevel=2)
            raise NoState(str(error)) from error
        labels = [node.label for node in self._order]
        return {"labels": labels, "flow": flow, "actors": {name: self._state_of(name) for name in self._actors}}

    def load(self, state: Mapping[str, Any]) -> None:
        """Give back what `take` gave, before the first item."""
        self._flow.load_state_dict(state["flow"])
        for name, own in state["actors"].items():
            if own is not None:
                self._flow.ask(self._actors[name], _Stateful.load_state_dict, own)

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
        try:
            return EncodedState(*encode({"run": run, **state}))
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
            self.encode(self.take(), None)
        except NoState as error:
            text = f"the run cannot be resumed: {error}, so that its checkpoints hold weights only."
            warnings.warn(text, RheosWarning, stacklevel=2)

    def _state_of(self, name: str) -> Any:
        """Return the state of an actor; None of a source that is down or fails, which the next run starts anew."""
        actor = self._actors[name]
        may_be_left_out = self._restarts_sources and name in self._sources
        if may_be_left_out and not self._flow.is_up(actor):
            return None
        try:
            return self._ask(actor, _Stateful.state_dict)
        except _Lacks as error:
            raise NoState(f"{name} has no state_dict()") from error
        except Exception:
            if may_be_left_out:
                return None
            raise

    def _ask(self, actor: Actor[Any], method: Callable[..., Any]) -> Any:
        """Ask an actor that may have no such method.

        Raises:
            _Lacks: if it has none, which is not told by the AttributeError alone: its own code may raise the same one.
        """
        try:
            return self._flow.ask(actor, method)
        except AttributeError as error:
            if error.name == method.__name__ and method.__name__ not in self._flow.ask(actor, object.__dir__):
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
