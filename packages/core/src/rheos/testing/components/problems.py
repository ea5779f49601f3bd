"""Problem: a component with all that is needed to run it and to train it, whatever kind of component it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rheos.backend import Adam
from rheos.networks.specs import Native, NetworkSpec
from rheos.networks.weights import leaf_specs

if TYPE_CHECKING:
    from rheos.arrays.namespace import Array, ArrayNamespace
    from rheos.backend import Function, Loss, OptimizerSpec
    from rheos.testing.components.columns import Columns

__all__ = ["Complaints", "Outputs", "Prepare", "Problem"]

Outputs = Mapping[str, npt.NDArray[Any]]
"""What a component gave, by name."""

Complaints = Iterator[tuple[str, str, str]]
"""What is wrong with outputs: subject, what it got, what was expected."""

Prepare = Callable[["ArrayNamespace", Mapping[str, "Array"]], tuple[Mapping[str, "Array"], Mapping[str, "Array"]]]
"""What a learner does to a batch first: `(xp, columns) -> (columns, scalar metrics)`."""


@dataclass(frozen=True)
class Problem:
    """A component with all that is needed to run it and to train it."""

    what: str
    """How messages name it."""
    networks: Mapping[str, NetworkSpec]
    draw: Callable[[np.random.Generator], Columns]
    function: Function
    """What the component gives: its outputs by name."""
    loss: Loss
    complaints: Callable[[Outputs], Complaints]
    """What is wrong with outputs, as far as one can tell without knowing the right ones."""
    coefficients: Mapping[str, float] = field(default_factory=dict)
    frozen: Mapping[str, NetworkSpec] = field(default_factory=dict)
    """Networks that are called, too, and not trained."""
    optimizer: OptimizerSpec = field(default_factory=Adam)
    prepare: Prepare | None = None
    maps_rows: bool = False
    """Whether the function maps each row of the columns by itself."""

    @property
    def has_native(self) -> bool:
        """Whether a network is the user's own, so that one framework alone runs it."""
        return any(isinstance(leaf, Native) for leaf in leaf_specs({**self.networks, **self.frozen}).values())
