"""From a component to its problem, by what kind of component it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast, get_args

from gymnasium import spaces

from rheos.networks.specs import NetworkSpec
from rheos.testing.components.distributions import distribution_problem
from rheos.testing.components.losses import ColumnSpaces, learner_problem, loss_problem
from rheos.testing.components.networks import network_problem

if TYPE_CHECKING:
    from rheos.backend import Loss
    from rheos.testing.components.problems import Problem

__all__ = ["problem_of"]


def problem_of(
    component: Any,
    given: spaces.Space[Any] | ColumnSpaces,
    networks: Mapping[str, NetworkSpec] | None,
    frozen: Mapping[str, NetworkSpec],
    coefficients: Mapping[str, float],
    lead: tuple[int, ...],
) -> Problem:
    """Return what there is to check of a component; see `check_component` for the arguments.

    Raises:
        TypeError: if it is no component, or the spaces or networks are not those of such a component.
    """
    if isinstance(component, get_args(NetworkSpec)):
        return network_problem(component, _one_space(component, given), lead)
    if all(hasattr(component, name) for name in ("sample", "log_prob", "draw_noise")):
        return distribution_problem(component, _one_space(component, given), lead)
    if isinstance(given, spaces.Dict):
        given = given.spaces
    if isinstance(given, spaces.Space):
        raise TypeError(f"check_component: got {given}, expected a space for each column of a batch, or rheos.Spaces.")
    if all(hasattr(component, name) for name in ("networks", "loss", "columns")):
        return learner_problem(component, given, lead)
    if not callable(component):
        raise TypeError(
            f"check_component: got {component!r}, expected a network spec, distribution, loss or learner spec."
        )
    if networks is None:
        raise TypeError("check_component: a loss is checked with its networks, give them as `networks`.")
    return loss_problem(cast("Loss", component), networks, frozen, coefficients, given, lead)


def _one_space(component: object, given: Any) -> spaces.Space[Any]:
    if isinstance(given, spaces.Space):
        return given
    raise TypeError(f"check_component: got {given!r}, expected the one space of a {type(component).__name__}.")
