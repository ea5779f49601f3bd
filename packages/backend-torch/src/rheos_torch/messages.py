"""What torch says when it fails, cut to what fits into one line."""

from __future__ import annotations

__all__ = ["first_lines"]


def first_lines(error: BaseException) -> str:
    r"""Return the first two lines of an error's text as one, at most 200 characters, or its type where it has none.

    Example:
        >>> first_lines(ValueError("a\n  b\nc"))
        'a b'
        >>> first_lines(ValueError())
        'ValueError'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:200] or type(error).__name__
