"""AtariConfig: the settings of Atari games, as `env=atari` has them."""

from __future__ import annotations

from dataclasses import dataclass

from rheos.configuration.run_config import EnvironmentConfig
from rheos.configuration.settings import setting
from rheos.errors import ConfigError

__all__ = ["AtariConfig"]


@dataclass(frozen=True)
class AtariConfig(EnvironmentConfig):
    """Which Atari game, and how it is prepared for learning; the defaults are those of DeepMind.

    Source:
        Mnih et al. 2015, "Human-level control through deep reinforcement learning"; for sticky actions, Machado et al.
        2018, arXiv:1709.06009.
    """

    name: str = setting("atari", help="the plugin that makes the environments")
    id: str = setting("", help="Gymnasium's name of the game, which follows from game: leave it out")
    game: str = setting("pong", allow_empty=False, help="the game: pong, ms_pacman, or MsPacman")
    sticky_actions: float = setting(
        0.25, minimum=0.0, maximum=1.0, help="the probability that a frame repeats the action of the one before"
    )
    frame_stack: int = setting(4, minimum=1, unit="observed frames", help="how many of them an observation has")
    frame_skip: int = setting(4, minimum=1, unit="frames", help="an action is held for so many")
    noop_max: int = setting(
        30, minimum=0, unit="frames", help="a game begins with fewer than so many without an action"
    )
    episodic_life: bool = setting(
        True, help="whether an episode ends for the learner where a life is lost; what is reported is the whole game"
    )
    reward_clipping: bool = setting(
        True, help="whether only the sign of a reward is learned from; what is reported are the points"
    )
    vectorization: str = setting(
        "auto", choices=("auto",), help="ale-py's own: a thread for each game, as far as there are cores"
    )
    action_masks: str = setting("none", choices=("none",), help="Atari has none")

    def __post_init__(self) -> None:
        """Name the game as Gymnasium does.

        Raises:
            ConfigError: for an `id` of another game.
        """
        words = self.game if self.game[:1].isupper() else self.game.title().replace("_", "")
        env_id = f"ALE/{words}-v5"
        if self.id not in ("", env_id):
            raise ConfigError(f"env.id: got {self.id!r}, but env.game={self.game} is {env_id!r}: leave env.id out")
        object.__setattr__(self, "id", env_id)
