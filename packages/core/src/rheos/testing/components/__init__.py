"""check_component: tests of networks, distributions, losses and learners, from their spaces alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rheos.testing.components.checks import ComponentFailure, check_problem
from rheos.testing.components.kinds import problem_of
from rheos.testing.components.places import MODES, Place, Steps, installed_places

if TYPE_CHECKING:
    from gymnasium import spaces as gymnasium_spaces

    from rheos.networks.specs import NetworkSpec
    from rheos.spaces import Spaces

__tracebackhide__ = True

__all__ = ["MODES", "ComponentFailure", "Place", "Steps", "check_component", "installed_places"]


def check_component(
    component: Any,
    spaces: gymnasium_spaces.Space[Any] | Spaces | Mapping[str, gymnasium_spaces.Space[Any]],
    *,
    networks: Mapping[str, NetworkSpec] | None = None,
    frozen: Mapping[str, NetworkSpec] = MappingProxyType({}),
    coefficients: Mapping[str, float] = MappingProxyType({}),
    lead: tuple[int, ...] = (16,),
    backends: Sequence[str] | None = None,
    modes: Sequence[str] = MODES,
    tolerance: float = 1e-5,
    seed: int = 0,
) -> None:
    """Check that a component does what a component has to do, with random inputs, on every installed backend and mode.

    The component is built from its spaces alone. What is checked: its outputs have the shapes that the inputs imply,
    are finite, and are those of NumPy on every backend, define-by-run and compiled; gradients are the same everywhere;
    every trained weight moves in an update and no other one does, and the loss on the same batch falls; weights and
    optimizer that are saved, loaded and saved again are the same bits, and go on alike; no function is compiled more
    than once over 100 updates, whose coefficients change.

    What a component is, and what its spaces are:

    - A network spec: the space of its input; for a `Tree`, a Dict. Bytes are given to it as numbers from 0 to 1, and
      what is no Box as one-hot. A network of the user's own (`Native`) is checked on its own framework, without NumPy.
    - A distribution over actions (`rheos_ops.distributions`): the action space, whose actions its samples must be.
    - A loss, with its `networks` and `coefficients`: a space for each column of its batch. A Box keeps its dtype,
      Discrete and MultiDiscrete are int32, MultiBinary flags.
    - The spec of a learner (`rheos_ops.learners.LearnerSpec`): the same, or `rheos.Spaces` of an environment, as which
      observations and actions are encoded. Columns that have no space are standard normal numbers.

    Args:
        component: a network spec, a distribution, a loss, or the spec of a learner.
        spaces: of its inputs, as said above.
        networks: what a loss calls and trains.
        frozen: what a loss calls and leaves as it is, such as a target network.
        coefficients: of a loss; a learner has its own, schedules as they begin.
        lead: the axes in front of every column: rows, or steps and environments where columns are time-major.
        backends: names of backends; None takes all that are installed.
        modes: `eager` and `graph`; compiling takes torch up to a minute for each component.
        tolerance: by how much numbers may differ between backends, in parts of the largest one of their array, or of 1.
            A few hundred float32 numbers, added up in another order, stay below 1e-5.
        seed: of weights and inputs.

    Raises:
        ComponentFailure: if the component does not do so. It is an AssertionError of one line:
            `MLP on torch (graph): outputs: got 0.1 at [3, 0], expected 0.2, as on numpy.`
        TypeError: if the component is none of these, or the spaces are not those of such a component.
        ConfigError: if no backend is installed, one does not offer a mode, or none runs a network of the user's own.

    Example:
        >>> import gymnasium as gym, numpy as np
        >>> from rheos.networks.specs import MLP
        >>> check_component(MLP(4, 2), gym.spaces.Box(-np.inf, np.inf, (4,)), backends=())
    """
    problem = problem_of(component, spaces, networks, frozen, coefficients, lead)
    check_problem(problem, installed_places(backends, modes), seed=seed, tolerance=tolerance)
