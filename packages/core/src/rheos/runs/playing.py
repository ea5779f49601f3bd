"""Player: plays numbered episodes, each in an environment and with a seed of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rheos.environments.watching import Frame, Watchable, Watched
from rheos.errors import ConfigError, EnvironmentFailed, ObservationOutside, UsageError
from rheos.plugins import make_environment

if TYPE_CHECKING:
    import numpy.typing as npt

    from rheos.configuration.run_config import EnvironmentConfig
    from rheos.environments.environment import VectorEnvironment
    from rheos.plugins.registry import Registry
    from rheos.runs.policy import Policy
    from rheos.spaces.faults import Fault

__all__ = ["MAX_EPISODE_STEPS", "Played", "Player"]

MAX_EPISODE_STEPS = 100_000
"""An episode that has not ended after so many steps is cut off."""

_AT_ONCE = 16
"""How many episodes are played side by side, each in an environment of its own."""


class Played(NamedTuple):
    """An episode that was played."""

    episode_return: float
    length: int
    was_cut: bool
    """Whether it was cut off because it did not end; its return so far counts."""


class Player:
    """Plays numbered episodes with the best actions of a policy.

    Episode 7 is the same whichever others are played beside it: its environment and its seed are its own, and what
    an environment does after its first episode is ignored. (Environments that are there only as many at once share
    the seed of their group of 16.)

    Args:
        config: of the environments; they are stepped one by one where they can be, so that each has its own seed.
        registry: where their source is looked up.
        seed: from which, with `name` and its number, the seed of an episode derives.
        name: who plays; a failure of an environment names it.
        max_episode_steps: an episode that has not ended by then is cut off.
    """

    def __init__(
        self,
        config: EnvironmentConfig,
        registry: Registry,
        *,
        seed: int,
        name: str,
        max_episode_steps: int = MAX_EPISODE_STEPS,
    ) -> None:
        self._config = config
        self._registry = registry
        self._seed = seed
        self._name = name
        self._max_episode_steps = max_episode_steps

    def play(
        self, policy: Policy, episodes: range, *, is_cancelled: Callable[[], bool] = lambda: False
    ) -> list[Played] | None:
        """Play the episodes of these numbers; None where `is_cancelled` came true meanwhile.

        Raises:
            EnvironmentFailed: if an environment raises, or gives what is no observation or reward.
        """
        played: list[Played] = []
        for first in sorted({number - number % _AT_ONCE for number in episodes}):
            wanted = np.array([number in episodes for number in range(first, min(first + _AT_ONCE, episodes.stop))])
            with closing(self._make(policy, first, len(wanted))) as environments:
                group = self._play(policy, environments, first, wanted, is_cancelled=is_cancelled)
            if group is None:
                return None
            played.extend(group)
        return played

    def film(self, policy: Policy, number: int, film: Callable[[Frame], object]) -> Played:
        """Play the episode of this number, and show what it looks like: after its reset and after every step.

        Raises:
            UsageError: if the environment cannot be drawn.
            EnvironmentFailed: if it raises, or gives what is no observation or reward.
        """
        with self._filming(number) as (environments, watched):
            if environments.spaces != policy.spaces:
                raise UsageError(f"{self._environment!r} cannot be filmed: the policy sees it as many at once only.")

            def show() -> None:
                for frame in watched.take():
                    film(frame)

            wanted = np.zeros(environments.num_envs, np.bool_)
            wanted[-1] = True
            group = self._play(policy, environments, number - number % _AT_ONCE, wanted, show=show)
        assert group is not None  # nobody cancels
        return group[0]

    def frames_per_second(self) -> float:
        """Return how many frames of `film` make up a second of the environment's own time.

        Raises:
            UsageError: if the environment has no frames.
        """
        with self._filming(0) as (_, watched):
            return watched.frames_per_second

    def _play(
        self,
        policy: Policy,
        environments: VectorEnvironment,
        first: int,
        wanted: npt.NDArray[np.bool_],
        *,
        is_cancelled: Callable[[], bool] = lambda: False,
        show: Callable[[], None] = lambda: None,
    ) -> list[Played] | None:
        """Play the first episode in each environment, until all that are wanted have ended; return those."""
        returns, lengths = np.zeros(len(wanted)), np.zeros(len(wanted), np.int64)
        is_playing = wanted.copy()
        policy.reset()
        observations = environments.reset()
        show()
        for number in range(self._max_episode_steps):
            if is_cancelled():
                return None
            columns = self._encode(policy, observations, first, number)
            step = environments.step(policy.act_on_columns(columns))
            show()
            rewards, ended = step.score or (step.rewards, step.terminated | step.truncated)
            self._refuse_bad_rewards(rewards, is_playing, first, number + 1)
            observations = step.observations
            returns[is_playing] += rewards[is_playing]
            lengths[is_playing] += 1
            is_playing &= ~ended
            if not is_playing.any():
                break
        every = zip(returns, lengths, is_playing, strict=True)
        return [Played(float(r), int(n), bool(cut)) for (r, n, cut), asked in zip(every, wanted, strict=True) if asked]

    def _encode(self, policy: Policy, observations: Any, first: int, step: int) -> Mapping[str, npt.NDArray[Any]]:
        """Encode a batch of observations, and refuse what is none."""
        try:
            columns = policy.observations.encode(observations)
        except ObservationOutside as error:
            raise self._misobserved(error, first, step) from error
        fault = policy.observations.fault(columns, bounds=self._config.check_bounds)
        if fault is not None:
            raise self._misobserved(fault, first, step)
        return columns

    def _misobserved(self, fault: Fault | ObservationOutside, first: int, step: int) -> EnvironmentFailed:
        when = f"step {step}" if step else "reset"
        where = f"{self._name}-{first}, environment {fault.row}, {when}"
        return EnvironmentFailed(f"{where}: {fault.leaf} {fault.what}.")

    def _refuse_bad_rewards(
        self, rewards: npt.NDArray[np.float32], is_playing: npt.NDArray[np.bool_], first: int, step: int
    ) -> None:
        bad = np.flatnonzero(is_playing & ~np.isfinite(rewards))
        if bad.size:
            raise EnvironmentFailed(
                f"{self._name}-{first}, environment {bad[0]}, step {step}: reward is {rewards[bad[0]]}, "
                "expected a finite number"
            )

    def _make(self, policy: Policy, first: int, count: int) -> VectorEnvironment:
        """Make the environments of a group, one by one where they then look as they did in training."""
        config = replace(self._config, num_envs=count)
        environments = self._make_one_by_one(config, first)
        if environments.spaces == policy.spaces:
            return environments
        environments.close()
        return make_environment(config, self._registry).make(self._seed, f"{self._name}-{first}")

    def _make_one_by_one(self, config: EnvironmentConfig, first: int) -> VectorEnvironment:
        try:
            description = make_environment(replace(config, vectorization="sync"), self._registry)
        except ConfigError:  # an environment that is only there as many at once
            description = make_environment(config, self._registry)
        return description.make(self._seed, f"{self._name}-{first}")

    @property
    def _environment(self) -> str:
        return getattr(self._config, "id", self._config.name)

    @contextmanager
    def _filming(self, number: int) -> Iterator[tuple[VectorEnvironment, Watched]]:
        """Make the environments of a group as far as this episode's, so that it has its own seed; that one is drawn."""
        first = number - number % _AT_ONCE
        name = self._environment
        kwargs = {**self._config.kwargs, "render_mode": "rgb_array"}
        config = replace(self._config, num_envs=number - first + 1, kwargs=kwargs)
        try:
            environments = self._make_one_by_one(config, first)
        except (UsageError, EnvironmentFailed) as error:
            raise UsageError(f"{name!r} cannot be filmed: {error}") from error
        with closing(environments):
            if not isinstance(environments, Watchable):
                raise UsageError(f"{name!r} cannot be filmed: its environments are there only as many at once.")
            yield environments, environments.watch(number - first)
