"""AtariGames: Atari games, prepared as DeepMind did, through ale-py's own vector environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from rheos.environments.environment import Score, VectorStep
from rheos.environments.failures import cause_of
from rheos.environments.native import AutoresetMode, NativeEnvironments
from rheos.environments.watching import Watched
from rheos.errors import ConfigError, EnvironmentFailed, PluginError, UnknownName, did_you_mean
from rheos.spaces import Spaces
from rheos.spaces.tree import rows

if TYPE_CHECKING:
    from rheos.environments.atari_config import AtariConfig
    from rheos.environments.environment import VectorEnvironment

__all__ = ["AtariEnvironments", "AtariGames", "make_environment"]

_FRAMES_PER_S = 60
_SCREEN = {"grayscale": False, "img_height": 210, "img_width": 160, "stack_num": 1}


def make_environment(config: AtariConfig) -> AtariGames:
    """Describe Atari games; makes none yet.

    Raises:
        PluginError: if ale-py is not installed, or cannot be imported.
        UnknownName: if it does not have the game; the message names what is near.
    """
    try:
        import ale_py.vector_env
    except ModuleNotFoundError as error:
        raise PluginError(
            'env=atari needs ale-py, which is not installed. It comes with: pip install "rheos-core[atari]"'
        ) from error
    except ImportError as error:
        raise PluginError(f"env=atari needs ale-py, whose import failed: {cause_of(error)}.") from error
    gym.register_envs(ale_py)
    if config.id not in gym.registry:
        games = [spec.kwargs["game"] for spec in gym.registry.values() if spec.namespace == "ALE"]
        raise UnknownName(
            f"env.game: ale-py has no game {config.game!r}. {did_you_mean(config.game, games)}"
            f"It has {len(games)}, such as breakout, ms_pacman, pong, seaquest and space_invaders."
        )
    return AtariGames(config)


class AtariGames:
    """Atari games, described by their name.

    An observation is the newest `frame_stack` frames, `[frame_stack, 84, 84]` uint8, the oldest first: gray, the
    largest of the last two frames of an action, scaled down. A game begins with the button FIRE where it has one, and
    with up to `noop_max` frames without an action. It ends when it is over, or is truncated after 108,000 frames, half
    an hour.
    """

    def __init__(self, config: AtariConfig) -> None:
        self.config = config
        self._spaces: Spaces | None = None

    def spaces(self) -> Spaces:
        """Return the spaces of a single environment; the first call makes one, later ones remember."""
        if self._spaces is None:
            games = _ale(self.config, 1)
            self._spaces = Spaces(games.single_observation_space, games.single_action_space)
            games.close()
        return self._spaces

    def make(self, seed: int, worker: str) -> VectorEnvironment:
        """Make the environments of a worker."""
        return AtariEnvironments(self.config, seed=seed, worker=worker)


class AtariEnvironments:
    """Steps Atari games; each has a seed of its own, whatever games are beside it.

    ale-py ends an episode at a lost life by beginning the whole game anew, so that later lives would never be seen.
    Here the game goes on: to whoever learns, the episode terminated, and the next one begins with the same observation.

    Args:
        config: of the games.
        seed: of the run.
        worker: who steps them.
    """

    def __init__(self, config: AtariConfig, *, seed: int, worker: str) -> None:
        self.num_envs = config.num_envs
        self._config, self._seed, self._worker = config, seed, worker
        self._lives = _Lives(_ale(config, config.num_envs))
        self._games = NativeEnvironments(
            self._lives, seed=seed, worker=worker, one_seed_each=True, mode=AutoresetMode.SAME_STEP
        )
        self.spaces = self._games.spaces
        self._watched: dict[int, Watched] = {}

    def reset(self, count: int = 0) -> Any:
        """Start all games, each seeded by name and `count`."""
        observations = self._games.reset(count)
        for index, watched in self._watched.items():
            watched.reset(seed=self._lives.seeds[index])
        return observations

    def step(self, actions: Any) -> VectorStep:
        """Take one action in each game."""
        lives_before = self._lives.lives
        step = self._games.step(actions)
        for index, watched in self._watched.items():
            watched.step(actions[index])
        over = step.terminated | step.truncated
        score = Score(step.rewards, over)
        rewards, terminated, final_observations = step.rewards, step.terminated, step.final_observations
        if self._config.reward_clipping:
            rewards = np.sign(rewards)
        if self._config.episodic_life:
            lives = self._lives.lives
            lost = (lives < lives_before) & (lives > 0) & ~over  # without any left, the game is about to be over
            if lost.any():
                terminated = terminated | lost
                final = step.observations.copy()
                if final_observations is not None:
                    final[over] = final_observations
                final_observations = rows(final, over | lost)
        return VectorStep(
            step.observations, rewards, terminated, step.truncated, step.is_transition, final_observations, score
        )

    def watch(self, index: int) -> Watched:
        """Draw a game from the next reset to its end: a second one is played alike, in colour and its own size."""
        self._watched[index] = Watched(_Screen(self._config))
        return self._watched[index]

    def close(self) -> None:
        """End all games."""
        self._games.close()
        for watched in self._watched.values():
            watched.close()


class _Lives(gym.vector.VectorWrapper[Any, Any, Any]):
    """Remembers how many lives each game has left, `[B]`, and by what it was seeded."""

    lives: npt.NDArray[np.int32]
    seeds: list[int]

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        self.seeds = seed
        started = self.env.reset(seed=np.array(seed), options=options)  # type: ignore[arg-type]
        self.lives = started[1]["lives"]
        return started

    def step(self, actions: Any) -> Any:
        stepped = self.env.step(actions)
        self.lives = stepped[4]["lives"]
        return stepped


class _Screen(gym.Env[Any, Any]):
    """One game, drawn as on a screen."""

    render_mode = "rgb_array"

    def __init__(self, config: AtariConfig) -> None:
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": _FRAMES_PER_S / config.frame_skip}
        self._game = _ale(config, 1, **_SCREEN)
        self.observation_space, self.action_space = self._game.single_observation_space, self._game.single_action_space
        self._shown: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._shown, info = self._game.reset(seed=np.array([seed]))
        return self._shown[0], info

    def step(self, action: Any) -> Any:
        self._shown, rewards, terminated, truncated, info = self._game.step(np.array([action]))
        if "final_obs" in info:
            self._shown = info["final_obs"]
        return self._shown[0], rewards[0], terminated[0], truncated[0], info

    def render(self) -> Any:
        return self._shown[0, 0]


def _ale(config: AtariConfig, num_envs: int, **more: Any) -> Any:
    """Make games of ale-py with their own rewards and ends.

    Raises:
        ConfigError: if `config.kwargs` do not fit.
        EnvironmentFailed: if they cannot be made for another reason.
    """
    from ale_py.vector_env import AtariVectorEnv

    kwargs = {name: value for name, value in config.kwargs.items() if name != "render_mode"}
    settings: dict[str, Any] = {
        "game": gym.spec(config.id).kwargs["game"],
        "repeat_action_probability": config.sticky_actions,
        "stack_num": config.frame_stack,
        "frameskip": config.frame_skip,
        "noop_max": config.noop_max,
        "autoreset_mode": "SameStep",
        "reward_clipping": False,
        "episodic_life": False,
    }
    taken = sorted(settings.keys() & kwargs)
    if taken:
        raise ConfigError(f"env.kwargs: got {', '.join(taken)}, which other settings of env=atari decide.")
    try:
        return AtariVectorEnv(num_envs=num_envs, **{**settings, **kwargs, **more})
    except TypeError as error:
        raise ConfigError(f"env.kwargs: {kwargs} do not fit ale-py's AtariVectorEnv: {error}") from error
    except Exception as error:
        raise EnvironmentFailed(f"{config.id!r} cannot be made: {cause_of(error)}") from error
