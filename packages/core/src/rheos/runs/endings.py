"""Endings: what is done at the end, all of it, whatever fails; the first error goes on, later ones are its notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["afterwards", "do_all", "in_one_line", "on_failure"]

Action = Callable[[], object]


@contextmanager
def afterwards(action: Action) -> Iterator[None]:
    """Do something at the end of a block, also where the block failed."""
    with on_failure(action):
        yield
    action()


@contextmanager
def on_failure(action: Action) -> Iterator[None]:
    """Do something at the end of a block that failed; where that fails, too, it is a note of the error that goes on."""
    try:
        yield
    except BaseException as error:
        try:
            action()
        except Exception as another:
            for line in (f"and then: {in_one_line(another)}", *getattr(another, "__notes__", ())):
                error.add_note(line)
        raise


def do_all(*actions: Action) -> None:
    """Do one thing after the other, each of them whatever the others raise.

    Example:
        >>> try:
        ...     do_all(lambda: 1 / 0, lambda: print("second"), lambda: [][0])
        ... except ZeroDivisionError as error:
        ...     print(error, error.__notes__)
        second
        division by zero ['and then: IndexError: list index out of range']
    """
    if actions:
        first, *others = actions
        with afterwards(lambda: do_all(*others)):
            first()


def in_one_line(error: BaseException) -> str:
    """Return the type of an error and the first line of its message.

    Example:
        >>> in_one_line(ValueError("the learning rate is negative"))
        'ValueError: the learning rate is negative'
    """
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}"
