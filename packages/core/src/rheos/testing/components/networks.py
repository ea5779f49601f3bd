"""Network specs as problems: they are trained to give ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from rheos.networks.specs import GRU, LSTM, NetworkSpec, Parameter
from rheos.testing.components.columns import Columns, draw_inputs, names_of_inputs
from rheos.testing.components.problems import Complaints, Outputs, Problem

if TYPE_CHECKING:
    from rheos.arrays.namespace import Array, ArrayNamespace
    from rheos.backend import Coefficients, Networks

__all__ = ["network_problem"]

_STEPS = 5
"""That a recurrent network takes, where `lead` does not say it."""


def network_problem(spec: NetworkSpec, space: spaces.Space[Any], lead: tuple[int, ...]) -> Problem:
    """Return what there is to check of a network.

    Args:
        spec: the network.
        space: of its input.
        lead: the axes in front; a recurrent network gets steps in front of rows.
    """
    is_recurrent = isinstance(spec, LSTM | GRU)
    names = names_of_inputs(space, "inputs")
    if is_recurrent and len(lead) == 1:
        lead = (_STEPS, *lead)

    def draw(generator: np.random.Generator) -> Columns:
        columns = draw_inputs(space, generator, lead, "inputs")
        if isinstance(spec, LSTM | GRU):
            columns["state"] = generator.standard_normal((lead[1], spec.state_size), np.float32)
            columns["is_first"] = generator.random(lead) < 0.2
        return columns

    def function(xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array]) -> dict[str, Array]:
        memory = (batch["state"], batch["is_first"]) if is_recurrent else ()
        return _flat("outputs", networks["network"](_tree(names, batch), *memory))

    def loss(
        xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], coefficients: Coefficients
    ) -> tuple[Array, dict[str, Array]]:
        terms = [xp.mean(xp.square(output - 1.0)) for output in function(xp, networks, batch).values()]
        return sum(terms[1:], terms[0]), {}

    def complaints(outputs: Outputs) -> Complaints:
        if isinstance(spec, Parameter):
            lead_of = dict.fromkeys(outputs, spec.shape)
        else:
            lead_of = {name: lead[1:] if is_recurrent and name == "outputs/1" else lead for name in outputs}
        for name, output in outputs.items():
            axes = lead_of[name]
            if output.shape[: len(axes)] != axes:
                yield name, f"the shape {output.shape}", f"({', '.join(map(str, axes))}, ...), the axes of the inputs"
            if output.dtype != np.float32:
                yield name, f"the dtype {output.dtype}", "float32"

    return Problem(
        what=type(spec).__name__,
        networks={"network": spec},
        draw=draw,
        function=function,
        loss=loss,
        complaints=complaints,
        maps_rows=not (is_recurrent or isinstance(spec, Parameter)),
    )


def _tree(names: Any, batch: Mapping[str, Array]) -> Any:
    if isinstance(names, dict):
        return {key: _tree(part, batch) for key, part in names.items()}
    return batch[names]


def _flat(name: str, outputs: Any) -> dict[str, Array]:
    """Give each array of what a network returns a name of its own."""
    if isinstance(outputs, Mapping):
        parts = outputs.items()
    elif isinstance(outputs, tuple | list):
        parts = dict(enumerate(outputs)).items()
    else:
        return {name: outputs}
    return {key: array for part, value in parts for key, array in _flat(f"{name}/{part}", value).items()}
