"""Host: outcomes in place of exceptions; nothing that user code raises ends the program, except Ctrl-C."""

from __future__ import annotations

import numpy as np
import pytest

from rheos import Actor
from rheos.errors import UserExit, UserStopIteration
from rheos.executors.host import Host, guarded
from rheos.executors.protocol import NOTHING, Call, Control, LocalShared


class PanicError(BaseException):
    """As extensions in Rust raise it: no Exception."""


ENDINGS = [
    (SystemExit("bye"), UserExit, r"raised SystemExit\(bye\), which would end the program"),
    (SystemExit(0), UserExit, r"raised SystemExit\(0\), which"),
    (PanicError("index\nout of bounds"), UserExit, r"raised PanicError\(index out of bounds\), which"),
    (GeneratorExit(), UserStopIteration, "raised GeneratorExit, which"),
]


class Ending:
    """Raises `error` in whatever it is asked."""

    def __init__(self, error):
        self._error = error

    def method(self, *message):
        raise self._error

    close = state_dict = load_state_dict = __call__ = __deepcopy__ = method


class Fine:
    """Does as it is told."""

    def method(self, message):
        return message


class Remembering(Ending):
    """Can be copied, and fails only then."""

    def __deepcopy__(self, memo):
        return self


def host_of(made):
    return Host(Actor("box", lambda: made), LocalShared)


def outcome(host, method, message, through=()):
    call = Call("box", method, message, through)
    host.execute(call)
    assert call.finished
    return call.error


@pytest.mark.parametrize(("raised", "kind", "text"), ENDINGS)
def test_what_an_actor_raises_in_order_to_end_the_program_is_an_outcome(raised, kind, text):
    error = outcome(host_of(Ending(raised)), "method", 1)

    assert kind is type(error)
    assert str(error).startswith("Ending.method raised ")
    assert raised is error.__cause__
    with pytest.raises(kind, match=text):
        raise error


@pytest.mark.parametrize(("raised", "kind", "text"), ENDINGS)
def test_an_installed_function_and_its_state_have_outcomes_too(raised, kind, text):
    host = host_of(Fine())
    copied = outcome(host, Control.INSTALL, ("f", Ending(raised)))
    assert outcome(host, Control.INSTALL, ("f", Remembering(raised))) is None

    errors = [
        copied,
        outcome(host, "method", 1, ("f",)),
        outcome(host, Control.FUNCTION_STATE, "f"),
        outcome(host, Control.LOAD_FUNCTION_STATE, ("f", {})),
    ]

    assert [kind] * 4 == [type(error) for error in errors]


@pytest.mark.parametrize(("raised", "kind", "text"), ENDINGS)
def test_making_and_closing_an_actor_raise_ordinary_errors(raised, kind, text):
    with pytest.raises(kind, match=text):
        Host(Actor("box", lambda: Ending(raised).method()), LocalShared)
    with pytest.raises(kind, match=text):
        host_of(Ending(raised)).close()


def test_ctrl_c_stays_what_it_is():
    with pytest.raises(KeyboardInterrupt):
        outcome(host_of(Ending(KeyboardInterrupt())), "method", 1)


def test_an_ordinary_error_stays_what_it_is():
    error = ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        guarded(Ending(error).method)

    assert error is caught.value


# states, and what comes after a restart


class Averaging:
    """Keeps an array that it works on, and hands it out as its state."""

    def __init__(self):
        self.mean = np.zeros(2)
        self.times = None

    def add(self, value):
        self.mean += value

    def restarted(self, times):
        self.times = times

    def told(self):
        return self.times

    def state_dict(self):
        return {"mean": self.mean}

    def load_state_dict(self, state):
        self.mean = state["mean"]


def reply(host, method, message=NOTHING):
    call = Call("box", method, message, ())
    host.execute(call)
    assert call.error is None
    return call.value


def test_a_state_is_a_copy_that_the_actor_does_not_go_on_working_in():
    host = host_of(Averaging())

    state = reply(host, "state_dict")
    reply(host, "add", 1.0)

    assert [0.0, 0.0] == state["mean"].tolist()
    assert not state["mean"].flags.writeable
    assert [1.0, 1.0] == reply(host, "state_dict")["mean"].tolist()


def test_an_actor_can_work_in_the_state_that_it_was_given():
    host, state = host_of(Averaging()), {"mean": np.ones(2)}

    reply(host, "load_state_dict", state)
    reply(host, "add", 1.0)

    assert [2.0, 2.0] == reply(host, "state_dict")["mean"].tolist()
    assert [1.0, 1.0] == state["mean"].tolist()


def test_an_object_hears_how_often_its_actor_was_made_anew():
    host = Host(Actor("box", Averaging), LocalShared)
    assert None is reply(host, "told")

    reply(host, Control.RESTART, 2)

    assert 2 == reply(host, "told")


def test_a_call_that_is_interrupted_lasts_no_time():
    call = Call("box", "method", NOTHING, ())

    with pytest.raises(KeyboardInterrupt):
        host_of(Ending(KeyboardInterrupt())).execute(call)

    assert call.ended_at == call.began_at > 0.0
