"""EpisodeCounter: the returns and lengths of the episodes that end in a fragment."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.batches import Episode

__all__ = ["EpisodeCounter"]

BoolArray = npt.NDArray[np.bool_]


class EpisodeCounter:
    """Adds up rewards and steps, and carries over what belongs to episodes that have not ended yet.

    Args:
        num_envs: B, how many environments are stepped together.

    Example:
        >>> counter = EpisodeCounter(1)
        >>> column = lambda *x: np.array(x)[:, None]
        >>> counter.count(column(1.0, 2.0), column(False, False), column(True, True))
        ()
        >>> counter.count(column(4.0, 8.0), column(True, False), column(True, True))
        (Episode(episode_return=7.0, length=3),)
    """

    def __init__(self, num_envs: int) -> None:
        self._return = np.zeros(num_envs)
        self._length = np.zeros(num_envs)

    def count(self, rewards: npt.NDArray[Any], ended: BoolArray, is_transition: BoolArray) -> tuple[Episode, ...]:
        """Count a fragment.

        Args:
            rewards: `[T, B]`, 0 where `is_transition` is False.
            ended: `[T, B]`: the step ended an episode.
            is_transition: `[T, B]`: the step counts.

        Returns:
            The episodes that ended, in order of the step, then of the environment.
        """
        env, step = np.nonzero(ended.T)
        returns, self._return = _sums_until(rewards, self._return, env, step)
        lengths, self._length = _sums_until(is_transition, self._length, env, step)
        in_time = np.lexsort((env, step))
        return tuple(Episode(r, int(n)) for r, n in zip(returns[in_time].tolist(), lengths[in_time], strict=True))


def _sums_until(
    values: npt.NDArray[Any], carried: npt.NDArray[np.float64], env: npt.NDArray[Any], step: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Sum each stretch up to and with an end, and what comes after the last; ends are sorted by env, then step.

    Each environment is a row: what it carried, its values, and a 0, so that a stretch begins after every end.
    """
    num_steps, num_envs = values.shape
    padded = np.zeros((num_envs, num_steps + 2))
    padded[:, 0] = carried
    padded[:, 1:-1] = values.T
    row_starts = np.arange(num_envs) * (num_steps + 2)
    after_ends = row_starts[env] + step + 2
    starts = np.concatenate([row_starts, after_ends])
    order = np.argsort(starts)
    sums = np.add.reduceat(padded.ravel(), starts[order])
    is_last = np.append(np.diff(starts[order] // (num_steps + 2)) > 0, True)
    return sums[~is_last], sums[is_last]
