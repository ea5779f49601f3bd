"""Watched: an environment that shows what it looks like, from its first reset to the end of that episode."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from rheos.environments.failures import cause_of
from rheos.errors import UsageError

__all__ = ["Frame", "Watchable", "Watched"]

Frame = npt.NDArray[np.uint8]
"""`[H, W, 3]`: rows from the top, red, green and blue."""


@runtime_checkable
class Watchable(Protocol):
    """Environments of which each can be drawn by itself; a `VectorEnvironment` need not have this."""

    def watch(self, index: int) -> Watched:
        """Draw an environment from the next reset to the end of its episode; returns what has the frames.

        Raises:
            UsageError: if the environment cannot be drawn.
        """
        ...


class Watched(gym.Wrapper[Any, Any, Any, Any]):
    """Draws a frame after the first reset, and one after every step until the episode has ended.

    A vector of environments resets one that ended in the same step, so that only the environment itself can draw the
    last frame. A frame that cannot be drawn is no failure of the environment: `take` tells it.

    Args:
        env: made with `render_mode="rgb_array"`.

    Raises:
        UsageError: if the environment has another render mode, or none.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        if env.render_mode != "rgb_array":
            modes = ", ".join(map(str, env.metadata.get("render_modes", ()))) or "none"
            raise UsageError(f"{self._name} cannot be filmed: it has no render_mode 'rgb_array'; its modes: {modes}.")
        self._frames: list[Frame] = []
        self._failure: UsageError | None = None
        self._is_over = False

    @property
    def frames_per_second(self) -> float:
        """How many steps a second of its own time has: `metadata["render_fps"]`, 30 where it does not say."""
        return float(self.env.metadata.get("render_fps") or 30.0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Reset the environment, and draw it."""
        started = self.env.reset(seed=seed, options=options)
        self._draw()
        return started

    def step(self, action: Any) -> Any:
        """Step the environment, and draw it."""
        stepped = self.env.step(action)
        self._draw()
        self._is_over = self._is_over or bool(stepped[2] or stepped[3])
        return stepped

    def take(self) -> list[Frame]:
        """Return the frames since the last call.

        Raises:
            UsageError: if one could not be drawn.
        """
        if self._failure is not None:
            raise self._failure
        frames, self._frames = self._frames, []
        return frames

    def _draw(self) -> None:
        if self._is_over or self._failure is not None:
            return
        try:
            frame: Any = self.env.render()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a drawing library raises where it finds no screen or driver
            self._failure = UsageError(f"{self._name} cannot be filmed: {cause_of(error)}")
            return
        if isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3:
            self._frames.append(frame.copy())
            return
        got = f"{frame.dtype} {frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
        self._failure = UsageError(f"{self._name} cannot be filmed: render() gave {got}, expected uint8 (H, W, 3).")

    @property
    def _name(self) -> str:
        return repr(self.env.spec.id if self.env.spec is not None else type(self.env.unwrapped).__name__)
