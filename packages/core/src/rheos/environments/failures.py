"""How failures of environments are told: worker, environment, step, cause."""

from __future__ import annotations

from rheos.errors import EnvironmentFailed

__all__ = ["SubprocessFailed", "cause_of", "environment_failed"]


class SubprocessFailed(Exception):
    """An environment failed in a process of its own; the far traceback is its note.

    Args:
        index: which environment.
        cause: type and message of what it raised.
        trace: its traceback, as text; "" where there is none, since the process is gone.
    """

    def __init__(self, index: int, cause: str, trace: str) -> None:
        super().__init__(f"environment {index}: {cause}")
        self.index = index
        self.cause = cause
        self._trace = trace
        if trace:
            self.add_note(f"Traceback in the process of environment {index}:\n{trace.rstrip()}")

    def __reduce__(self) -> tuple[type[SubprocessFailed], tuple[int, str, str]]:
        return type(self), (self.index, self.cause, self._trace)


def cause_of(error: BaseException) -> str:
    """Return type and message of an error in one line.

    Example:
        >>> cause_of(ZeroDivisionError("division by zero")), cause_of(StopIteration())
        ('ZeroDivisionError: division by zero', 'StopIteration')
    """
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def environment_failed(error: BaseException, *, worker: str, step: int, index: int | None = None) -> EnvironmentFailed:
    """Return the error to raise from `error`; step 0 is the first reset.

    Example:
        >>> environment_failed(ZeroDivisionError("division by zero"), worker="rollout-1", step=512, index=3)
        EnvironmentFailed('rollout-1, environment 3, step 512: ZeroDivisionError: division by zero')
    """
    cause = cause_of(error)
    if isinstance(error, SubprocessFailed):
        index, cause = error.index, error.cause
    where = worker if index is None else f"{worker}, environment {index}"
    return EnvironmentFailed(f"{where}, {f'step {step}' if step else 'reset'}: {cause}")
