"""Recovery: sources that fail are made anew, after a pause and up to a number of times, and the rest loses nothing."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from rheos.errors import FlowMistake, RheosWarning
from rheos.executors.protocol import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rheos.scheduler.engine import Engine
    from rheos.scheduler.gathers import Gather

__all__ = ["FailurePolicy", "Recovery"]

__tracebackhide__ = True

_DOUBLINGS = 6


@dataclass(frozen=True)
class FailurePolicy:
    """What becomes of a run when an actor that is a source of items raises or dies; other actors end the run.

    Args:
        max_restarts: how often an actor is made anew; 0 never.
        backoff_s: seconds before the first restart of an actor; twice as long before each one that follows, up to 64
            times as long.
        min_healthy: how many actors of a group must be left when one is given up; None does without none.

    Raises:
        FlowMistake: for a number that makes no sense.
    """

    max_restarts: int = 0
    backoff_s: float = 1.0
    min_healthy: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        is_sound = (
            isinstance(self.max_restarts, int)
            and isinstance(self.backoff_s, int | float)
            and isinstance(self.min_healthy, int | None)
            and self.max_restarts >= 0
            and self.backoff_s >= 0
            and (self.min_healthy is None or self.min_healthy >= 1)
        )
        if not is_sound:
            raise FlowMistake(
                f"{self}: expected max_restarts and backoff_s of at least 0, and min_healthy of at least 1."
            )


class Recovery:
    """Decides about failures, and sends the restarts when they are due.

    An *incarnation* of an actor is what was made by one start of it. A call that fails is news only if it was sent to
    the present one: what the predecessors still do after their failure is lost with them, whether it fails or not.

    Args:
        engine: carries the restarts.
        policy: how often, when, and how many may be lost.
        groups: the names of the actors of every source.
    """

    busy_s = 0.0  # the driver's time in restarts of actors that live on it; what sends calls has that

    def __init__(self, engine: Engine, policy: FailurePolicy, groups: Sequence[tuple[str, ...]]) -> None:
        self._engine = engine
        self._policy = policy
        for group in groups:
            if policy.min_healthy is not None and policy.min_healthy > len(group):
                raise FlowMistake(f"{policy}: min_healthy is more than the {len(group)} of {', '.join(group)}.")
        self._groups: dict[str, list[tuple[str, ...]]] = {}
        for group in groups:
            for name in group:
                self._groups.setdefault(name, []).append(group)
        self._gathers: list[Gather] = []
        self._due: dict[str, float] = {}
        self._given_up: set[str] = set()
        self._failed_at: dict[str, int] = {}  # the key of the call in which each actor failed last
        self.restarts: Counter[str] = Counter()
        """How often each actor was made anew."""

    def follow(self, gather: Gather) -> None:
        """Have a stage greet its actors right behind each restart, before anybody else's message arrives."""
        self._gathers.append(gather)

    def is_up(self, name: str) -> bool:
        """Whether messages can be sent to the actor: they may wait behind its restart."""
        return name not in self._due and name not in self._given_up

    def is_given_up(self, name: str) -> bool:
        """Whether the actor will never come back."""
        return name in self._given_up

    @property
    def is_under_way(self) -> bool:
        """Whether an actor waits for its restart."""
        return bool(self._due)

    def due_in_s(self) -> float:
        """Return the seconds until the next restart is due; only while one is under way."""
        return max(min(self._due.values()) - perf_counter(), 0.0)

    def send_due(self) -> None:
        """Send the restarts that are due."""
        now = perf_counter()
        for name in [name for name, due_at in self._due.items() if due_at <= now]:
            del self._due[name]
            self._engine.restart(self, name, self.restarts[name])
            self._engine.moves += 1
            for gather in self._gathers:
                gather.greet(name)

    def is_too_late(self, call: Call) -> bool:
        """Whether an actor answered a call after it had failed in another one, so that the reply is worth nothing."""
        is_past = call.incarnation < self.restarts[call.actor] or call.actor in self._given_up
        return is_past and call.key > self._failed_at[call.actor]

    def takes(self, call: Call) -> bool:
        """Whether the flow can go on without the reply of a call that failed; what is needed for it is set going.

        Not where the message could not be made, which is another actor's failure.
        """
        name = call.actor
        if name not in self._groups or call.error is None:
            return False
        if isinstance(call.message, Call) and call.message.error is not None:
            return False
        if call.incarnation < self.restarts[name] or name in self._given_up:
            return True
        self._failed_at[name] = call.key
        cause = f"{type(call.error).__name__}: {' '.join(str(call.error).split())}"
        if self.restarts[name] >= self._policy.max_restarts:
            return self._gives_up(call, cause)
        pause_s = self._policy.backoff_s * 2 ** min(self.restarts[name], _DOUBLINGS)
        self.restarts[name] += 1
        self._due[name] = perf_counter() + pause_s
        count = f"{self.restarts[name]} of {self._policy.max_restarts}"
        self._warn(f"{name} failed and is made anew in {pause_s:g} s (restart {count}): {cause}")
        return True

    def finished(self, call: Call) -> None:
        """Take in a restart; one that failed is a failure like any other."""
        self._engine.moves += 1
        if call.error is not None and not self.takes(call):
            call.error.add_note(f"while {call.actor} was made anew")
            raise call.error

    def _gives_up(self, call: Call, cause: str) -> bool:
        name, policy = call.actor, self._policy
        gone = {*self._given_up, name}
        left, group = min((len(set(group) - gone), group) for group in self._groups[name])
        if policy.min_healthy is None or left < policy.min_healthy:
            assert call.error is not None
            note = f"{name} had been made anew {_times(self.restarts[name])}, max_restarts={policy.max_restarts}"
            if policy.min_healthy is not None:
                note += f"; {left} of {len(group)} would be left, min_healthy={policy.min_healthy}"
            call.error.add_note(note)
            return False
        self._given_up.add(name)
        count = self.restarts[name]
        after = f" after {count} restart{'s' if count > 1 else ''}" if count else ""
        self._warn(f"{name} is given up{after}, {left} of {len(group)} go on: {cause}")
        return True

    @staticmethod
    def _warn(text: str) -> None:
        warnings.warn(text, RheosWarning, stacklevel=2)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
