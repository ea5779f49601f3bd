"""Last words: what lives in a process of its own may end that process, and say why to whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["end_process", "set_ending"]


def _end_nothing(reason: str) -> None:
    raise RuntimeError(f"this process is not an actor's own, and goes on: {reason}")


_end: Callable[[str], None] = _end_nothing


def set_ending(end: Callable[[str], None]) -> None:
    """Say how this process ends, for an executor that has made it for one actor; `end(reason)` does not return."""
    global _end
    _end = end


def end_process(reason: str) -> None:
    """End this process at once, whatever it does; from any thread.

    Args:
        reason: a sentence with the name of the actor: the message of the `ActorDied`.

    Raises:
        RuntimeError: if the process is not an actor's own.
    """
    _end(reason)
