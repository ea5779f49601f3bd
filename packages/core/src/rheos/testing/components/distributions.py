"""Distributions as problems: the parameters that a network gives are trained, by all functions of the distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.networks.specs import MLP
from rheos.spaces import ActionAdapter, Spaces
from rheos.testing.components.columns import Columns, draw_columns
from rheos.testing.components.problems import Complaints, Outputs, Problem

if TYPE_CHECKING:
    from rheos.arrays.namespace import Array, ArrayNamespace
    from rheos.backend import Coefficients, Networks

__all__ = ["DistributionLike", "distribution_problem"]

_ROUNDING = 1e-5
"""Of a divergence, for each parameter that has a part in it."""


class DistributionLike(Protocol):
    """What is asked of a distribution; `rheos_ops.distributions.Distribution` says what its parts mean."""

    num_outputs: int
    num_log_stds: int
    action_shape: tuple[int, ...]
    is_discrete: bool
    draw_noise: Callable[[np.random.Generator, int], npt.NDArray[np.float32]]
    sample: Callable[..., Array]
    mode: Callable[..., Array]
    log_prob: Callable[..., Array]
    entropy: Callable[..., Array]
    kl: Callable[..., Array]


def distribution_problem(family: DistributionLike, space: spaces.Space[Any], lead: tuple[int, ...]) -> Problem:
    """Return what there is to check of a distribution.

    Args:
        family: the distribution.
        space: of the actions.
        lead: the axes in front of parameters and actions.
    """
    num_params, rows = family.num_outputs + family.num_log_stds, prod(lead)

    def draw(generator: np.random.Generator) -> Columns:
        params = generator.standard_normal((2, rows, num_params), np.float32)
        params[..., family.num_outputs :] *= 0.5
        columns = {
            "features": generator.standard_normal((rows, 4), np.float32),
            "p": params[0],
            "q": params[1],
            "noise": family.draw_noise(generator, rows),
            **draw_columns(Spaces(spaces.Discrete(2), space), (), generator, (rows,)),
        }
        del columns["observations"]
        # Drawn once: at the bounds of an action space, a sample that differs by a bit has quite another density.
        columns["sampled"] = np.asarray(family.sample(numpy_xp, params[0], columns["noise"]))
        return {name: column.reshape(*lead, *column.shape[1:]) for name, column in columns.items()}

    def function(xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array]) -> dict[str, Array]:
        p, q = batch["p"], batch["q"]
        return {
            "sample": family.sample(xp, p, batch["noise"]),
            "mode": family.mode(xp, p),
            "log_prob": family.log_prob(xp, p, batch["actions"]),
            "log_prob of the sample": family.log_prob(xp, p, batch["sampled"]),
            "entropy": family.entropy(xp, p),
            "kl": family.kl(xp, p, q),
            "kl of p and p": family.kl(xp, p, p),
        }

    def loss(
        xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], coefficients: Coefficients
    ) -> tuple[Array, dict[str, Array]]:
        params = networks["params"](batch["features"])
        terms = {
            "log_prob": -xp.mean(family.log_prob(xp, params, batch["actions"])),
            "entropy": -xp.mean(family.entropy(xp, params)),
            "kl": xp.mean(family.kl(xp, params, batch["q"])),
        }
        if not family.is_discrete:
            terms["sample"] = xp.mean(family.sample(xp, params, batch["noise"]))
        return sum(terms.values()), terms

    def complaints(outputs: Outputs) -> Complaints:
        for name in ("sample", "mode"):
            yield from _wrong_actions(family, space, lead, name, outputs[name])
        for name in ("log_prob", "log_prob of the sample", "entropy", "kl", "kl of p and p"):
            if outputs[name].shape != lead:
                yield name, f"the shape {outputs[name].shape}", f"{lead}: one number for each row of parameters"
        worst, least = float(np.abs(outputs["kl of p and p"]).max()), float(outputs["kl"].min())
        if worst > _ROUNDING * num_params:
            yield "kl", f"{worst:g} of a distribution from itself", "0"
        if least < -_ROUNDING * num_params:
            yield "kl", f"{least:g}", "no divergence below 0"

    return Problem(
        what=str(family),
        networks={"params": MLP(4, num_params, ())},
        draw=draw,
        function=function,
        loss=loss,
        complaints=complaints,
        maps_rows=True,
    )


def _wrong_actions(
    family: DistributionLike, space: spaces.Space[Any], lead: tuple[int, ...], name: str, actions: npt.NDArray[Any]
) -> Complaints:
    adapter = ActionAdapter(space)
    shape, dtype = (*lead, *family.action_shape), np.dtype(np.int32 if family.is_discrete else np.float32)
    if actions.shape != shape:
        yield name, f"the shape {actions.shape}", f"{shape}: the axes of the parameters, and `action_shape`"
    elif tuple(family.action_shape) != adapter.shape:
        yield name, f"actions of shape {family.action_shape}", f"{adapter.shape}, as {space} is encoded"
    elif actions.dtype != dtype:
        yield name, f"the dtype {actions.dtype}", f"{dtype}"
    else:
        decoded = adapter.decode(actions.reshape(prod(lead), *adapter.shape))
        for action in _rows(decoded, prod(lead)):
            if not space.contains(action):
                yield name, f"the action {action}", f"one of {space}"


def _rows(batch: Any, count: int) -> Iterator[Any]:
    """Yield the rows of a decoded batch of actions, each as a space has it."""
    if isinstance(batch, dict):
        yield from (dict(zip(batch, row, strict=True)) for row in _rows(tuple(batch.values()), count))
    elif isinstance(batch, tuple):
        yield from zip(*(_rows(part, count) for part in batch), strict=True)
    else:
        yield from batch
