"""Environment and VectorEnvironment: what an algorithm sees of environments, whoever made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rheos.configuration.run_config import EnvironmentConfig
    from rheos.spaces import Spaces

__all__ = ["Environment", "Score", "VectorEnvironment", "VectorStep"]


class Score(NamedTuple):
    """What the episodes that are reported are counted from, where that is not what is learned from.

    Atari games are learned from in lives and clipped rewards, and reported as whole games and points.
    """

    rewards: npt.NDArray[np.float32]
    """`[B]`, not clipped or scaled for learning; 0 where `is_transition` is False."""
    ended: npt.NDArray[np.bool_]
    """`[B]`: a whole episode ended; it also did in the `terminated` or `truncated` of the step."""


class VectorStep(NamedTuple):
    """What one step of all environments gave.

    The arrays may be overwritten by the next step: copy what is kept.
    """

    observations: Any
    """`[B, ...]` in the space's dtype; for Dict and Tuple spaces a dict or tuple of such arrays."""
    rewards: npt.NDArray[np.float32]
    """`[B]`, in the environment's own unit; 0 where `is_transition` is False."""
    terminated: npt.NDArray[np.bool_]
    """`[B]`: the episode ended in a terminal state; False where `is_transition` is False."""
    truncated: npt.NDArray[np.bool_]
    """`[B]`: the episode was cut off, for instance by a time limit; False where `is_transition` is False."""
    is_transition: npt.NDArray[np.bool_]
    """`[B]`: False where the environment only reset itself in this step, took no action and counts no step."""
    final_observations: Any = None
    """The last observations of the episodes that ended, `[E, ...]`, in order of their environments.

    None where no episode ended, and where the environments reset themselves in the next step: there
    `observations` has the last ones.
    """
    score: Score | None = None
    """What the returns that are reported are counted from; None: from `rewards`, `terminated` and `truncated`."""


class VectorEnvironment(Protocol):
    """Some environments that are stepped together and reset themselves.

    What an environment raises comes out as `EnvironmentFailed` that names the worker, the environment where it is
    known, the step and the cause. After that only `close` may be called.
    """

    num_envs: int
    spaces: Spaces

    def reset(self, count: int = 0) -> Any:
        """Start all environments and return their observations `[B, ...]`.

        Args:
            count: of the resets before this one, also in the run that this one resumes. It is part of the seeds:
                the same reset always starts the same episodes, and every other one others.
        """
        ...

    def step(self, actions: Any) -> VectorStep:
        """Take one action in each environment: `[B, ...]`, in the dtype of the action space."""
        ...

    def close(self) -> None:
        """Release everything, processes first of all; may be called again, and after a failure."""
        ...


class Environment(Protocol):
    """A description of environments, small enough to travel; makes them where it is asked to."""

    config: EnvironmentConfig

    def spaces(self) -> Spaces:
        """Return the spaces of a single environment; the first call makes one, later ones remember."""
        ...

    def make(self, seed: int, worker: str) -> VectorEnvironment:
        """Make `config.num_envs` environments.

        Args:
            seed: of the run. Each environment's own seed derives from it, `worker` and the environment's index.
            worker: who steps them: part of the seeds, and of what `EnvironmentFailed` says.
        """
        ...
