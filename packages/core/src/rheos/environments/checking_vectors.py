"""Whether a vector environment is what it says, above all when it resets itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np

from rheos.environments.environment import VectorStep
from rheos.environments.failures import cause_of
from rheos.environments.findings import Finding, Verdict
from rheos.environments.native import NativeEnvironments
from rheos.environments.trying import are_equal, attempt, random_action
from rheos.errors import RheosError
from rheos.spaces import ActionAdapter, ObservationAdapter, Spaces
from rheos.spaces.tree import batched, rows

__all__ = ["findings_of_vector"]

_MAX_STEPS = 2_000
_NUM_ENVS = 8


class _Overheard(gym.vector.VectorWrapper[Any, Any, Any]):
    """Remembers what the vector environment itself said of the last step."""

    def step(self, actions: Any) -> Any:
        stepped = self.env.step(actions)
        if isinstance(stepped, tuple) and len(stepped) == 5:  # else who asked tells
            self.rewards, self.info = np.asarray(stepped[1]), stepped[4]
        return stepped


def findings_of_vector(
    make: Callable[[int], gym.vector.VectorEnv[Any, Any, Any]], single: Spaces | None, seconds: float
) -> Iterator[Finding]:
    """Step many at once, as training does.

    Args:
        make: makes so many.
        single: the spaces of one alone, where there is that.
        seconds: about how long to step.
    """
    environments: NativeEnvironments | None = None
    try:
        overheard = _Overheard(attempt("making the vector environment", make, _NUM_ENVS))
        environments = NativeEnvironments(overheard, seed=0, worker="check")
        found = environments.spaces
        if single is not None and found != single:
            text = f"sees {found.observation} and {found.action}, one alone the spaces above: training takes these"
            yield Finding("vector spaces", Verdict.WARNING, text)
        yield from _of_seeds(environments)
        yield from _of_steps(environments, overheard, seconds)
    except KeyboardInterrupt:
        raise
    except RheosError as error:
        yield Finding("vector steps", Verdict.PROBLEM, str(error))
    except BaseException as error:  # SystemExit, too
        yield Finding("vector steps", Verdict.PROBLEM, cause_of(error))
    finally:
        if environments is not None:
            with suppress(Exception):
                environments.close()


def _of_seeds(environments: NativeEnvironments) -> Iterator[Finding]:
    first = deepcopy(environments.reset())
    if not are_equal(first, environments.reset()):
        text = "the same seed gave other first observations: runs do not repeat"
        yield Finding("vector seeds", Verdict.WARNING, text)
        return
    other = environments.reset(1)
    each = [rows(first, np.arange(_NUM_ENVS) == index) for index in range(_NUM_ENVS)]
    if not are_equal(first, other) and all(are_equal(each[0], one) for one in each[1:]):
        text = f"all {_NUM_ENVS} environments start alike: each should draw numbers of its own from the seed"
        yield Finding("vector seeds", Verdict.WARNING, text)


def _of_steps(environments: NativeEnvironments, overheard: _Overheard, seconds: float) -> Iterator[Finding]:
    found = environments.spaces
    adapter = ObservationAdapter(found.observation, found.action)
    ActionAdapter(found.action)  # refuses what cannot be acted in
    found.action.seed(0)
    observations = environments.reset()
    steps, ends, busy_s, deadline = 0, 0, 0.0, time.perf_counter() + seconds
    while steps < _MAX_STEPS and (not steps or time.perf_counter() < deadline):
        actions = _random_actions(found, observations)
        began = time.perf_counter()
        step = environments.step(actions)
        busy_s += time.perf_counter() - began
        observations = step.observations
        steps, ends = steps + 1, ends + int((step.terminated | step.truncated).sum())
        wrong = _misdeclared(step, overheard)
        if wrong is not None:
            yield Finding("autoreset", wrong[0], f"step {steps}: {wrong[1]}")
            return
        fault = adapter.fault(adapter.encode(observations))
        if fault is not None:
            text = f"environment {fault.row}, step {steps}: {fault.leaf} {fault.what}"
            yield Finding("vector steps", Verdict.PROBLEM, text)
            return
    speed = steps * _NUM_ENVS / max(busy_s, 1e-9)
    text = f"{steps:,} steps of {_NUM_ENVS} environments, {ends} episodes ended, {speed:,.0f} steps/s together"
    yield Finding("vector steps", Verdict.OK, text)


def _misdeclared(step: VectorStep, overheard: _Overheard) -> tuple[Verdict, str] | None:
    """Return why NEXT_STEP is not what it does; the other modes say so themselves, by a final_obs that is missing."""
    has_ended = bool((step.terminated | step.truncated).any())
    if has_ended and step.final_observations is None and overheard.info.get("final_obs") is not None:
        text = "says AutoresetMode.NEXT_STEP, but gives final_obs where an episode ends, as SAME_STEP does"
        return Verdict.PROBLEM, f"{text}: declare that"
    only_reset = ~step.is_transition
    if only_reset.any() and overheard.rewards[only_reset].any():
        index = int(np.flatnonzero(only_reset)[0])
        reward = overheard.rewards[index]
        text = (
            f"says AutoresetMode.NEXT_STEP, but environment {index} gave the reward {reward:g} in the step after an end"
        )
        return Verdict.WARNING, f"{text}, which should only reset: if it resets at once, declare SAME_STEP"
    return None


def _random_actions(found: Spaces, observations: Any) -> Any:
    """Draw an action for each environment, as its mask allows."""
    each = [np.arange(_NUM_ENVS) == index for index in range(_NUM_ENVS)]
    masked = isinstance(observations, dict)
    singles = [random_action(found.action, rows(observations, mask) if masked else None) for mask in each]
    return batched(found.action, singles)
