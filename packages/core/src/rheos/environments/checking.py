"""check_environment: whether an environment is what Rheos, and Gymnasium, take it for; told check by check."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rheos.environments.checking_vectors import findings_of_vector
from rheos.environments.failures import cause_of
from rheos.environments.findings import Finding, Verdict
from rheos.environments.repeating import findings_of_seeds
from rheos.environments.transitions import signals_of, values_of_reset, values_of_step
from rheos.environments.trying import Trouble, are_equal, attempt, random_action
from rheos.errors import ObservationOutside, RheosError, SpaceError
from rheos.spaces import ActionAdapter, ObservationAdapter, Spaces
from rheos.spaces.fitting import ARRAY_SPACES, ObservationCheck
from rheos.spaces.tree import batched, leaves

__all__ = ["Finding", "Verdict", "check_environment"]

MAX_STEPS = 2_000
"""As many random steps are taken at most, however fast the environment is."""


@dataclass
class _Walk:
    """What random steps showed."""

    steps: int = 0
    seconds: float = 0.0
    terminated: int = 0
    truncated: int = 0
    odd: str = ""
    """What Rheos takes all the same; "" for nothing."""
    rewrites: bool = False
    """Whether an observation was written over by the next step."""
    problems: list[str] = field(default_factory=list)


def check_environment(
    make: Callable[[], gym.Env[Any, Any]] | None,
    make_vector: Callable[[int], gym.vector.VectorEnv[Any, Any, Any]] | None = None,
    *,
    seconds: float = 5.0,
) -> Iterator[Finding]:
    """Check an environment and yield each finding as soon as it is there.

    Args:
        make: makes a single environment; None where there are only many at once.
        make_vector: makes so many that are stepped together, where the environment brings that.
        seconds: about how long it may be stepped in all. A step that hangs is waited for.

    Example:
        >>> findings = list(check_environment(lambda: gym.make("CartPole-v1"), seconds=0.5))
        >>> [finding.check for finding in findings if finding.verdict is Verdict.PROBLEM]
        []
    """
    if make is None:
        if make_vector is not None:
            yield from findings_of_vector(make_vector, None, seconds)
        return
    random_before = _global_randomness()
    try:
        env: Any = attempt("making it", make)  # of whatever type
    except Trouble as trouble:
        yield Finding("made", Verdict.PROBLEM, f"it cannot be made: {trouble}")
        return
    if not isinstance(env, gym.Env):
        yield Finding("made", Verdict.PROBLEM, f"got a {type(env).__name__}, expected a gymnasium.Env")
        return
    try:
        yield from _of_single(make, env, random_before, seconds)
        if make_vector is not None and _spaces(env)[0]:
            single = Spaces(env.observation_space, env.action_space)
            yield from findings_of_vector(make_vector, single, seconds / 4)
    finally:
        closed = _close(env)
    yield closed


def _of_single(
    make: Callable[[], gym.Env[Any, Any]], env: gym.Env[Any, Any], random_before: tuple[Any, ...], seconds: float
) -> Iterator[Finding]:
    supported, message = _spaces(env)
    yield Finding("spaces", Verdict.OK if supported else Verdict.PROBLEM, message)
    if not supported:
        return
    started = _reset(env, 0)
    if isinstance(started, str):
        yield Finding("reset", Verdict.PROBLEM, started)
        return
    yield Finding("reset", Verdict.OK, "gives an observation of its space, and info")
    walk = _random_walk(env, started[0], seconds / 4)
    yield from _of_walk(walk, getattr(env.spec, "max_episode_steps", None))
    if not walk.problems:
        yield _of_extremes(env)
        yield from findings_of_seeds(make, env, seconds / 4)
    if _global_randomness() != random_before:
        text = "it draws from a global generator (np.random or random): use self.np_random, or runs do not repeat"
        yield Finding("randomness", Verdict.WARNING, text)
    yield _of_rendering(env)


def _spaces(env: gym.Env[Any, Any]) -> tuple[bool, str]:
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, spaces.Space):
            return False, f"{name} is {space!r}, expected a space of Gymnasium: set it in the class or in __init__"
    try:
        columns = ObservationAdapter(env.observation_space, env.action_space).columns
        actions = ActionAdapter(env.action_space)
    except SpaceError as error:
        return False, str(error)
    seen = ", ".join(f"{name} {list(column.shape)} {column.dtype}" for name, column in columns.items())
    return True, f"{env.observation_space} -> {seen}; {env.action_space} -> {list(actions.shape)} {actions.dtype}"


def _reset(env: gym.Env[Any, Any], seed: int | None) -> Any:
    """Return the first observation, as a tuple of one; or why it is none, as text."""
    try:
        observation, _ = values_of_reset(attempt("reset", env.reset, seed=seed))
    except Trouble as trouble:
        is_unseeded = "unexpected keyword argument 'seed'" in str(trouble)
        return f"{trouble}{'. Expected reset(self, *, seed=None, options=None)' if is_unseeded else ''}"
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


def _random_walk(env: gym.Env[Any, Any], observation: Any, seconds: float) -> _Walk:
    """Step at random, looking at everything, until the time is over or something is wrong; one step at least."""
    walk = _Walk(odd=_odd_types(env, observation))
    given: Any = None
    kept: Any = None
    env.action_space.seed(0)
    deadline = time.perf_counter() + seconds
    while not walk.steps or (walk.steps < MAX_STEPS and time.perf_counter() < deadline and not walk.problems):
        walk.steps += 1
        action = random_action(env.action_space, observation)
        began = time.perf_counter()
        try:
            stepped = attempt(f"step {walk.steps}", env.step, action)
            walk.seconds += time.perf_counter() - began
            observation, reward, terminated, truncated, info = values_of_step(stepped)
            reward, terminated, truncated = signals_of(reward, terminated, truncated)
        except Trouble as trouble:
            walk.problems.append(str(trouble))
            break
        except TypeError as error:
            walk.problems.append(f"step {walk.steps}: {error}")
            break
        wrong = None if np.isfinite(reward) else f"reward is {reward}, expected a finite number"
        wrong = wrong or _fitting(env, observation)
        if wrong is not None:
            walk.problems.append(f"step {walk.steps}: {wrong}")
            break
        if not isinstance(info, dict):
            walk.odd = walk.odd or f"info is a {type(info).__name__}, expected a dict, which wrappers write into"
        walk.odd = walk.odd or _odd_types(env, observation)
        walk.terminated += terminated
        walk.truncated += truncated
        if walk.steps == 1:
            given, kept = observation, deepcopy(observation)
        elif walk.steps == 2:
            walk.rewrites = not are_equal(kept, given)
        if terminated or truncated:
            started = _reset(env, None)
            if isinstance(started, str):
                walk.problems.append(f"after the episode that ended in step {walk.steps}: {started}")
            else:
                observation = started[0]
    return walk


def _odd_types(env: gym.Env[Any, Any], observation: Any) -> str:
    """Return what Rheos takes all the same, and other libraries may not."""
    for leaf in leaves(env.observation_space, "observation"):
        part = leaf.take(observation)
        if not isinstance(leaf.space, ARRAY_SPACES) or isinstance(leaf.space, spaces.Discrete):
            continue
        if not isinstance(part, np.ndarray):
            return f"{leaf.path} is a {type(part).__name__}, expected an array"
        if part.dtype != leaf.space.dtype:
            return f"{leaf.path} is {part.dtype}, its space {leaf.space.dtype}: Rheos casts it, in every step"
    return ""


def _of_walk(walk: _Walk, limit: int | None) -> Iterator[Finding]:
    if walk.odd:
        yield Finding("types", Verdict.WARNING, walk.odd)
    if walk.problems:
        yield Finding("steps", Verdict.PROBLEM, walk.problems[0])
        return
    yield Finding("steps", Verdict.OK, f"{walk.steps:,} at random, all observations and rewards as they should be")
    ends = f"{walk.terminated} terminated, {walk.truncated} truncated"
    if walk.terminated or walk.truncated:
        yield Finding("episodes", Verdict.OK, f"{ends} in {walk.steps:,} steps")
    elif limit is not None:
        text = f"none ended in {walk.steps:,} steps; all are truncated after {limit:,}"
        yield Finding("episodes", Verdict.OK, text)
    else:
        text = (
            f"none ended in {walk.steps:,} steps: without an end there are no returns to see; "
            "wrap it in gymnasium.wrappers.TimeLimit, or register it with max_episode_steps"
        )
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
            attempt("reset(seed=0)", env.reset, seed=0)
            attempt(f"the action {action}, which its space has,", env.step, action)
        except Trouble as trouble:
            return Finding("actions", Verdict.PROBLEM, str(trouble))
    return Finding("actions", Verdict.OK, "also those at the bounds are taken")


def _batch_space(env: gym.Env[Any, Any]) -> Any:
    return gym.vector.utils.batch_space(env.action_space, 1)


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


def _close(env: gym.Env[Any, Any]) -> Finding:
    try:
        attempt("close", env.close)
    except Trouble as trouble:
        return Finding("close", Verdict.PROBLEM, str(trouble))
    return Finding("close", Verdict.OK, "closes")
