"""Whether an environment repeats itself where it should, and only there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np

from rheos.environments.findings import Finding, Verdict
from rheos.environments.trying import Trouble, are_equal, attempt, random_action

__all__ = ["findings_of_seeds"]

_MAX_STEPS = 100


def findings_of_seeds(
    make: Callable[[], gym.Env[Any, Any]], env: gym.Env[Any, Any], seconds: float
) -> Iterator[Finding]:
    """Play a seed twice in an environment and once in another one, then another seed, then none.

    Args:
        make: makes the other one.
        env: has been stepped before.
        seconds: about how long all this may take; every trajectory has one step at least.
    """
    share = seconds / 4
    other_env: gym.Env[Any, Any] | None = None
    try:
        first = _trajectory(env, 1, share)
        again = _trajectory(env, 1, share)
        other_env = attempt("making a second one", make)
        elsewhere = _trajectory(other_env, 1, share)
        another = _trajectory(env, 2, share)
        unseeded = [deepcopy(attempt("a reset without a seed", env.reset)[0]) for _ in range(2)]
    except Trouble as trouble:
        yield Finding("seeds", Verdict.PROBLEM, str(trouble))
        return
    finally:
        if other_env is not None:
            with suppress(Exception):  # the check of close tells
                other_env.close()
    yield _of_trajectories(first, again, elsewhere, another, unseeded)


def _of_trajectories(
    first: list[Any], again: list[Any], elsewhere: list[Any], another: list[Any], unseeded: list[Any]
) -> Finding:
    where = _difference(first, again)
    if where is not None:
        text = f"the same seed and actions gave something else in {where}: runs do not repeat. "
        hint = "Draw from self.np_random only, and let nothing outlive a reset."
        return Finding("seeds", Verdict.WARNING, text + hint)
    where = _difference(first, elsewhere)
    if where is not None:
        text = f"a second environment, made alike, gave something else in {where}: runs do not repeat. "
        return Finding(
            "seeds", Verdict.WARNING, text + "What its constructor draws cannot be seeded: draw it in reset."
        )
    if _difference(first, another) is None:
        text = "another seed gave the same episode: nothing in it is random, or reset does not pass its seed on"
        return Finding("seeds", Verdict.WARNING, text)
    if not are_equal(first[0], another[0]) and are_equal(*unseeded):
        text = "every reset without a seed starts the same episode: reset should seed only where it is given one"
        return Finding("seeds", Verdict.WARNING, text)
    steps = min(len(first), len(again), len(elsewhere)) - 1
    return Finding("seeds", Verdict.OK, f"the same seed repeats ({steps} steps compared), another one differs")


def _difference(one: list[Any], two: list[Any]) -> str | None:
    """Return where two trajectories differ; the time may have cut one of them earlier."""
    for step, (mine, other) in enumerate(zip(one, two, strict=False)):
        if not are_equal(mine, other):
            return f"step {step}" if step else "reset"
    return None


def _trajectory(env: gym.Env[Any, Any], seed: int, seconds: float) -> list[Any]:
    """Play until the episode or the time is over; the same seed draws the same actions."""
    deadline = time.perf_counter() + seconds
    env.action_space.seed(0)
    observation, _ = attempt(f"reset(seed={seed})", env.reset, seed=seed)
    trajectory: list[Any] = [deepcopy(observation)]
    for step in range(1, _MAX_STEPS + 1):
        action = random_action(env.action_space, observation)
        what = f"step {step} after reset(seed={seed})"
        observation, reward, terminated, truncated, _ = attempt(what, env.step, action)
        number = float(np.asarray(reward).item())
        trajectory.append((deepcopy(observation), number, bool(terminated), bool(truncated)))
        if terminated or truncated or time.perf_counter() > deadline:
            break
    return trajectory
