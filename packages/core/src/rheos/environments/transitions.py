"""What `step` and `reset` of an environment give, refused by name where it is something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.errors import ShapeError

__all__ = ["signals_of", "signals_of_all", "values_of_reset", "values_of_step"]

_STEP = ("observation", "reward", "terminated", "truncated", "info")
_RESET = ("observation", "info")
_REALS = frozenset({float, int, np.float64, np.float32, np.int64})
_FLAGS = frozenset({bool, np.bool_})
_BOOL = np.dtype(np.bool_)


def values_of_step(stepped: Any) -> Sequence[Any]:
    """Return the five values of a step; what they are is not looked at.

    Raises:
        TypeError: if there are not five.

    Example:
        >>> values_of_step((0.5, 1.0, False, {}))
        Traceback (most recent call last):
        TypeError: step() gave 4 values, expected 5: observation, reward, terminated, truncated, info
    """
    return _values(stepped, "step", _STEP)


def values_of_reset(started: Any) -> Sequence[Any]:
    """Return the two values of a reset.

    Raises:
        TypeError: if there are not two.

    Example:
        >>> values_of_reset(np.zeros(2))
        Traceback (most recent call last):
        TypeError: reset() gave a ndarray, expected 2 values: observation, info
    """
    return _values(started, "reset", _RESET)


def signals_of(reward: Any, terminated: Any, truncated: Any) -> tuple[float, bool, bool]:
    """Return what a single environment says of a step as Python's own numbers.

    NumPy would take None for a reward of NaN, text for the number in it, and any text for True.

    Raises:
        TypeError: if the reward is no real number, or a flag neither True nor False, nor 1 nor 0.

    Example:
        >>> signals_of(np.float32(0.5), np.True_, 0)
        (0.5, True, False)
        >>> signals_of("1.0", False, False)
        Traceback (most recent call last):
        TypeError: reward is '1.0' (str), expected a number
    """
    if type(reward) not in _REALS:
        reward = _single("reward", reward, "a number")
    if type(terminated) not in _FLAGS:
        terminated = _flag("terminated", terminated)
    if type(truncated) not in _FLAGS:
        truncated = _flag("truncated", truncated)
    return float(reward), bool(terminated), bool(truncated)


def signals_of_all(
    rewards: Any, terminated: Any, truncated: Any, num_envs: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return what a vector environment says of a step, `[B]` each.

    Raises:
        ShapeError: if there is not one value for each environment.
        TypeError: if the rewards are no real numbers, or a flag is neither True nor False, nor 1 nor 0.

    Example:
        >>> signals_of_all([1, 0.5], [0, 1], [False, False], 2)
        (array([1. , 0.5], dtype=float32), array([False,  True]), array([False, False]))
    """
    rewards, terminated, truncated = np.asarray(rewards), np.asarray(terminated), np.asarray(truncated)
    is_usual = rewards.dtype.kind == "f" and terminated.dtype is _BOOL and truncated.dtype is _BOOL
    if not (is_usual and (num_envs,) == rewards.shape == terminated.shape == truncated.shape):
        _refuse("reward", rewards, num_envs, "numbers")
        terminated = _flags("terminated", terminated, num_envs)
        truncated = _flags("truncated", truncated, num_envs)
    return rewards.astype(np.float32, copy=False), terminated, truncated


def _flags(name: str, flags: npt.NDArray[Any], num_envs: int) -> npt.NDArray[np.bool_]:
    _refuse(name, flags, num_envs, "bools")
    is_flag = (flags == 0) | (flags == 1)
    if not is_flag.all():
        index = int(np.argmin(is_flag))
        raise TypeError(f"{name} is {flags[index]} in environment {index}, expected True or False")
    return flags.astype(np.bool_)


def _refuse(name: str, array: npt.NDArray[Any], num_envs: int, expected: str) -> None:
    if array.shape != (num_envs,):
        raise ShapeError(f"{name} has shape {array.shape}, expected ({num_envs},)")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}, expected {expected}")


def _values(given: Any, method: str, names: tuple[str, ...]) -> Sequence[Any]:
    expected = ", ".join(names)
    if not isinstance(given, tuple | list):
        raise TypeError(f"{method}() gave a {type(given).__name__}, expected {len(names)} values: {expected}")
    if len(given) != len(names):
        raise TypeError(f"{method}() gave {len(given)} values, expected {len(names)}: {expected}")
    return given


def _single(name: str, value: Any, expected: str) -> Any:
    """Return a real number or a bool; an array of one entry is taken for it."""
    try:
        array = np.asarray(value)
    except ValueError:  # nested lists of different lengths
        array = np.empty(0)
    if array.size == 1 and array.dtype.kind in "biuf":
        return array.item()
    text = " ".join(repr(value).split())
    text = text if len(text) <= 60 else f"{text[:57]}..."
    raise TypeError(f"{name} is {text} ({type(value).__name__}), expected {expected}")


def _flag(name: str, value: Any) -> bool:
    flag = _single(name, value, "True or False")
    if flag not in (0, 1):
        raise TypeError(f"{name} is {flag}, expected True or False")
    return bool(flag)
