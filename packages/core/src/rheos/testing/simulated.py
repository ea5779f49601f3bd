"""SimulatedExecutor: calls finish in an order that chance chooses, some actors are slow, and some die."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

from rheos.errors import ActorDied
from rheos.executors.host import Host
from rheos.executors.protocol import NOTHING, Call, Completions, Control, LocalShared, Shared
from rheos.streams.actors import Actor

__all__ = ["SimulatedActor", "SimulatedExecutor"]

__tracebackhide__ = True

T = TypeVar("T")

_SLOWEST = 20.0
"""How many times as often the fastest actor is chosen as the slowest one, at most."""


class SimulatedActor:
    """An actor whose calls stay in its mailbox, in order, until the executor chooses it."""

    def __init__(self, actor: Actor[Any], executor: SimulatedExecutor, completions: Completions, speed: float) -> None:
        self.name = actor.name
        self.speed = speed
        self.deaths = 0
        """How often it died."""
        self._actor = actor
        self._executor = executor
        self._completions = completions
        self._mailbox: deque[Call] = deque()
        self._host: Host | None = Host(actor, executor.put)

    @property
    def alive(self) -> bool:
        """Whether it has not died, or was made anew."""
        return self._host is not None

    @property
    def is_ready(self) -> bool:
        """Whether its next call can run: it has one, whose message is there."""
        if not self._mailbox:
            return False
        message = self._mailbox[0].message
        return not isinstance(message, Call) or message.finished

    @property
    def waiting(self) -> int:
        """How many calls have not finished."""
        return len(self._mailbox)

    def wait_until_started(self, timeout_s: float | None = None) -> bool:
        """Return True: its object was made at once."""
        return True

    def call(self, method: str | Control, message: Any = NOTHING, through: tuple[str, ...] = ()) -> Call:
        """Put a call into the mailbox; the driver runs some call of some actor later."""
        call = Call(self.name, method, message, through)
        self._mailbox.append(call)
        self._completions.later(_TICKET, lambda _: self._executor.finish_one(self._completions))
        return call

    def restart(self, times: int) -> Call:
        """Put the restart into the mailbox."""
        return self.call(Control.RESTART, times)

    def finish_next(self, *, dies: bool) -> Call:
        """Run the next call and return it finished; where it dies of it, this and all that follow fail."""
        call = self._mailbox.popleft()
        if call.method is Control.RESTART and self._host is None:
            return self._make_anew(call)
        if dies:
            self.deaths += 1
            self._host = None
        if self._host is not None:
            return self._host.execute(call)
        call.finish(None, ActorDied(f"{self.name} died in {call!r}."))
        return call

    def close(self, grace_s: float) -> None:
        """Close the actor's object once."""
        host, self._host = self._host, None
        self._mailbox.clear()
        if host is not None:
            host.close()

    def _make_anew(self, call: Call) -> Call:
        try:
            self._host = Host(self._actor, self._executor.put)
            self._host.tell_of_restart(call.message)
        except Exception as error:
            call.finish(None, error)
        else:
            call.finish(None, None)
        return call


_TICKET = Call("", "simulated", NOTHING, ())
"""Stands in the driver's queue for one call of whichever actor is chosen."""


class SimulatedExecutor:
    """Finishes calls in an adversarial order that a seed decides: for property tests of flows, in one thread.

    Each actor has a speed by which it is chosen, so that some are far behind. The calls of one actor stay in their
    order. It keeps the actors of all flows that it runs in one pool for each.

    Args:
        seed: decides speeds, order and deaths.
        death_rate: the probability that an actor dies in a call.
        mortal: the names of those that may die; None: all.

    Example:
        >>> from rheos import from_items, run
        >>> from rheos.testing.fakes import fake_group
        >>> echoes = fake_group("echo", [[], [], []])
        >>> items = from_items(range(6)).ask(echoes, list.count, in_flight=2, ordered=False)
        >>> list(run(items, SimulatedExecutor(seed=1)))
        [0, 0, 0, 0, 0, 0]
    """

    name = "simulated"

    def __init__(self, seed: int, *, death_rate: float = 0.0, mortal: Collection[str] | None = None) -> None:
        self.actors: dict[str, SimulatedActor] = {}
        """The actors by name, of the flow that was started last where several have the same."""
        self._random = random.Random(seed)
        self._death_rate = death_rate
        self._mortal = mortal
        self._pools: dict[Completions, list[SimulatedActor]] = {}

    def spawn(self, actor: Actor[Any], completions: Completions) -> SimulatedActor:
        """Make the actor's object here and now."""
        speed = _SLOWEST ** self._random.random()
        running = self.actors[actor.name] = SimulatedActor(actor, self, completions, speed)
        self._pools.setdefault(completions, []).append(running)
        return running

    def finish_one(self, completions: Completions) -> Call:
        """Choose an actor of a flow that has a call to run, and finish that call."""
        ready = [actor for actor in self._pools[completions] if actor.is_ready]
        actor = self._random.choices(ready, [actor.speed for actor in ready])[0]
        may_die = self._mortal is None or actor.name in self._mortal
        return actor.finish_next(dies=may_die and self._random.random() < self._death_rate)

    def put(self, value: T) -> Shared[T]:
        """Keep the value as it is."""
        return LocalShared(value)

    def log_to(self, folder: Path) -> None:
        """Do nothing: what is printed in this process is seen."""

    def close(self) -> None:
        """Forget the actors."""
        self._pools.clear()
