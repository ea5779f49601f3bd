"""Scripted environments whose right answers are known: the observation is the number of steps, the reward is 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from rheos.configuration.run_config import EnvironmentConfig
from rheos.environments.environment import VectorEnvironment
from rheos.environments.native import AutoresetMode, NativeEnvironments
from rheos.environments.serial import SerialEnvironments
from rheos.spaces import Spaces

__all__ = ["CountingEnv", "CountingVectorEnv", "FailingEnv", "FaultyEnv", "FunctionEnvironment", "SoundEnv"]

_OBSERVATION = spaces.Box(0.0, np.inf, (1,), np.float32)


class CountingEnv(gym.Env[Any, Any]):
    """Its observation is `[n]` after n steps of an episode; it remembers the actions and seeds that it got.

    Args:
        time_limit: an episode is truncated after so many steps.
        terminal_step: an episode terminates after so many steps; None: never.
        reward: of every step; of any number type.
        observation_space: a Box, by default of one float32; observations are cast to its dtype and shape. Where a
            subclass observes something else, any space.
        action_space: by default Discrete(2).

    Example:
        >>> env = CountingEnv(time_limit=2)
        >>> env.reset(seed=7)[0]
        array([0.], dtype=float32)
        >>> env.step(0)[1:4], env.step(1)[1:4]
        ((1.0, False, False), (1.0, False, True))
    """

    def __init__(
        self,
        time_limit: int = 10,
        *,
        terminal_step: int | None = None,
        reward: float = 1.0,
        observation_space: spaces.Space[Any] = _OBSERVATION,
        action_space: spaces.Space[Any] | None = None,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self.actions: list[Any] = []
        self.seeds: list[int | None] = []
        self.is_closed = False
        self._time_limit, self._terminal_step, self._reward = time_limit, terminal_step, reward
        self._count = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start at 0."""
        super().reset(seed=seed)
        self.seeds.append(seed)
        self._count = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Count a step."""
        self.actions.append(action)
        self._count += 1
        is_terminated = self._count == self._terminal_step
        return self._observation(), self._reward, is_terminated, self._count >= self._time_limit, {}

    def close(self) -> None:
        """Remember that it was closed."""
        self.is_closed = True

    def _observation(self) -> npt.NDArray[Any]:
        space: Any = self.observation_space
        return np.full(space.shape, self._count, space.dtype)


class FailingEnv(CountingEnv):
    """A CountingEnv that raises `error` in a step or in a reset.

    Args:
        error: what to raise.
        at_step: in which step since it was made, from 1; 0: never.
        at_reset: in which reset since it was made, from 1; 0: never.
        settings: those of CountingEnv.
    """

    def __init__(self, error: BaseException, *, at_step: int = 0, at_reset: int = 0, **settings: Any) -> None:
        super().__init__(**settings)
        self._error, self._at_step, self._at_reset = error, at_step, at_reset

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start at 0, or raise."""
        if len(self.seeds) + 1 == self._at_reset:
            raise self._error
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Count a step, or raise."""
        if len(self.actions) + 1 == self._at_step:
            raise self._error
        return super().step(action)


class FaultyEnv(CountingEnv):
    """A CountingEnv that once gives something that it should not.

    Args:
        at_step: in which step since it was made, from 1; 0: in the first reset.
        settings: those of CountingEnv.
        faults: what it gives then: `observation`, `reward`, `terminated`, `truncated`.

    Example:
        >>> env = FaultyEnv(at_step=2, faults={"reward": float("nan")})
        >>> env.reset(seed=7), env.step(0)[1], env.step(0)[1]
        ((array([0.], dtype=float32), {}), 1.0, nan)
    """

    def __init__(self, *, at_step: int, faults: Mapping[str, Any], **settings: Any) -> None:
        super().__init__(**settings)
        self._at_step, self._faults = at_step, dict(faults)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start at 0, or at the fault."""
        observation, info = super().reset(seed=seed, options=options)
        is_at_fault = self._at_step == 0 and len(self.seeds) == 1
        return self._faults.get("observation", observation) if is_at_fault else observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Count a step, and give the fault if it is the one."""
        observation, reward, terminated, truncated, info = super().step(action)
        given = {"observation": observation, "reward": reward, "terminated": terminated, "truncated": truncated}
        if len(self.actions) == self._at_step:
            given.update(self._faults)
        return given["observation"], given["reward"], given["terminated"], given["truncated"], info


class SoundEnv(gym.Env[Any, Any]):
    """An environment with nothing to find fault with: subclass it, and break what a test is about.

    It observes two random numbers in [-1, 1], whatever is done, and every episode is truncated after ten steps.

    Example:
        >>> class Raises(SoundEnv):
        ...     def step(self, action):
        ...         raise ZeroDivisionError("division by zero")
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - as Gymnasium annotates it
    observation_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Count a step; the reward is 1."""
        self.count += 1
        return self.observe(), 1.0, False, self.count >= 10, {}

    def observe(self) -> Any:
        """Draw what is observed."""
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)


class CountingVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """CountingEnvs that are stepped together and reset themselves in a chosen way.

    Args:
        time_limits: of the environments, one each.
        mode: when they reset themselves.
        terminates: whether an episode terminates at its time limit, instead of being truncated.
    """

    def __init__(self, time_limits: Sequence[int], mode: AutoresetMode, *, terminates: bool = False) -> None:
        self.num_envs = len(time_limits)
        self.metadata = {"autoreset_mode": mode.value}
        self.single_observation_space = _OBSERVATION
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(_OBSERVATION, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.seeds: list[Any] = []
        self._limits = np.array(time_limits)
        self._mode, self._terminates = mode, terminates
        self._counts = np.zeros(self.num_envs, np.int64)
        self._ended = np.zeros(self.num_envs, np.bool_)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start at 0, all or those in `options["reset_mask"]`."""
        self.seeds.append(seed)
        self._counts[(options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_))] = 0
        self._ended[:] = False
        return self._observations(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Count a step, except where an environment that ended is reset in this step."""
        is_reset = self._ended if self._mode is AutoresetMode.NEXT_STEP else np.zeros_like(self._ended)
        self._counts = np.where(is_reset, 0, self._counts + 1)
        self._ended = self._counts >= self._limits
        info: dict[str, Any] = {}
        observations = self._observations()
        if self._mode is AutoresetMode.SAME_STEP and self._ended.any():
            final = np.full(self.num_envs, None, object)
            for index in np.flatnonzero(self._ended):
                final[index] = observations[index]
            info = {"final_obs": final, "_final_obs": self._ended}
            self._counts[self._ended] = 0
            observations = self._observations()
        ended, never = self._ended.copy(), np.zeros(self.num_envs, np.bool_)
        rewards = np.where(is_reset, 0.0, 1.0)
        return observations, rewards, ended if self._terminates else never, never if self._terminates else ended, info

    def _observations(self) -> npt.NDArray[np.float32]:
        return self._counts[:, None].astype(np.float32)


class FunctionEnvironment:
    """An `Environment` from a function, for environments that are not registered anywhere.

    Args:
        make_env: makes a single environment, or a vector environment.
        num_envs: how many single environments a worker steps.
    """

    def __init__(
        self, make_env: Callable[[], gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]], num_envs: int = 1
    ) -> None:
        self.config = EnvironmentConfig(name="function", id="function", num_envs=num_envs)
        self._make_env = make_env

    def spaces(self) -> Spaces:
        """Return the spaces of a single environment."""
        environments = self.make(0, "spaces")
        environments.close()
        return environments.spaces

    def make(self, seed: int, worker: str) -> VectorEnvironment:
        """Make the environments of a worker."""
        first = self._make_env()
        if isinstance(first, gym.vector.VectorEnv):
            return NativeEnvironments(first, seed=seed, worker=worker)
        made = [first, *(self._make_env() for _ in range(self.config.num_envs - 1))]
        return SerialEnvironments([_give(env) for env in made], seed=seed, worker=worker)


def _give(env: Any) -> Callable[[], gym.Env[Any, Any]]:
    return lambda: env
