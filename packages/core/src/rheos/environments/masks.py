"""ActionMasks: puts the mask of allowed actions beside what is observed."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rheos.environments.transitions import values_of_reset, values_of_step
from rheos.errors import ConfigError

__all__ = ["ActionMasks"]


class ActionMasks(gym.Wrapper[Any, Any, Any, Any]):
    """Observes `{"observation": ..., "action_mask": ...}`, from which algorithms learn to choose only what is allowed.

    Args:
        env: its actions are Discrete or MultiDiscrete.
        source: `info`, where it gives `info["action_mask"]` (as Taxi), or `method`, where it, or a wrapper in it, has
            `action_masks()` (as Stable-Baselines3 Contrib has it). Of 0 and 1, one for each value of the action; for
            MultiDiscrete those of all choices in one array, or an array for each choice.

    Raises:
        ConfigError: if the environment has other actions, or no such method.

    Example:
        >>> from rheos.testing.environments import CountingEnv
        >>> class OnlyTheFirst(CountingEnv):
        ...     def action_masks(self):
        ...         return [True, False]
        >>> ActionMasks(OnlyTheFirst(), "method").reset()[0]
        {'observation': array([0.], dtype=float32), 'action_mask': array([1, 0], dtype=int8)}
    """

    def __init__(self, env: gym.Env[Any, Any], source: str) -> None:
        super().__init__(env)
        self._source = source
        actions = env.action_space
        if isinstance(actions, spaces.Discrete):
            self._size = int(actions.n)
        elif isinstance(actions, spaces.MultiDiscrete):
            self._size = int(actions.nvec.sum())
        else:
            raise ConfigError(f"env.action_masks: got {source!r}, but actions are {actions}, of which none is masked.")
        if source == "method" and not env.has_wrapper_attr("action_masks"):
            raise ConfigError("env.action_masks: got 'method', but the environment has no method action_masks().")
        mask = spaces.MultiBinary(self._size)
        self.observation_space = spaces.Dict(observation=env.observation_space, action_mask=mask)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        observation, info = values_of_reset(self.env.reset(seed=seed, options=options))
        return self._with_mask(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        stepped: Any = self.env.step(action)
        observation, reward, terminated, truncated, info = values_of_step(stepped)
        return self._with_mask(observation, info), reward, terminated, truncated, info

    def _with_mask(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        given: Any
        if self._source == "method":
            given = self.env.get_wrapper_attr("action_masks")()
        elif "action_mask" in info:
            given = info["action_mask"]
        else:
            raise ValueError("info has no 'action_mask', which env.action_masks=info reads")
        if isinstance(given, tuple | list) and given:  # an array for each choice, perhaps
            given = np.concatenate([np.ravel(part) for part in given])
        mask = np.ravel(given)
        if mask.size != self._size:
            raise ValueError(f"the action mask has {mask.size} entries, expected {self._size}")
        if not ((mask == 0) | (mask == 1)).all():
            raise ValueError(f"the action mask is {mask.tolist()}, expected 0 and 1 only")
        return {"observation": observation, "action_mask": mask.astype(np.int8)}
