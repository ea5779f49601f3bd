"""SerialEnvironments: single environments, stepped one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space, iterate

from rheos.environments.environment import VectorStep
from rheos.environments.failures import environment_failed
from rheos.environments.transitions import signals_of, values_of_reset, values_of_step
from rheos.environments.watching import Watched
from rheos.errors import EnvironmentFailed
from rheos.seeds import integer_seed_for
from rheos.spaces import Spaces
from rheos.spaces.fitting import ARRAY_SPACES, ObservationCheck
from rheos.spaces.tree import batched

__all__ = ["SerialEnvironments"]


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
        self._seed, self._worker = seed, worker
        self._steps = 0
        self._envs: list[gym.Env[Any, Any]] = []
        try:
            self._envs.extend(make() for make in make_envs)
        except BaseException:
            with suppress(EnvironmentFailed):  # why one cannot be made says more than why another cannot be closed
                self.close()
            raise
        self.spaces = Spaces(self._envs[0].observation_space, self._envs[0].action_space)
        has_arrays = isinstance(self.spaces.observation, ARRAY_SPACES)  # then a batch is one array, written by row
        self._observation_shape = self.spaces.observation.shape if has_arrays else None
        self._check = ObservationCheck(self.spaces.observation)
        self._batched_actions = batch_space(self.spaces.action, self.num_envs)
        self._is_transition = np.ones(self.num_envs, np.bool_)
        self._is_transition.flags.writeable = False

    def reset(self, count: int = 0) -> Any:
        """Start all environments, each seeded by name and `count`."""
        again = (count,) if count else ()
        observations: list[Any] = []
        index: int | None = None
        try:
            for index, env in enumerate(self._envs):
                seed = integer_seed_for(self._seed, self._worker, "environment", index, *again)
                observation, _ = values_of_reset(env.reset(seed=seed))
                self._check(observation)
                observations.append(observation)
            index = None
            return batched(self.spaces.observation, observations)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, too
            raise environment_failed(error, worker=self._worker, step=self._steps, index=index) from error

    def step(self, actions: Any) -> VectorStep:
        """Take one action in each environment."""
        num_envs, check = self.num_envs, self._check
        shape, dtype = self._observation_shape, self.spaces.observation.dtype
        self._steps += 1
        rewards = np.empty(num_envs, np.float32)
        terminated = np.zeros(num_envs, np.bool_)
        truncated = np.zeros(num_envs, np.bool_)
        observations: Any = [None] * num_envs
        if shape is not None:
            observations = np.empty((num_envs, *shape), dtype)
        final_observations: list[Any] = []
        index: int | None = None
        try:
            for index, (env, action) in enumerate(
                zip(self._envs, iterate(self._batched_actions, actions), strict=True)
            ):
                stepped = env.step(action)
                try:
                    observation, reward, is_terminated, is_truncated, _ = stepped
                except (TypeError, ValueError):
                    observation, reward, is_terminated, is_truncated, _ = values_of_step(stepped)
                # what most steps give is not worth a call
                if type(reward) is not float or is_terminated is not False or is_truncated is not False:
                    reward, is_terminated, is_truncated = signals_of(reward, is_terminated, is_truncated)
                rewards[index] = reward
                if is_terminated or is_truncated:
                    terminated[index], truncated[index] = is_terminated, is_truncated
                    check(observation)
                    final_observations.append(deepcopy(observation))  # reset may write into the same array
                    observation, _ = values_of_reset(env.reset())
                # nor is what is exactly as its space says
                if shape is None or getattr(observation, "shape", None) != shape or observation.dtype is not dtype:
                    check(observation)
                observations[index] = observation
            index = None
            if shape is None:
                observations = batched(self.spaces.observation, observations)
            final = batched(self.spaces.observation, final_observations) if final_observations else None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise environment_failed(error, worker=self._worker, step=self._steps, index=index) from error
        return VectorStep(observations, rewards, terminated, truncated, self._is_transition, final)

    def watch(self, index: int) -> Watched:
        """Draw an environment from the next reset to the end of its episode."""
        watched = self._envs[index] = Watched(self._envs[index])
        return watched

    def close(self) -> None:
        """Close every environment, also those after one that fails to close."""
        errors: list[BaseException] = []
        while self._envs:
            try:
                self._envs.pop().close()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                errors.append(error)
        if errors:
            raise environment_failed(errors[0], worker=self._worker, step=self._steps) from errors[0]
