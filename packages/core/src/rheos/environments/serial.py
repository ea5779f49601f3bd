"""SerialEnvironments: single environments, stepped one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space, iterate

from rheos.environments.environment import VectorStep
from rheos.environments.failures import environment_failed
from rheos.errors import ShapeError
from rheos.seeds import integer_seed_for
from rheos.spaces import Spaces
from rheos.spaces.tree import batched

__all__ = ["SerialEnvironments"]

_ARRAY_SPACES = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)


class SerialEnvironments:
    """Steps single environments one after the other; one that ended is reset in the same step.

    Does what `gymnasium.vector.SyncVectorEnv` does in its SAME_STEP mode, but writes observations once instead
    of three times, builds no infos, and knows which environment failed.

    Args:
        make_envs: one function for each environment.
        seed: of the run.
        worker: who steps them.
    """

    def __init__(self, make_envs: Sequence[Callable[[], gym.Env[Any, Any]]], *, seed: int, worker: str) -> None:
        self.num_envs = len(make_envs)
        self._worker = worker
        self._seeds: list[int | None] = [integer_seed_for(seed, worker, "environment", i) for i in range(self.num_envs)]
        self._steps = 0
        self._envs: list[gym.Env[Any, Any]] = []
        try:
            self._envs.extend(make() for make in make_envs)
        except BaseException:
            self.close()
            raise
        self.spaces = Spaces(self._envs[0].observation_space, self._envs[0].action_space)
        has_arrays = isinstance(self.spaces.observation, _ARRAY_SPACES)  # then a batch is one array, written by row
        self._observation_shape = self.spaces.observation.shape if has_arrays else None
        self._batched_actions = batch_space(self.spaces.action, self.num_envs)
        self._is_transition = np.ones(self.num_envs, np.bool_)
        self._is_transition.flags.writeable = False

    def reset(self) -> Any:
        """Start all environments, seeded the first time."""
        observations: list[Any] = []
        try:
            for env, seed in zip(self._envs, self._seeds, strict=True):
                observations.append(env.reset(seed=seed)[0])
            batch = batched(self.spaces.observation, observations)
        except Exception as error:
            index = len(observations) if len(observations) < self.num_envs else None
            raise environment_failed(error, worker=self._worker, step=self._steps, index=index) from error
        self._seeds = [None] * self.num_envs
        return batch

    def step(self, actions: Any) -> VectorStep:
        """Take one action in each environment."""
        num_envs, shape = self.num_envs, self._observation_shape
        self._steps += 1
        rewards = np.empty(num_envs, np.float32)
        terminated = np.zeros(num_envs, np.bool_)
        truncated = np.zeros(num_envs, np.bool_)
        observations: Any = [None] * num_envs
        if shape is not None:
            observations = np.empty((num_envs, *shape), self.spaces.observation.dtype)
        final_observations: list[Any] = []
        index: int | None = None
        try:
            for index, (env, action) in enumerate(
                zip(self._envs, iterate(self._batched_actions, actions), strict=True)
            ):
                observation, rewards[index], is_terminated, is_truncated, _ = env.step(action)
                if is_terminated or is_truncated:
                    terminated[index], truncated[index] = is_terminated, is_truncated
                    final_observations.append(deepcopy(observation))  # reset may write into the same array
                    observation, _ = env.reset()
                if shape is not None and getattr(observation, "shape", None) != shape:
                    _check_shape(observation, shape)  # NumPy would broadcast it into the row
                observations[index] = observation
            index = None
            if shape is None:
                observations = batched(self.spaces.observation, observations)
            final = batched(self.spaces.observation, final_observations) if final_observations else None
        except Exception as error:
            raise environment_failed(error, worker=self._worker, step=self._steps, index=index) from error
        return VectorStep(observations, rewards, terminated, truncated, self._is_transition, final)

    def close(self) -> None:
        """Close every environment, also those after one that fails to close."""
        errors = []
        while self._envs:
            try:
                self._envs.pop().close()
            except Exception as error:
                errors.append(error)
        if errors:
            raise environment_failed(errors[0], worker=self._worker, step=self._steps) from errors[0]


def _check_shape(observation: Any, shape: tuple[int, ...]) -> None:
    if np.shape(observation) != shape:
        raise ShapeError(f"the observation has shape {np.shape(observation)}, its space {shape}.")
