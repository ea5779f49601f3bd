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

    All functions take columns by name, `[B, ...]`: those of `ObservationAdapter` (`observations`, or one for each
    image, and `action_mask` where there is one) and what is said below.

    `explore` takes `noise` `[B, ...]` as well (drawn by `draw_noise`, so that every backend acts alike) and gives at
    least `actions` `[B, ...]`, the encoded actions; `exploit` gives `actions`.

    What can wait is done once for all rows of a fragment, which is several times cheaper than at every step:
    `annotate` takes what was observed and done (`rewards`, all that `explore` gave) and gives the columns that stand
    in the rollout instead of what `explore` gave beside `actions`; without it, they stand there themselves. `value`
    gives `values` `[B]` of observations; with it the rollout has `values` and `next_values`.

    A policy with a memory has `memory_size` numbers of it for each environment. `explore` and `exploit` also take
    `memory` `[B, memory_size]` float32, as the step before left it, and `is_first` bool `[B]`: where it is True, an
    episode begins, and whatever was in `memory` must not matter. They give the new `memory`. Who acts keeps it from
    step to step.

    Raises:
        ValueError: if a policy with a memory has `annotate` or `value`.
    """

    networks: Mapping[str, NetworkSpec]
    explore: Function
    exploit: Function
    draw_noise: Callable[[np.random.Generator, int], npt.NDArray[np.float32]]
    """`(generator, num) -> noise` `[num, ...]`, for `num` actions: a worker draws for a whole fragment at once."""
    annotate: Function | None = None
    value: Function | None = None
    memory_size: int = 0

    def __post_init__(self) -> None:
        """Refuse what no worker does yet."""
        if self.memory_size and (self.annotate is not None or self.value is not None):
            raise ValueError(
                f"PolicySpec(memory_size={self.memory_size}): got annotate or value, which have no memory: give what "
                "they give in explore."
            )
