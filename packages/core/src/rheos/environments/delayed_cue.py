"""DelayedCue: a cue is shown once and has to be named later, which no policy does that remembers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from rheos.environments.environment import VectorStep
from rheos.errors import ConfigError
from rheos.seeds import generator_for
from rheos.spaces import Spaces

if TYPE_CHECKING:
    from rheos.environments.delayed_cue_config import DelayedCueConfig
    from rheos.environments.environment import VectorEnvironment

__all__ = ["DelayedCue", "DelayedCueEnvironments", "make_environment"]


def make_environment(config: DelayedCueConfig) -> DelayedCue:
    """Describe environments with a delayed cue; makes none yet.

    Raises:
        ConfigError: if there are `config.kwargs`.
    """
    if config.kwargs:
        raise ConfigError(f"env.kwargs: got {dict(config.kwargs)}, expected none: its settings are num_cues and delay.")
    return DelayedCue(config)


class DelayedCue:
    """The shortest task of memory: an episode shows one of C cues at first, and asks for it after a delay.

    An observation is `[C + 1]` float32. At first it is one-hot: the cue. Then it is 0, `delay` steps after the first
    its last number is 1: the action taken then is the answer. Its reward is 1 where it names the cue, and the episode
    terminates; all other rewards are 0. Cues are drawn uniformly, so whoever remembers nothing has a mean return of
    1 / C.
    """

    def __init__(self, config: DelayedCueConfig) -> None:
        self.config = config

    def spaces(self) -> Spaces:
        """Return the spaces of a single environment."""
        return _spaces(self.config.num_cues)

    def make(self, seed: int, worker: str) -> VectorEnvironment:
        """Make the environments of a worker."""
        return DelayedCueEnvironments(self.config, seed=seed, worker=worker)


class DelayedCueEnvironments:
    """Steps environments with a delayed cue together; their episodes are all of one length, `delay + 1` steps.

    Args:
        config: of the environments.
        seed: of the run; the cues of each environment derive from it, `worker` and the environment's index.
        worker: who steps them.
    """

    def __init__(self, config: DelayedCueConfig, *, seed: int, worker: str) -> None:
        self.num_envs = config.num_envs
        self.spaces = _spaces(config.num_cues)
        self._num_cues, self._delay = config.num_cues, config.delay
        self._seed, self._worker = seed, worker
        self._generators: list[np.random.Generator] = []
        self._rows = np.arange(self.num_envs)
        self._cues = np.zeros(self.num_envs, np.int64)
        self._count = 0
        self._everywhere, self._nowhere = np.ones(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_)
        self._everywhere.flags.writeable = self._nowhere.flags.writeable = False

    def reset(self, count: int = 0) -> Any:
        """Show a cue in each environment, drawn by its name and `count`."""
        self._generators = [
            generator_for(self._seed, self._worker, "environment", index, count) for index in range(self.num_envs)
        ]
        return self._begin()

    def step(self, actions: Any) -> VectorStep:
        """Take one action in each environment."""
        self._count += 1
        has_ended = self._count > self._delay
        rewards = np.zeros(self.num_envs, np.float32)
        observations = np.zeros((self.num_envs, self._num_cues + 1), np.float32)
        if not has_ended:
            observations[:, -1] = self._count == self._delay
            return VectorStep(observations, rewards, self._nowhere, self._nowhere, self._everywhere)
        rewards[:] = np.asarray(actions) == self._cues
        return VectorStep(self._begin(), rewards, self._everywhere, self._nowhere, self._everywhere, observations)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _begin(self) -> npt.NDArray[np.float32]:
        self._count = 0
        self._cues = np.array([generator.integers(self._num_cues) for generator in self._generators])
        observations = np.zeros((self.num_envs, self._num_cues + 1), np.float32)
        observations[self._rows, self._cues] = 1.0
        return observations


def _spaces(num_cues: int) -> Spaces:
    return Spaces(gym.spaces.Box(0.0, 1.0, (num_cues + 1,), np.float32), gym.spaces.Discrete(num_cues))
