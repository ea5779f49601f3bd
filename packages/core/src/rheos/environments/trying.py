"""Code of an environment's author, called so that whatever it raises is told in one line with its own place."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces

from rheos.environments.failures import cause_of
from rheos.spaces import ACTION_MASK

__all__ = ["Trouble", "are_equal", "attempt", "random_action"]

T = TypeVar("T")
_NOT_THE_AUTHORS = {"rheos", "gymnasium", "numpy", *sys.stdlib_module_names}


class Trouble(Exception):
    """An environment raised; the message says in what, why, and where in its author's code."""


def attempt(what: str, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Call code of an environment's author.

    Raises:
        Trouble: if it raises anything but KeyboardInterrupt; SystemExit, too.

    Example:
        >>> attempt("step 3", divmod, 1, 0)
        Traceback (most recent call last):
        rheos.environments.trying.Trouble: step 3 raised ZeroDivisionError: integer division or modulo by zero
    """
    try:
        return function(*arguments, **named)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Trouble(f"{what} raised {cause_of(error)}{_place_of(error)}") from error


def _place_of(error: BaseException) -> str:
    """Return the last line that the environment's author wrote: ` (my_env.py:31, in step)`."""
    frames = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _NOT_THE_AUTHORS
    ]
    if not frames:
        return ""
    file, line, function = frames[-1]
    return f" ({os.path.basename(file)}:{line}, in {function})"


def random_action(actions: spaces.Space[Any], observation: Any) -> Any:
    """Draw an action of a space; where the observation has a mask, only what it allows, as policies do."""
    mask = observation.get(ACTION_MASK) if isinstance(observation, dict) else None
    if mask is None:
        return actions.sample()
    flat = np.ravel(mask).astype(np.int8)
    if isinstance(actions, spaces.Discrete):
        return actions.sample(mask=flat)
    if isinstance(actions, spaces.MultiDiscrete) and actions.nvec.ndim == 1:
        return actions.sample(mask=tuple(np.split(flat, np.cumsum(actions.nvec)[:-1])))
    return actions.sample()


def are_equal(one: Any, two: Any) -> bool:
    """Tell whether two observations, or two steps, are the same; NaN is equal to itself.

    Example:
        >>> are_equal({"a": (np.zeros(2), 1.0)}, {"a": (np.zeros(2), 1.0)})
        True
    """
    if isinstance(one, dict):
        return isinstance(two, dict) and one.keys() == two.keys() and all(are_equal(one[key], two[key]) for key in one)
    if isinstance(one, tuple):
        return (
            isinstance(two, tuple)
            and len(one) == len(two)
            and all(are_equal(*pair) for pair in zip(one, two, strict=True))
        )
    first, second = np.asarray(one), np.asarray(two)
    if first.dtype.kind in "fc" and second.dtype.kind in "fc":
        return np.array_equal(first, second, equal_nan=True)
    return np.array_equal(first, second)
