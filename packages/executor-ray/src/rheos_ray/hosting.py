"""RemoteHost: what runs in the process of an actor, around the same host as on every executor."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rheos.errors import ActorDied, FlowError, RheosError
from rheos.executors.host import Host, user_exit
from rheos.executors.last_words import set_ending
from rheos.executors.protocol import Call, LocalShared
from rheos.streams.actors import Actor
from rheos_ray.farewell import leave_with_last_words
from rheos_ray.messages import Outcome, left_behind, received

__all__ = ["Birth", "RemoteHost", "drop_what_waits", "go_on"]

_pickler: Any = cloudpickle
"""Without annotations."""


@dataclass(frozen=True)
class Birth:
    """Where the process of an actor came to be."""

    node: str
    closing: str
    """A path on that machine: while a file is there, what waits for the actor is dropped."""


class RemoteHost:
    """The class of the engine's actors. Its methods give what came of it and never raise."""

    def __init__(self, name: str) -> None:
        self._name = name
        actor_id = str(ray.get_runtime_context().get_actor_id())
        self._closing = str(Path(tempfile.gettempdir()) / f"rheos-{actor_id}-closing")
        set_ending(partial(leave_with_last_words, actor_id))
        self._actor: Actor[Any] | None = None
        self._why_not = ""
        self._host: Host | None = None
        self._last_request = b""

    def __repr__(self) -> str:
        """Return the actor's name: Ray's prefix of what it prints."""
        return self._name

    def born(self) -> Birth:
        """Tell where it lives, as soon as it does."""
        return Birth(ray.get_runtime_context().get_node_id(), self._closing)

    def receive(self, actor: bytes) -> Exception | None:
        """Unpack the actor's description, which imports what it needs, and return what that raised."""
        try:
            self._actor = _pickler.loads(actor)
        except Exception as error:
            self._why_not = f"{self._name} cannot be made where it is to live: {type(error).__name__}: {error}"
            return FlowError(self._why_not)
        return None

    def make(self, times: int) -> Exception | None:
        """Make the actor's object, which was made so often before, and return what that raised."""
        if self._actor is None:
            return ActorDied(self._why_not)
        try:
            self._host = Host(self._actor, LocalShared)  # the weights of an update are left behind with their reply
            if times:
                self._host.tell_of_restart(times)
        except Exception as error:
            return _portable(error)
        except BaseException as error:
            return _portable(user_exit(self._name, error))
        return None

    @ray.method(num_returns=2)
    def execute(self, request: bytes | None = None, *arguments: Any) -> tuple[bytes, list[Any]]:
        """Run a call and return what came of it, and apart from that the large parts of its reply, which stay here.

        Args:
            request: `messages.request_of`; None, which costs the engine least: the last one that had no arguments.
            arguments: what the engine brought here.
        """
        outcome = self._executed(request, arguments)
        value, parts = left_behind(outcome.value)
        return self._as_bytes(outcome._replace(value=value, is_large=bool(parts))), parts

    def execute_whole(self, request: bytes | None = None, *arguments: Any) -> bytes:
        """Run a call as `execute` does, and return what came of it with all that belongs to it."""
        outcome = self._executed(request, arguments)
        return self._as_bytes(outcome._replace(is_large=bool(left_behind(outcome.value)[1])))

    def _as_bytes(self, outcome: Outcome) -> bytes:
        try:
            return outcome.to_bytes()
        except Exception as error:
            failure = FlowError(f"what {self._name} gave cannot travel: {type(error).__name__}: {error}")
            return Outcome(None, failure, None, outcome.busy_s).to_bytes()

    def _executed(self, request: bytes | None, arguments: Sequence[Any]) -> Outcome:
        if request is None:
            request = self._last_request
        elif not arguments:
            self._last_request = request
        if self._host is None:
            return Outcome(None, ActorDied(f"{self._name} is down: it could not be made."), None, 0.0)
        if os.path.exists(self._closing):
            dropped = FlowError(f"what was sent to {self._name} was dropped: the flow is closed.")
            return Outcome(None, dropped, None, 0.0)
        try:
            call = Call(self._name, *received(request, arguments))
        except Exception as error:
            return Outcome(None, error, None, 0.0)
        try:
            self._host.execute(call)
        except BaseException as error:  # what would end this process is user code's, as in a thread
            call.finish(None, user_exit(repr(call), error))
        failure = None if call.error is None else _portable(call.error)
        return Outcome(call.value, failure, call.failed_in, call.ended_at - call.began_at)

    def close(self) -> Exception | None:
        """Close the actor's object and return what that raised."""
        with suppress(FileNotFoundError):
            os.unlink(self._closing)
        try:
            if self._host is not None:
                self._host.close()
        except Exception as error:
            return _portable(error)
        except BaseException as error:
            return _portable(user_exit(f"{self._name}.close", error))
        return None


def drop_what_waits(birth: Birth) -> None:
    """Have an actor drop what was sent to it and has not begun.

    The engine can neither take back what is in an actor's queue nor reach it before that is worked off.
    """
    if birth.node == ray.get_runtime_context().get_node_id():
        _touch(birth.closing)
    else:
        there = NodeAffinitySchedulingStrategy(birth.node, soft=False)
        ray.remote(_touch).options(num_cpus=0, scheduling_strategy=there).remote(birth.closing)


def go_on(birth: Birth) -> None:
    """Take back `drop_what_waits`, where no process is left that could."""
    if birth.node == ray.get_runtime_context().get_node_id():
        Path(birth.closing).unlink(missing_ok=True)


def _touch(path: str) -> None:
    Path(path).touch()


def _portable(error: Exception) -> Exception:
    """Return an error that can travel, with the traceback that it has here as a note.

    One that cannot be pickled, or not be made again, is told in the words of one that can.
    """
    trace = "".join(traceback.format_exception(error)).rstrip()
    try:
        copy = _pickler.loads(_pickler.dumps(error))
    except Exception:
        copy = None
    if type(copy) is not type(error):
        error = RheosError(f"{type(error).__name__}: {error}")
    error.__cause__ = error.__context__ = None
    error.add_note(f"where the actor lives:\n{trace}")
    return error.with_traceback(None)
