"""Random columns: what a component is fed with, drawn from the spaces of its inputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from rheos.errors import SpaceError
from rheos.spaces import ACTION_MASK, ActionAdapter, ObservationAdapter, Spaces

__all__ = ["Columns", "draw_columns", "draw_inputs", "names_of_inputs"]

Columns = dict[str, npt.NDArray[Any]]

_UNBOUNDED = 1e6
"""From here on a bound counts as none: nothing is learned from numbers drawn evenly up to the largest float."""
_LEAVES = spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary


def draw_columns(
    given: Spaces | Mapping[str, spaces.Space[Any]],
    others: Sequence[str],
    generator: np.random.Generator,
    lead: tuple[int, ...],
) -> Columns:
    """Draw the columns of a batch.

    Of the spaces of an environment, the observations are encoded by `ObservationAdapter`, and `actions` by
    `ActionAdapter`. A column with a space of its own is drawn from it: a Box gives its own dtype (float64 becomes
    float32), a Discrete or MultiDiscrete int32, a MultiBinary flags. Where there is an `action_mask`, it allows the
    action that was drawn.

    Args:
        given: the spaces of an environment, or a space for each column.
        others: names of columns without a space: standard normal numbers.
        generator: what they are drawn from.
        lead: the axes in front of each column.

    Raises:
        SpaceError: if a space cannot be drawn from, or encoded.
    """
    rows = prod(lead)
    if isinstance(given, Spaces):
        observations = _draw(given.observation, generator, rows)
        columns = dict(ObservationAdapter(given.observation, given.action).encode(observations))
        columns["actions"] = ActionAdapter(given.action).encode(_draw(given.action, generator, rows))
        action_space: spaces.Space[Any] | None = given.action
    else:
        columns = {name: _column(name, space, generator, rows) for name, space in given.items()}
        action_space = given.get("actions")
    if ACTION_MASK in columns and isinstance(action_space, spaces.Discrete | spaces.MultiDiscrete):
        first = 0 if isinstance(given, Spaces) else action_space.start
        columns[ACTION_MASK] = _allowing(columns[ACTION_MASK], columns["actions"] - first, action_space)
    columns |= {name: generator.standard_normal(rows, np.float32) for name in others}
    return {name: column.reshape(*lead, *column.shape[1:]) for name, column in columns.items()}


def draw_inputs(space: spaces.Space[Any], generator: np.random.Generator, lead: tuple[int, ...], name: str) -> Columns:
    """Draw what a network is called on, float32: a Box as it is, bytes as numbers from 0 to 1, all else one-hot.

    Returns:
        One column `name`; for a Dict one for each of its leaves, `<name>/<key>`.
    """
    if isinstance(space, spaces.Dict):
        parts = [draw_inputs(part, generator, lead, f"{name}/{key}") for key, part in space.spaces.items()]
        return {name: column for part in parts for name, column in part.items()}
    batch = _draw(space, generator, prod(lead))
    if isinstance(space, spaces.Box):
        column = np.asarray(batch, np.float32) / (255.0 if space.dtype == np.uint8 else 1.0)
    else:
        column = ObservationAdapter(space).encode(batch)["observations"]
    return {name: np.asarray(column, np.float32).reshape(*lead, *column.shape[1:])}


def names_of_inputs(space: spaces.Space[Any], name: str) -> Any:
    """Return the name of the column of `draw_inputs`; for a Dict, a dict of those of its parts."""
    if isinstance(space, spaces.Dict):
        return {key: names_of_inputs(part, f"{name}/{key}") for key, part in space.spaces.items()}
    return name


def _column(name: str, space: spaces.Space[Any], generator: np.random.Generator, rows: int) -> npt.NDArray[Any]:
    if not isinstance(space, _LEAVES):
        raise SpaceError(f"{name}: got {space}, expected Box, Discrete, MultiDiscrete or MultiBinary for a column.")
    column = np.asarray(_draw(space, generator, rows))
    if isinstance(space, spaces.MultiBinary):
        return column.astype(np.bool_)
    if column.dtype.kind == "f":
        return column.astype(np.float32)
    return column if column.dtype in (np.uint8, np.bool_) else column.astype(np.int32)


def _draw(space: spaces.Space[Any], generator: np.random.Generator, rows: int) -> Any:
    """Draw a batch of observations or actions, and leave the space's own generator as it was."""
    own = _within_reason(space)
    own.seed(int(generator.integers(2**31)))
    return batch_space(own, rows).sample()


def _within_reason(space: spaces.Space[Any]) -> spaces.Space[Any]:
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _within_reason(part) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_within_reason(part) for part in space.spaces])
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low = np.where(space.low < -_UNBOUNDED, -np.inf, space.low)
        high = np.where(space.high > _UNBOUNDED, np.inf, space.high)
        return spaces.Box(low, high, space.shape, space.dtype.type)
    return copy.deepcopy(space)


def _allowing(
    mask: npt.NDArray[Any], actions: npt.NDArray[Any], space: spaces.Discrete | spaces.MultiDiscrete
) -> npt.NDArray[np.bool_]:
    """Return the mask with the actions (from 0) allowed, so that their probability is not 0."""
    sizes = np.atleast_1d(space.n if isinstance(space, spaces.Discrete) else space.nvec.ravel())
    places = actions.reshape(len(actions), -1) + (np.cumsum(sizes) - sizes)
    allowed: npt.NDArray[np.bool_] = mask.astype(np.bool_)
    np.put_along_axis(allowed, places.astype(np.int64), True, axis=1)
    return allowed
