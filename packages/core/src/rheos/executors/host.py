"""Host: the same few lines around an actor's object on every executor."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rheos.batches import Batch, BatchInfo, Episode
from rheos.errors import ActorDied, UserExit, UserStopIteration
from rheos.executors.protocol import NOTHING, Call, Control, Shared
from rheos.reports import LearnerReport, Weights
from rheos.streams.actors import EndOfShard, NotReady
from rheos.streams.nodes import label_of

if TYPE_CHECKING:
    from rheos.streams.actors import Actor

__all__ = ["ATOMS", "ENDS", "Host", "freeze", "guarded", "user_exit", "user_stop_iteration"]

__tracebackhide__ = True

ENDS = (StopIteration, StopAsyncIteration, GeneratorExit)
"""What Python reads as an end, also where user code raised it by mistake."""

_STATES = frozenset({"state_dict", "load_state_dict"})

ATOMS = frozenset({int, float, str, bool, bytes, type(None), NotReady, EndOfShard, BatchInfo, Episode})
"""Types without arrays, which `freeze` gives back as they are."""


class Host:
    """An actor's object, the functions that flows installed beside it, and outcomes in place of exceptions."""

    def __init__(self, actor: Actor[Any], put: Callable[[Any], Shared[Any]]) -> None:
        self.name = actor.name
        self._put = put
        self._factory = actor.factory
        self._functions: dict[str, Any] = {}
        self._object: Any = guarded(self._factory)
        self._is_there = True

    def execute(self, call: Call) -> Call:
        """Run a call, finish it with what it gave or raised, and return it; arrays in the reply become read-only."""
        call.began_at = call.ended_at = perf_counter()
        try:
            value, failure = self._reply(call), None
        except Exception as error:
            value, failure = None, error
        call.ended_at = perf_counter()
        call.finish(value, failure)
        return call

    def close(self) -> None:
        """Close the actor's object, if it can be closed."""
        close = getattr(self._object, "close", None)
        if close is not None and self._is_there:
            guarded(close)

    def tell_of_restart(self, times: int) -> None:
        """Tell a new object how often its actor was made anew, if it has `restarted(times)`."""
        restarted = getattr(self._object, "restarted", None)
        if restarted is not None:
            guarded(restarted, times)

    def _reply(self, call: Call) -> Any:
        message = call.message
        if isinstance(call.method, Control):
            return self._control(call.method, message)
        if not self._is_there:
            raise ActorDied(f"{self.name} is down: it could not be made anew.")
        method = getattr(self._object, call.method)
        if call.method in _STATES:
            return self._state(method, message)
        reply = guarded(method) if message is NOTHING else guarded(method, _content(message))
        if call.through and not isinstance(reply, NotReady | EndOfShard):
            for name in call.through:
                call.failed_in = name
                reply = guarded(self._functions[name], freeze(reply))
            call.failed_in = None
        if isinstance(reply, LearnerReport) and isinstance(reply.weights, Weights):
            reply = reply.with_weights(self._put(freeze(reply.weights)))
        return freeze(reply)

    @staticmethod
    def _state(method: Callable[..., Any], message: Any) -> Any:
        """Take or give a state as a copy: what an actor goes on working with is neither frozen nor shared."""
        if message is NOTHING:
            return freeze(copy.deepcopy(guarded(method)))
        return guarded(method, copy.deepcopy(_content(message)))

    def _restart(self, times: int) -> None:
        with suppress(Exception):  # it failed already; what matters is that its successor comes
            self.close()
        self._is_there, self._object = False, None
        self._functions.clear()
        self._object = guarded(self._factory)
        self._is_there = True
        self.tell_of_restart(times)

    def _control(self, control: Control, message: Any) -> Any:
        if control is Control.RESTART:
            return self._restart(message)
        if control is Control.INSTALL:
            name, function = message
            self._functions[name] = guarded(copy.deepcopy, function)
            return None
        if control is Control.FUNCTION_STATE:
            function = self._functions[message]
            return self._state(function.state_dict, NOTHING) if hasattr(function, "state_dict") else None
        name, state = message
        return self._state(self._functions[name].load_state_dict, state)


def _content(message: Any) -> Any:
    """Return what a message stands for, read-only."""
    if isinstance(message, Call):
        if message.error is not None:
            raise message.error
        message = message.value
    return freeze(message.get() if isinstance(message, Shared) else message)


def guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call user code; what would end an iteration or the program becomes an ordinary error, except Ctrl-C.

    Raises:
        UserStopIteration: in place of what Python would read as an end.
        UserExit: in place of SystemExit, and of what else is no Exception; but a KeyboardInterrupt stays one.
    """
    try:
        return function(*arguments)
    except ENDS as error:
        raise user_stop_iteration(label_of(function), error) from error
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise user_exit(label_of(function), error) from error


def user_stop_iteration(label: str, cause: BaseException) -> UserStopIteration:
    """Return the error that takes the place of one that would look like an end."""
    return UserStopIteration(f"{label} raised {type(cause).__name__}, which is not how a stream ends: catch it there.")


def user_exit(label: str, cause: BaseException) -> UserExit:
    """Return the error that takes the place of one that would end the program."""
    message = " ".join(str(cause).split())
    what = f"{type(cause).__name__}({message})"
    return UserExit(f"{label} raised {what}, which would end the program: raise an error of your own there.")


def freeze(value: Any) -> Any:
    """Make every array in a tree of dicts, lists, tuples and dataclasses read-only, in place, and return the tree.

    Of a view, what it views becomes read-only, too: who keeps writing to a buffer that it gave away gets an error.
    """
    kind: Any = type(value)
    if kind in ATOMS:
        return value
    if kind is Batch:  # what most items are made of
        freeze(value.content)
    elif isinstance(value, np.ndarray):
        array: Any = value
        while isinstance(array, np.ndarray):
            array.flags.writeable = False
            array = array.base
    elif kind is dict:
        for part in value.values():
            if type(part) not in ATOMS:
                freeze(part)
    elif isinstance(value, list | tuple):
        for part in value:
            freeze(part)
    elif names := _field_names(kind):
        for name in names:
            freeze(getattr(value, name))
    elif isinstance(value, Mapping):
        for part in value.values():
            freeze(part)
    return value


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass; none of another type."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
