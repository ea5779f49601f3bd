"""What Ray raises, in our words."""

from __future__ import annotations

from ray import exceptions

__all__ = ["GONE", "first_line", "why_gone"]

GONE = (exceptions.RayActorError, exceptions.RuntimeEnvSetupError, exceptions.ActorUnschedulableError)
"""What Ray raises where there is no process, or will never be one."""


def first_line(error: BaseException | str) -> str:
    """Return the first line of what Ray tells in many."""
    return str(error).strip().partition("\n")[0]


def why_gone(error: exceptions.RayError) -> str:
    """Return what Ray knows of the end of a process, which it tells in many lines."""
    text = " ".join(str(error).split())
    for sign, why in _ENDS.items():
        if sign in text:
            return why
    return text


_ENDS = {
    "connection error code 2": "its process was killed, or ended itself (by SIGKILL, for want of memory, or a crash).",
    "its node has died": "the machine that it lived on is gone.",
    "node was terminated": "the machine that it lived on is gone.",
    "it was killed by `ray.kill`": "its process was ended.",
}
