"""Losses and learners as problems."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from gymnasium import spaces

from rheos.networks.specs import NetworkSpec
from rheos.spaces import ObservationAdapter, Spaces
from rheos.testing.components.columns import Columns, draw_columns
from rheos.testing.components.problems import Complaints, Outputs, Prepare, Problem

if TYPE_CHECKING:
    from rheos.arrays.namespace import Array, ArrayNamespace
    from rheos.backend import Loss, Networks, OptimizerSpec

__all__ = ["ColumnSpaces", "LearnerLike", "learner_problem", "loss_problem"]

ColumnSpaces = Spaces | Mapping[str, spaces.Space[Any]]
"""Those of an environment, or one for each column."""


class LearnerLike(Protocol):
    """What is asked of the spec of a learner, such as `rheos_ops.learners.LearnerSpec`."""

    @property
    def networks(self) -> Mapping[str, NetworkSpec]:
        """By name."""
        ...

    @property
    def loss(self) -> Loss:
        """What is learned by."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """Those of a batch that the loss and `prepare` read."""
        ...

    @property
    def coefficients(self) -> Mapping[str, float | Callable[[int], float]]:
        """What the loss gets beside the learning rate."""
        ...

    @property
    def optimizer(self) -> OptimizerSpec:
        """What steps are taken by."""
        ...

    @property
    def prepare(self) -> Prepare | None:
        """What is done to a batch first."""
        ...

    @property
    def targets(self) -> Mapping[str, NetworkSpec]:
        """What the loss calls beside its networks, and leaves as it is."""
        ...

    @property
    def row_metrics(self) -> Collection[str]:
        """Metrics of the loss that are a number for each row, not a scalar."""
        ...


def loss_problem(
    loss: Loss,
    networks: Mapping[str, NetworkSpec],
    frozen: Mapping[str, NetworkSpec],
    coefficients: Mapping[str, float],
    given: ColumnSpaces,
    lead: tuple[int, ...],
) -> Problem:
    """Return what there is to check of a loss; see `check_component` for the arguments."""
    draw = partial(draw_columns, given, (), lead=lead)
    return _problem(_name_of(loss), loss, networks, coefficients, draw, frozen=frozen)


def learner_problem(spec: LearnerLike, given: ColumnSpaces, lead: tuple[int, ...]) -> Problem:
    """Return what there is to check of a learner.

    Args:
        spec: what an algorithm says of it.
        given: spaces of its columns; what else it reads are standard normal numbers.
        lead: the axes in front of each column.
    """
    if isinstance(given, Spaces):
        known = {"actions", *ObservationAdapter(given.observation, given.action).columns}
    else:
        known = set(given)
    others = [name for name in spec.columns if name not in known]
    numbers = {name: value(0) if callable(value) else value for name, value in spec.coefficients.items()}

    def draw(generator: np.random.Generator) -> Columns:
        columns = draw_columns(given, others, generator, lead)
        return {name: columns[name] for name in spec.columns}

    what = f"the learner of {_name_of(spec.loss)}"
    settings = {"optimizer": spec.optimizer, "prepare": spec.prepare, "frozen": spec.targets}
    return _problem(what, spec.loss, spec.networks, numbers, draw, spec.row_metrics, lead, **settings)


def _name_of(loss: Loss) -> str:
    name: str = getattr(loss, "__name__", type(loss).__name__)
    return name


def _problem(
    what: str,
    loss: Loss,
    networks: Mapping[str, NetworkSpec],
    coefficients: Mapping[str, float],
    draw: Callable[[np.random.Generator], Columns],
    row_metrics: Collection[str] = (),
    lead: tuple[int, ...] = (),
    **settings: Any,
) -> Problem:
    def function(xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array]) -> dict[str, Array]:
        value, metrics = loss(xp, networks, batch, {**coefficients, "learning_rate": 0.0})
        return {"loss": value, **metrics}

    def complaints(outputs: Outputs) -> Complaints:
        for name, output in outputs.items():
            expected = lead if name in row_metrics else ()
            if output.shape != expected:
                yield name, f"the shape {output.shape}", f"the shape {expected}" if expected else "a scalar"
            elif output.dtype != np.float32:
                yield name, f"the dtype {output.dtype}", "float32"

    return Problem(what, networks, draw, function, loss, complaints, coefficients=coefficients, **settings)
