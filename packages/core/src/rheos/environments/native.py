"""NativeEnvironments: a Gymnasium vector environment in any of the three modes in which it may reset itself."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from rheos.environments.environment import VectorStep
from rheos.environments.failures import environment_failed
from rheos.environments.transitions import signals_of_all, values_of_reset, values_of_step
from rheos.errors import ConfigError, EnvironmentFailed
from rheos.seeds import integer_seed_for
from rheos.spaces import Spaces
from rheos.spaces.fitting import ObservationCheck
from rheos.spaces.tree import batched, rows

__all__ = ["AutoresetMode", "NativeEnvironments"]

BoolArray = npt.NDArray[np.bool_]


class AutoresetMode(Enum):
    """When a vector environment resets an environment that ended; as in Gymnasium, from 1.1 on."""

    NEXT_STEP = "NextStep"
    """In the next step, which takes no action there."""
    SAME_STEP = "SameStep"
    """At once; the last observation is in `info["final_obs"]`."""
    DISABLED = "Disabled"
    """When it is told to."""


class NativeEnvironments:
    """Steps a Gymnasium vector environment and hides when it resets itself.

    Args:
        env: the vector environment; closed with this one.
        seed: of the run.
        worker: who steps it.
        one_seed_each: seed every environment from its own name; else the vector environment gets one seed, from
            which it draws for all of them.
        mode: when it resets itself; None asks its metadata.

    Raises:
        ConfigError: if the environment does not say when it resets itself.
    """

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        *,
        seed: int,
        worker: str,
        one_seed_each: bool = False,
        mode: AutoresetMode | None = None,
    ) -> None:
        self.num_envs = env.num_envs
        self.spaces = Spaces(env.single_observation_space, env.single_action_space)
        self._env = env
        self._check = ObservationCheck(env.single_observation_space)
        self._check_batch = ObservationCheck(env.single_observation_space, self.num_envs)
        self._worker = worker
        self._seed = seed
        self._one_seed_each = one_seed_each
        try:
            self._mode = mode or _mode_of(env)
        except ConfigError:
            env.close()
            raise
        self._steps = 0
        self._everywhere = np.ones(self.num_envs, np.bool_)
        self._everywhere.flags.writeable = False
        self._resets_next: BoolArray | None = None

    def reset(self, count: int = 0) -> Any:
        """Start all environments, seeded by name and `count`."""
        again = (count,) if count else ()
        seeds: Any = integer_seed_for(self._seed, self._worker, "environments", *again)
        if self._one_seed_each:
            each = range(self.num_envs)
            seeds = [integer_seed_for(self._seed, self._worker, "environment", index, *again) for index in each]
        self._resets_next = None
        try:
            # Gymnasium annotates one integer; its own vector environments take a list, too.
            observations, _ = values_of_reset(self._env.reset(seed=seeds))
            self._check_batch(observations)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, too
            raise environment_failed(error, worker=self._worker, step=self._steps) from error
        return observations

    def step(self, actions: Any) -> VectorStep:
        """Take one action in each environment."""
        self._steps += 1
        try:
            stepped: Any = self._env.step(actions)
            try:
                observations, rewards, terminated, truncated, info = stepped
            except (TypeError, ValueError):
                observations, rewards, terminated, truncated, info = values_of_step(stepped)
            self._check_batch(observations)
            rewards, terminated, truncated = signals_of_all(rewards, terminated, truncated, self.num_envs)
            ended = terminated | truncated
            if self._mode is AutoresetMode.NEXT_STEP:
                return self._after_next_step(observations, rewards, terminated, truncated, ended)
            final_observations = None
            if np.count_nonzero(ended):  # ten times as fast as `any`
                if self._mode is AutoresetMode.SAME_STEP:
                    final_observations = self._final_observations(info, ended)
                else:
                    final_observations = rows(observations, ended)
                    observations, _ = values_of_reset(self._env.reset(options={"reset_mask": ended}))
                    self._check_batch(observations)
        except (EnvironmentFailed, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise environment_failed(error, worker=self._worker, step=self._steps) from error
        return VectorStep(observations, rewards, terminated, truncated, self._everywhere, final_observations)

    def close(self) -> None:
        """Close the vector environment."""
        try:
            self._env.close()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise environment_failed(error, worker=self._worker, step=self._steps) from error

    def _after_next_step(
        self, observations: Any, rewards: Any, terminated: BoolArray, truncated: BoolArray, ended: BoolArray
    ) -> VectorStep:
        """Mark the environments that ended in the step before: in this one they were only reset."""
        is_transition = self._everywhere
        resets = self._resets_next
        if resets is not None:
            is_transition = ~resets
            rewards = np.where(resets, np.float32(0), rewards)
            terminated, truncated, ended = terminated & is_transition, truncated & is_transition, ended & is_transition
        self._resets_next = ended if np.count_nonzero(ended) else None
        return VectorStep(observations, rewards, terminated, truncated, is_transition)

    def _final_observations(self, info: dict[str, Any], ended: BoolArray) -> Any:
        """Return the last observations of the episodes that ended, from the two forms that are in use."""
        final = info.get("final_obs", info.get("final_observation"))
        if final is None or (_is_objects(final) and any(final[i] is None for i in np.flatnonzero(ended))):
            raise self._failed("an episode ended without info['final_obs'], which SAME_STEP environments give.")
        if not _is_objects(final):
            self._check_batch(final)
            return rows(final, ended)
        singles = [final[i] for i in np.flatnonzero(ended)]
        for single in singles:
            self._check(single)
        return batched(self.spaces.observation, singles)

    def _failed(self, what: str) -> EnvironmentFailed:
        return EnvironmentFailed(f"{self._worker}, step {self._steps}: {what}")


def _mode_of(env: gym.vector.VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """Read the mode from the metadata: an enum of Gymnasium's, or its value as text."""
    mode = env.metadata.get("autoreset_mode")
    if mode is None and not hasattr(gym.vector, "AutoresetMode"):
        return AutoresetMode.NEXT_STEP  # Gymnasium 1.0 knows no other, and does not say so
    try:
        return AutoresetMode(getattr(mode, "value", mode))
    except ValueError:
        modes = ", ".join(f"AutoresetMode.{known.name}" for known in AutoresetMode)
        raise ConfigError(
            f"env.vectorization: {type(env.unwrapped).__name__} has metadata['autoreset_mode'] {mode!r}, expected one "
            f"of {modes}. Set it in the environment, or choose env.vectorization=sync."
        ) from None


def _is_objects(final: Any) -> bool:
    """Tell an object array (or list) of single observations from one batched observation."""
    return isinstance(final, Sequence) or (isinstance(final, np.ndarray) and final.dtype == object)
