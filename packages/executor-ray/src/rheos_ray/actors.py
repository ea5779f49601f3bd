"""RayActor: an actor in a process of its own, somewhere on the cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from threading import RLock, Thread, Timer
from time import perf_counter
from typing import Any

import ray
from ray import cloudpickle, exceptions

from rheos.errors import ActorDied, ActorStuck, FlowError, ItemLost
from rheos.executors.protocol import NOTHING, Call, Completions, Control
from rheos.streams.actors import Actor
from rheos_ray.cluster import wanted
from rheos_ray.errors import GONE, first_line, why_gone
from rheos_ray.farewell import last_words
from rheos_ray.hosting import Birth, RemoteHost, drop_what_waits, go_on
from rheos_ray.messages import Outcome, Reference, reply_of, request_of

__all__ = ["RayActor", "RayCall"]

_pickler: Any = cloudpickle
"""Without annotations."""

_IDLE_S = 2.0
"""Seconds that an actor with nothing to do has to close its object, also where others have used up the grace."""


class RayCall(Call):
    """A call whose outcome, and what stayed behind of its reply, the engine holds."""

    references: tuple[Reference, ...] | None = None
    """Of its outcome, and of those parts of its reply that stay behind; None until it is sent."""
    handle: Any = None
    """Of the process that it was sent to: an actor may have another one by the time that it fails."""


class RayActor:
    """An actor in a process of its own. What is sent to it goes out in order, at once where it can.

    A message that stands for a call on the driver waits here for that, and what is sent after it waits behind it.

    Args:
        actor: its description.
        options: what the engine takes for the process: resources, a placement group, ...
        completions: where its calls are announced.
        start_timeout_s: how long to wait for a place for the process.
    """

    def __init__(
        self, actor: Actor[Any], options: Mapping[str, Any], completions: Completions, start_timeout_s: float
    ) -> None:
        self.name = actor.name
        self._actor, self._options, self._completions = actor, dict(options), completions
        self._start_timeout_s = start_timeout_s
        self._lock = RLock()
        self._unsent: deque[RayCall] = deque()
        self._outstanding: deque[RayCall] = deque()
        self._is_small: dict[str | Control, bool] = {}
        self._dropping: Birth | None = None
        """Where it was told to drop what waits."""
        self._is_closed = self._is_gone = False
        completions.when_abandoned(self._drop_what_waits)
        self._make(0)

    def _make(self, times: int) -> None:
        try:
            actor: bytes = _pickler.dumps(self._actor)
        except Exception as error:
            raise FlowError(
                f"{self.name} cannot travel to the process that it is to live in ({first_line(error)}): its factory"
                " must be a class or a function of a module, or a functools.partial of one."
            ) from error
        host: Any = ray.remote(RemoteHost)
        # Thousands of calls a second would fill the engine's list of tasks; the flow's statistics and trace have them.
        self._handle: Any = host.options(**self._options, enable_task_events=False).remote(self.name)
        self._born: Reference = self._handle.born.remote()
        self._received: Reference = self._handle.receive.remote(actor)
        self._made: Reference = self._handle.make.remote(times)
        self._execute = self._handle.execute.remote
        self._execute_whole = self._handle.execute_whole.remote
        self._last_request = b""
        self._is_gone = False

    @property
    def alive(self) -> bool:
        """Whether its process is there, as far as is known: its end is noticed by a call."""
        return not (self._is_gone or self._is_closed)

    def wait_until_started(self, timeout_s: float | None = None) -> bool:
        """Block until its object is made, or the time is over, which begins when there is a process.

        Raises:
            FlowError: if the cluster has no room for the process.
        """
        try:
            ray.get(self._born, timeout=self._start_timeout_s)
        except exceptions.GetTimeoutError:
            raise FlowError(f"{self.name} found no place: {self._wanted()}.") from None
        except GONE as error:
            raise self._died(error) from None
        try:
            imports_s = None if timeout_s is None else max(timeout_s, self._start_timeout_s)
            failure: Exception | None = ray.get(self._received, timeout=imports_s)
            failure = failure or ray.get(self._made, timeout=timeout_s)
        except exceptions.GetTimeoutError:
            return False
        except GONE as error:
            raise self._died(error) from None
        if failure is not None:
            raise failure
        return True

    def _wanted(self) -> str:
        return f"{wanted(self._options)}, in {self._start_timeout_s:g} s (executor.start_timeout_s)"

    def call(self, method: str | Control, message: Any = NOTHING, through: tuple[str, ...] = ()) -> Call:
        """Send a message, or keep it here until what it stands for is known."""
        call = RayCall(self.name, method, message, through)
        with self._lock:
            self._unsent.append(call)
            if len(self._unsent) == 1:
                self._send()
        return call

    def restart(self, times: int) -> Call:
        """Have the process make the object anew, or make another process where it is gone."""
        if self._is_gone:
            call = RayCall(self.name, Control.RESTART, times, ())
            with self._lock:
                with suppress(Exception):  # it may be there behind a network that fails
                    ray.kill(self._handle)
                self._make(times)
                self._follow(call, self._made)
            self._give_up_unless_born()
            return call
        return self.call(Control.RESTART, times)

    def _give_up_unless_born(self) -> None:
        """End what finds no place in time, so that what was sent to it fails."""
        handle = self._handle
        timer = Timer(self._start_timeout_s, ray.kill, (handle,))
        timer.daemon = True
        timer.start()
        self._born.future().add_done_callback(lambda _: timer.cancel())

    def close(self, grace_s: float) -> None:
        """End the process after the call that it works on; that is waited for."""
        if self._is_closed:
            return
        with self._lock:
            self._is_closed = True
            unsent = list(self._unsent)
            self._unsent.clear()
            working = self._outstanding[0] if self._outstanding else None
        for call in unsent:
            call.finish(None, FlowError(f"{call!r} was dropped: the flow is closed."))
        if not ray.is_initialized():  # a flow that nobody closed while there was a cluster
            return
        try:
            if self._is_born and not self._is_gone:  # else there is no object
                self._close_object(working, grace_s)
        finally:
            ray.kill(self._handle)
            if self._dropping is not None:
                go_on(self._dropping)

    @property
    def _is_born(self) -> bool:
        return bool(ray.wait([self._born], timeout=0)[0])

    def _drop_what_waits(self) -> None:
        """Have the process drop what was sent to it and has not begun, which it does while others are being closed."""
        with self._lock:
            has_waiting = len(self._outstanding) > 1 and not (self._is_gone or self._is_closed)
        if has_waiting and ray.is_initialized() and self._is_born:
            with suppress(*GONE):
                birth: Birth = ray.get(self._born)
                self._dropping = birth
                drop_what_waits(birth)

    def _close_object(self, working: RayCall | None, grace_s: float) -> None:
        is_made, _ = ray.wait([self._made], timeout=0)
        patience_s = grace_s if working or not is_made else max(grace_s, _IDLE_S)
        try:
            error: Exception | None = ray.get(self._handle.close.remote(), timeout=patience_s)
        except exceptions.GetTimeoutError:
            if not is_made:  # it did nothing yet
                return
            doing = f"still works on {working!r}" if working else "is still being closed"
            raise ActorStuck(f"{self.name} {doing} when the time to end is over; its process is ended.") from None
        except GONE:
            return
        if error is not None:
            raise error

    # what goes out

    def _send(self) -> None:
        """Send what waits, in order, up to a message that is not known yet; only with the lock."""
        while self._unsent:
            call = self._unsent[0]
            message = call.message
            if isinstance(message, Call) and not self._can_go(message):
                message.when_finished(self._send_later)
                return
            self._unsent.popleft()
            self._send_one(call)

    def _send_later(self) -> None:
        with self._lock:
            self._send()

    @staticmethod
    def _can_go(message: Call) -> bool:
        return message.finished or (isinstance(message, RayCall) and message.references is not None)

    def _send_one(self, call: RayCall) -> None:
        """Send a call; one that cannot travel has failed."""
        try:
            request, arguments = request_of(call.method, call.message, call.through, _references_of)
            comes_whole = self._is_small.get(call.method, False)
            execute = self._execute_whole if comes_whole else self._execute
            if arguments:
                sent = execute(request, *arguments)
            elif request == self._last_request:
                sent = execute()
            else:
                sent = execute(request)
                self._last_request = request
        except Exception as error:
            self._outstanding.append(call)
            self._end(call, None, error)
            return
        call.references = (sent,) if comes_whole else tuple(sent)
        self._follow(call, call.references[0])

    def _follow(self, call: RayCall, reference: Reference) -> None:
        call.handle = self._handle
        self._outstanding.append(call)
        engine: Any = reference  # without annotations; its `future` is this with a lock more
        engine._on_completed(lambda result: self._take_in(call, reference, result))

    # what comes back, in a thread of the engine

    def _take_in(self, call: RayCall, reference: Reference, result: Any) -> None:
        """Take what came of a call; `reference` must live until then."""
        if isinstance(result, exceptions.RayTaskError) and isinstance(call.message, Call):
            call.message.when_finished(lambda: self._finish(call, result))  # that one may know why
        elif isinstance(result, GONE) and not self._is_closed:
            # the cluster is asked why, not in this thread
            Thread(target=self._finish, args=(call, result), name=f"{self.name}-is-gone", daemon=True).start()
        else:
            self._finish(call, result)

    def _finish(self, call: RayCall, result: Any) -> None:
        call.ended_at = call.began_at = perf_counter()
        try:
            value, failure = self._came_of(call, result)
        except Exception as error:
            value, failure = None, error
        self._end(call, value, failure)

    def _end(self, call: RayCall, value: Any, failure: Exception | None) -> None:
        try:
            call.finish(value, failure)
        finally:
            with self._lock:
                while self._outstanding and self._outstanding[0].finished:  # Ray may tell of two the wrong way round
                    self._completions.announce(self._outstanding.popleft())

    def _came_of(self, call: RayCall, result: Any) -> tuple[Any, Exception | None]:
        if isinstance(result, exceptions.RayError):
            return None, self._failure(call, result)
        if call.references is None:  # a process that was made anew
            return None, result
        outcome = Outcome.from_bytes(result)
        call.failed_in, call.began_at = outcome.failed_in, call.ended_at - outcome.busy_s
        # A method that gave large parts once, such as weights that are due now and then, may do so again.
        self._is_small[call.method] = not outcome.is_large and self._is_small.get(call.method, True)
        _, *parts = call.references
        return reply_of(outcome.value, parts[0]) if parts and outcome.is_large else outcome.value, outcome.error

    def _failure(self, call: RayCall, error: exceptions.RayError) -> Exception:
        cause: BaseException | None = None
        if isinstance(error, exceptions.RayTaskError):
            if isinstance(call.message, Call) and call.message.error is not None:
                return call.message.error
            cause = error.cause
        is_lost = isinstance(cause, exceptions.ObjectLostError | exceptions.RayActorError)
        if is_lost or isinstance(error, exceptions.ObjectLostError):
            return ItemLost(f"what {self.name} was to get is gone with the machine that held it: {first_line(error)}")
        if isinstance(error, GONE):
            self._is_gone = self._is_gone or call.handle is self._handle
            return self._died(error)
        return cause if isinstance(cause, Exception) else error

    def _died(self, error: exceptions.RayError) -> ActorDied:
        actor_id: str | None = getattr(error, "actor_id", None)
        words = last_words(actor_id) if actor_id and not self._is_closed else None
        return ActorDied(words or f"{self.name} is gone: {why_gone(error)}")


def _references_of(call: Call) -> tuple[Reference, ...] | None:
    return call.references if isinstance(call, RayCall) else None
