"""PolicySpec: how a trained algorithm acts, apart from the framework and from where it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rheos.backend import Function
    from rheos.networks.specs import NetworkSpec

__all__ = ["PolicySpec"]


@dataclass(frozen=True)
class PolicySpec:
    """The networks of a policy, and its two ways to act, written once over `xp`.

    `explore` takes `observations` `[B, D]` float32 and `noise` `[B, ...]` (drawn by `draw_noise`, so that
    every backend acts alike) and gives at least `actions` `[B, ...]`, the encoded actions; whatever else it
    gives (`values`, `log_probs`) becomes a column of the rollout. `exploit` takes `observations` and gives
    `actions`.
    """

    networks: Mapping[str, NetworkSpec]
    explore: Function
    exploit: Function
    draw_noise: Callable[[np.random.Generator, int], npt.NDArray[np.float32]]
    """`(generator, num) -> noise` `[num, ...]`, for `num` actions: a worker draws for a whole fragment at once."""
