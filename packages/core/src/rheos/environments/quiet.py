"""Making an environment without what its simulator has to say about it to the environment's author."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

__all__ = ["make_quietly"]


def make_quietly(spec: EnvSpec, **kwargs: Any) -> gym.Env[Any, Any]:
    """Make an environment as `gym.make` does; what MuJoCo says of its model meanwhile is a Python warning.

    MuJoCo writes to the terminal and to a file in the working directory. What it says later, of a simulation that
    becomes unstable, it still does.
    """
    if isinstance(spec.entry_point, str):
        with suppress(Exception):  # gym.make raises it, too, and tells what is missing
            load_env_creator(spec.entry_point)
    with _mujoco_warning():
        # The checker is for authors of environments; what it finds cannot be mended by who trains on them.
        return gym.make(spec, disable_env_checker=True, **kwargs)


@contextmanager
def _mujoco_warning() -> Iterator[None]:
    mujoco: Any = sys.modules.get("mujoco")
    if mujoco is None:
        yield
        return
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: warnings.warn(text, stacklevel=2))
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
