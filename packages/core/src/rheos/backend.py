"""What a backend is: the array namespace, native networks, gradients and optimizers of one framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rheos.arrays.namespace import Array, ArrayNamespace
    from rheos.networks.specs import NetworkSpec

__all__ = ["Adam", "Backend", "Coefficients", "Function", "Loss", "Networks", "Optimizer"]

Networks = Mapping[str, Callable[["Array"], "Array"]]
"""Native networks by name, each callable on a native array."""

Coefficients = Mapping[str, Any]
"""Numbers by name that may change from step to step, such as `learning_rate`: Python floats or native scalars."""

Loss = Callable[["ArrayNamespace", Networks, Mapping[str, "Array"], Coefficients], tuple["Array", dict[str, "Array"]]]
"""`(xp, networks, batch, coefficients) -> (scalar loss, scalar metrics)`, written once over `xp`."""

Function = Callable[["ArrayNamespace", Networks, Mapping[str, "Array"]], dict[str, "Array"]]
"""`(xp, networks, inputs) -> outputs`, written once over `xp`: acting, values, targets."""


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma & Ba 2015, arXiv:1412.6980) as torch defines it: epsilon outside the root, after bias correction."""

    epsilon: float = 1e-8
    beta_1: float = 0.9
    beta_2: float = 0.999


class Optimizer(Protocol):
    """The state of an optimizer over the trainable weights of some networks."""

    def state_dict(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the state as a flat dict of arrays, by the canonical names of the weights."""
        ...

    def load_state_dict(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take a state that `state_dict` gave."""
        ...


class Backend(Protocol):
    """The verbs that a learner and an actor need of a framework; everything else stays native."""

    name: str
    device: str
    xp: ArrayNamespace

    def build(self, specs: Mapping[str, NetworkSpec], weights: Mapping[str, npt.NDArray[np.float32]]) -> Any:
        """Build native networks that start from `weights` (canonical names, `<network>/<weight>`)."""
        ...

    def weights(self, networks: Any) -> dict[str, npt.NDArray[np.float32]]:
        """Return a copy of all weights by canonical name; never a view of what later updates change."""
        ...

    def load(self, networks: Any, weights: Mapping[str, npt.NDArray[np.float32]], *, strict: bool = True) -> None:
        """Overwrite weights; a missing, unknown or misshapen one is a `ShapeError` that names it.

        Args:
            networks: native ones.
            weights: by canonical name.
            strict: whether all must be there; else those that are not given stay as they are.
        """
        ...

    def optimizer(self, spec: Adam, networks: Any) -> Optimizer:
        """Make an optimizer over every trainable weight of the networks."""
        ...

    def update(
        self, loss: Loss, networks: Any, optimizer: Any, *, max_grad_norm: float | None
    ) -> Callable[[Mapping[str, Array], Mapping[str, float]], dict[str, Array]]:
        """Join a loss with gradients, clipping by global norm and a step: `(batch, coefficients) -> metrics`.

        The optimizer reads `coefficients["learning_rate"]`, the loss gets all of them. What is trained is what the
        optimizer (one of `optimizer`) was made for; `networks` may hold others beside it. The metrics are native
        scalars, those of the loss and `loss` and `grad_norm` (before clipping), so that nothing waits for them before
        `get`. A gradient that is not finite changes neither weights nor optimizer, and shows in `grad_norm`.
        """
        ...

    def infer(self, function: Function, networks: Any) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """Make a function from NumPy inputs to NumPy outputs, without gradients."""
        ...

    def put(self, columns: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, Array]:
        """Copy columns to the device, dtypes kept."""
        ...

    def take(self, columns: Mapping[str, Array], indices: npt.NDArray[np.integer[Any]]) -> dict[str, Array]:
        """Return the rows with these indices of every native column: a minibatch."""
        ...

    def get(self, arrays: Mapping[str, Array]) -> dict[str, npt.NDArray[np.generic]]:
        """Copy native arrays to NumPy arrays."""
        ...
