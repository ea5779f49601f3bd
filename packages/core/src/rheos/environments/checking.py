"""check_environment: whether an environment is what Rheos, and Gymnasium, take it for; told check by check."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rheos.environments.failures import cause_of
from rheos.environments.native import NativeEnvironments
from rheos.environments.transitions import signals_of, values_of_reset, values_of_step
from rheos.errors import ObservationOutside, RheosError, SpaceError
from rheos.spaces import ActionAdapter, ObservationAdapter
from rheos.spaces.fitting import ObservationCheck
from rheos.spaces.tree import batched, leaves

__all__ = ["Finding", "Verdict", "check_environment"]

MAX_STEPS = 2_000
"""As many random steps are taken at most, however fast the environment is."""
_REPEATED_STEPS = 100
_NUM_ENVS = 8


class Verdict(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    """Training works, but not as it might be expected to."""
    PROBLEM = "problem"
    """Training fails, or learns from what is not so."""


class Finding(NamedTuple):
    """What a check found."""

    check: str
    verdict: Verdict
    message: str


@dataclass
class _Walk:
    """What random steps showed."""

    steps: int = 0
    seconds: float = 0.0
    terminated: int = 0
    truncated: int = 0
    rewrites: bool = False
    """Whether an observation was written over by the next step."""
    problems: list[str] = field(default_factory=list)


def check_environment(
    make: Callable[[], gym.Env[Any, Any]],
    make_vector: Callable[[int], gym.vector.VectorEnv[Any, Any, Any]] | None = None,
    *,
    seconds: float = 5.0,
) -> Iterator[Finding]:
    """Check an environment and yield each finding as soon as it is there.

    Args:
        make: makes a single environment.
        make_vector: makes so many that are stepped together, where the environment brings that.
        seconds: about how long random steps may take in all.

    Example:
        >>> findings = list(check_environment(lambda: gym.make("CartPole-v1"), seconds=0.5))
        >>> [finding.check for finding in findings if finding.verdict is Verdict.PROBLEM]
        []
    """
    try:
        env = make()
    except Exception as error:
        yield Finding("made", Verdict.PROBLEM, f"it cannot be made: {cause_of(error)}")
        return
    try:
        supported, message = _spaces(env)
        yield Finding("spaces", Verdict.OK if supported else Verdict.PROBLEM, message)
        started = _reset(env, 0)
        if isinstance(started, str):
            yield Finding("reset", Verdict.PROBLEM, started)
            return
        yield Finding("reset", Verdict.OK, "gives an observation of its space, and info")
        random_before = _global_randomness()
        walk = _random_walk(env, seconds / 2)
        yield from _of_walk(walk)
        if walk.problems:
            return
        yield _of_extremes(env)
        yield from _of_repetition(env)
        if _global_randomness() != random_before:
            text = "it draws from a global generator (np.random or random): use self.np_random, or runs do not repeat"
            yield Finding("randomness", Verdict.WARNING, text)
        yield _of_rendering(env)
        if make_vector is not None:
            yield from _of_vector(make_vector, env, seconds / 2)
    finally:
        closed = _close(env)
    yield closed


def _spaces(env: gym.Env[Any, Any]) -> tuple[bool, str]:
    try:
        columns = ObservationAdapter(env.observation_space, env.action_space).columns
        actions = ActionAdapter(env.action_space)
    except SpaceError as error:
        return False, str(error)
    except Exception as error:
        return False, f"observation_space or action_space is no Gymnasium space: {cause_of(error)}"
    seen = ", ".join(f"{name} {list(column.shape)} {column.dtype}" for name, column in columns.items())
    return True, f"{env.observation_space} -> {seen}; {env.action_space} -> {list(actions.shape)} {actions.dtype}"


def _reset(env: gym.Env[Any, Any], seed: int | None) -> Any:
    """Return the first observation, as a tuple of one; or why it is none, as text."""
    try:
        started = env.reset(seed=seed)
    except Exception as error:
        return f"reset raised {cause_of(error)}"
    try:
        observation, _ = values_of_reset(started)
    except TypeError as error:
        return str(error)
    return _fitting(env, observation) or (observation,)


def _fitting(env: gym.Env[Any, Any], observation: Any) -> str | None:
    """Return why an observation does not fit its space, or None."""
    try:
        ObservationCheck(env.observation_space)(observation)
        adapter = ObservationAdapter(env.observation_space, env.action_space)
        fault = adapter.fault(adapter.encode(batched(env.observation_space, [observation])))
    except ObservationOutside as error:
        return str(error)
    except (RheosError, TypeError, OverflowError, ValueError, KeyError, IndexError) as error:
        return cause_of(error)
    return None if fault is None else f"{fault.leaf} {fault.what}"


def _random_walk(env: gym.Env[Any, Any], seconds: float) -> _Walk:
    """Step at random, looking at everything, until the time is over or something is wrong."""
    walk = _Walk()
    given: Any = None
    kept: Any = None
    env.action_space.seed(0)
    deadline = time.perf_counter() + seconds
    while walk.steps < MAX_STEPS and time.perf_counter() < deadline and not walk.problems:
        walk.steps += 1
        began = time.perf_counter()
        try:
            stepped = env.step(env.action_space.sample())
        except Exception as error:
            walk.problems.append(f"step {walk.steps} raised {cause_of(error)}")
            break
        walk.seconds += time.perf_counter() - began
        try:
            observation, reward, terminated, truncated, _ = values_of_step(stepped)
            reward, terminated, truncated = signals_of(reward, terminated, truncated)
        except TypeError as error:
            walk.problems.append(f"step {walk.steps}: {error}")
            break
        wrong = None if np.isfinite(reward) else f"reward is {reward}, expected a finite number"
        wrong = wrong or _fitting(env, observation)
        if wrong is not None:
            walk.problems.append(f"step {walk.steps}: {wrong}")
            break
        walk.terminated += terminated
        walk.truncated += truncated
        if walk.steps == 1:
            given, kept = observation, deepcopy(observation)
        elif walk.steps == 2:
            walk.rewrites = not _are_equal(kept, given)
        if terminated or truncated:
            started = _reset(env, None)
            if isinstance(started, str):
                walk.problems.append(f"after the episode that ended in step {walk.steps}: {started}")
    return walk


def _of_walk(walk: _Walk) -> Iterator[Finding]:
    if walk.problems:
        yield Finding("steps", Verdict.PROBLEM, walk.problems[0])
        return
    yield Finding("steps", Verdict.OK, f"{walk.steps:,} at random, all observations and rewards as they should be")
    ends = f"{walk.terminated} terminated, {walk.truncated} truncated"
    if walk.terminated or walk.truncated:
        yield Finding("episodes", Verdict.OK, f"{ends} in {walk.steps:,} steps")
    else:
        text = f"none ended in {walk.steps:,} steps: without an end (a time limit, say) there are no returns to see"
        yield Finding("episodes", Verdict.WARNING, text)
    if walk.rewrites:
        text = "an observation is written over by the next step: Rheos copies it, other code may not"
        yield Finding("copies", Verdict.WARNING, text)
    yield Finding("speed", Verdict.OK, f"{walk.steps / max(walk.seconds, 1e-9):,.0f} steps/s, one environment")


def _of_extremes(env: gym.Env[Any, Any]) -> Finding:
    """Take the actions at the bounds of every Box."""
    boxes = [leaf for leaf in leaves(env.action_space, "action") if isinstance(leaf.space, spaces.Box)]
    if not boxes:
        return Finding("actions", Verdict.OK, "every one may be drawn")
    adapter = ActionAdapter(env.action_space)
    for value in (-1.0, 1.0):
        encoded = np.zeros((1, *adapter.shape), np.float32)
        for part in adapter.parts:
            if isinstance(part.leaf.space, spaces.Box):
                encoded[:, part.place] = value
        action = next(iter(gym.vector.utils.iterate(_batch_space(env), adapter.decode(encoded))))
        try:
            env.reset(seed=0)
            env.step(action)
        except Exception as error:
            return Finding("actions", Verdict.PROBLEM, f"the action {action} of its space raised {cause_of(error)}")
    return Finding("actions", Verdict.OK, "also those at the bounds are taken")


def _batch_space(env: gym.Env[Any, Any]) -> Any:
    return gym.vector.utils.batch_space(env.action_space, 1)


def _of_repetition(env: gym.Env[Any, Any]) -> Iterator[Finding]:
    """Play the same seed twice, and another one."""
    try:
        first, again, other = (_trajectory(env, seed) for seed in (1, 1, 2))
    except Exception as error:
        yield Finding("seeds", Verdict.PROBLEM, f"a reset with a seed, or what followed, raised {cause_of(error)}")
        return
    for step, (one, two) in enumerate(zip(first, again, strict=False)):
        if not _are_equal(one, two):
            where = f"step {step}" if step else "reset"
            text = f"the same seed and actions gave something else in {where}: runs do not repeat"
            yield Finding("seeds", Verdict.WARNING, text)
            return
    if all(_are_equal(one, two) for one, two in zip(first, other, strict=False)):
        text = "another seed gave the same episode: nothing in it is random, or reset does not pass its seed on"
        yield Finding("seeds", Verdict.WARNING, text)
        return
    yield Finding("seeds", Verdict.OK, "the same seed repeats, another one differs")


def _trajectory(env: gym.Env[Any, Any], seed: int) -> list[Any]:
    env.action_space.seed(0)
    observation, _ = env.reset(seed=seed)
    trajectory: list[Any] = [deepcopy(observation)]
    for _ in range(_REPEATED_STEPS):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        trajectory.append((deepcopy(observation), float(np.asarray(reward).item()), terminated, truncated))
        if terminated or truncated:
            break
    return trajectory


def _are_equal(one: Any, two: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_are_equal(one[key], two[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(two) and all(_are_equal(*pair) for pair in zip(one, two, strict=True))
    return bool(np.array_equal(one, two))


def _global_randomness() -> tuple[Any, ...]:
    """Return what changes where somebody draws from a global generator."""
    _, keys, position, *_ = np.random.get_state()  # noqa: NPY002 - looked at, never drawn from
    return hash(np.asarray(keys).tobytes()), position, hash(random.getstate())


def _of_rendering(env: gym.Env[Any, Any]) -> Finding:
    modes = env.metadata.get("render_modes") or []
    if "rgb_array" in modes:
        return Finding("rendering", Verdict.OK, "rgb_array: `rheos eval --video` can film it")
    text = f"render_modes are {list(modes)}, without rgb_array: it cannot be filmed"
    return Finding("rendering", Verdict.WARNING, text)


def _of_vector(
    make: Callable[[int], gym.vector.VectorEnv[Any, Any, Any]], single: gym.Env[Any, Any], seconds: float
) -> Iterator[Finding]:
    """Step many at once, as training does."""
    environments: NativeEnvironments | None = None
    try:
        environments = NativeEnvironments(make(_NUM_ENVS), seed=0, worker="check")
        found = environments.spaces
        if (found.observation, found.action) != (single.observation_space, single.action_space):
            text = f"sees {found.observation} and {found.action}, one alone the spaces above: training takes these"
            yield Finding("vector spaces", Verdict.WARNING, text)
        adapter, actions = ObservationAdapter(found.observation, found.action), ActionAdapter(found.action)
        generator = np.random.default_rng(0)
        environments.reset()
        steps, ends, busy_s, deadline = 0, 0, 0.0, time.perf_counter() + seconds
        while steps < MAX_STEPS and time.perf_counter() < deadline:
            decoded = actions.decode(_random_actions(actions, generator))
            began = time.perf_counter()
            step = environments.step(decoded)
            busy_s += time.perf_counter() - began
            steps, ends = steps + 1, ends + int((step.terminated | step.truncated).sum())
            fault = adapter.fault(adapter.encode(step.observations))
            if fault is not None:
                text = f"environment {fault.row}, step {steps}: {fault.leaf} {fault.what}"
                yield Finding("vector steps", Verdict.PROBLEM, text)
                return
        speed = steps * _NUM_ENVS / max(busy_s, 1e-9)
        text = f"{steps:,} steps of {_NUM_ENVS} environments, {ends} episodes ended, {speed:,.0f} steps/s together"
        yield Finding("vector steps", Verdict.OK, text)
    except Exception as error:
        yield Finding("vector steps", Verdict.PROBLEM, cause_of(error))
    finally:
        if environments is not None:
            with suppress(Exception):
                environments.close()


def _random_actions(actions: ActionAdapter, generator: np.random.Generator) -> Any:
    """Draw encoded actions for all environments."""
    encoded = np.zeros((_NUM_ENVS, *actions.shape), actions.dtype)
    flat = encoded.reshape(_NUM_ENVS, -1)
    for part in actions.parts:
        space: Any = part.leaf.space
        if isinstance(space, spaces.Box):
            flat[:, part.place] = generator.uniform(-1.0, 1.0, flat[:, part.place].shape)
        else:
            flat[:, part.place] = generator.integers(0, _num_values(space), flat[:, part.place].shape)
    return encoded


def _num_values(space: Any) -> Any:
    """Return how many values each entry of a discrete leaf has."""
    if isinstance(space, spaces.MultiBinary):
        return 2
    return space.nvec.ravel() if isinstance(space, spaces.MultiDiscrete) else space.n


def _close(env: gym.Env[Any, Any]) -> Finding:
    try:
        env.close()
    except Exception as error:
        return Finding("close", Verdict.PROBLEM, f"close raised {cause_of(error)}")
    return Finding("close", Verdict.OK, "closes")
