"""What a backend is: the array namespace, native networks, gradients and optimizers of one framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rheos.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from rheos.arrays.namespace import Array, ArrayNamespace
    from rheos.networks.specs import NetworkSpec

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Backend",
    "Coefficients",
    "Function",
    "Loss",
    "Networks",
    "Optimizer",
    "OptimizerSpec",
    "ParallelBackend",
    "RMSProp",
    "learning_devices",
]

Networks = Mapping[str, Callable[..., Any]]
"""Native networks by name, each called on native arrays as its spec says."""

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


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101): first, w -= lr weight_decay w."""

    epsilon: float = 1e-8
    beta_1: float = 0.9
    beta_2: float = 0.999
    weight_decay: float = 0.01


@dataclass(frozen=True)
class RMSProp:
    """RMSProp (Hinton 2012, lecture 6e) as torch defines it: epsilon outside the root, the momentum after the scaling.

    s = decay s + (1 - decay) g²; if centered, m = decay m + (1 - decay) g and the root is that of s - m²;
    v = momentum v + g / (√s + epsilon); w -= lr v.
    """

    epsilon: float = 1e-8
    decay: float = 0.99
    momentum: float = 0.0
    is_centered: bool = False


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent as torch defines its momentum: v = momentum v + g (at first v = g); w -= lr v."""

    momentum: float = 0.0


OptimizerSpec = Adam | AdamW | RMSProp | SGD


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
    num_compilations: int
    """How often a function of `update` or `infer` was compiled (or traced) so far; 0 where nothing is."""

    def build(
        self, specs: Mapping[str, NetworkSpec], weights: Mapping[str, npt.NDArray[np.float32]], *, seed: int = 0
    ) -> Any:
        """Build native networks that start from `weights` (canonical names, `<network>/<weight>`).

        The weights of a `Native` network may be missing: then it starts from its own, for which the framework's
        generator is seeded with `seed`, and left as it was afterwards.

        Raises:
            ShapeError: if a weight is missing, unknown or misshapen.
        """
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

    def optimizer(self, spec: OptimizerSpec, networks: Any) -> Optimizer:
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

    def polyak(self, target: Any, source: Any, tau: float) -> None:
        """Move all weights of a network towards those of another one: (1 - tau) target + tau source.

        Args:
            target: networks of `build`.
            source: networks built from the same specs.
            tau: in [0, 1]; 1 copies.
        """
        ...

    def infer(self, function: Function, networks: Any) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """Make a function from NumPy inputs to NumPy outputs, without gradients."""
        ...

    def put(self, columns: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, Array]:
        """Copy columns to the device, dtypes kept."""
        ...

    def minibatches(
        self, columns: Mapping[str, Array], order: npt.NDArray[np.integer[Any]], bounds: Sequence[slice]
    ) -> Iterable[dict[str, Array]]:
        """Give the rows of native columns in another order, cut into minibatches.

        Args:
            columns: each `[N, ...]`.
            order: the indices of rows, `[N]`.
            bounds: where each minibatch begins and ends in that order.
        """
        ...

    def get(self, arrays: Mapping[str, Array]) -> dict[str, npt.NDArray[np.generic]]:
        """Copy native arrays to NumPy arrays."""
        ...

    def export(
        self, function: Function, networks: Any, inputs: Mapping[str, npt.NDArray[np.generic]], path: Path, to: str
    ) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """Write a function with its networks as one file (or folder) that runs without Rheos.

        Args:
            function: as `infer` takes it.
            networks: of `build`.
            inputs: an example, `[B, ...]` each; the exported function takes any B.
            path: of the file or folder; it must not be there.
            to: one of the `export_formats` of its spec.

        Returns:
            The exported function as it was read again from there, from NumPy inputs to NumPy outputs.

        Raises:
            ConfigError: if the function cannot be written so, or what does it is not installed; the message says why
                and what to do, and nothing is left at `path`.
        """
        ...


@runtime_checkable
class ParallelBackend(Protocol):
    """What a backend has beside its verbs if several processes can learn together.

    Each process has a backend of its own, builds the same networks and takes the same updates, on other rows.
    """

    def devices(self, processes: int) -> tuple[str, ...]:
        """Return the device of each of so many processes; the first one's is that of this backend.

        Raises:
            ConfigError: if there are too few of them.
        """
        ...

    def meet(self) -> str:
        """Open a place where the processes find each other, for as long as this one is there; return its address."""
        ...

    def join(self, rank: int, size: int, address: str) -> None:
        """Wait for the others; what `update` makes from then on is of all processes.

        Their gradients are summed, before they are clipped, and so are the metrics of the loss and `loss`. So all
        processes take the same step and tell the same metrics, those of one process that had all rows, if each loss
        and metric is weighted by the process' share of the rows.

        Args:
            rank: of this process, from 0.
            size: how many there are.
            address: of the place that one of them opened.

        Raises:
            ConnectionError: here and in each update, if another process has gone.
        """
        ...

    def leave(self) -> None:
        """Break off from the others, also from another thread; what waits for them fails."""
        ...


def learning_devices(backend: Backend, processes: int) -> tuple[str, ...]:
    """Return the device of each of the processes that learn together.

    Raises:
        ConfigError: if the backend learns in one process only, or has too few devices.
    """
    if processes == 1:
        return (backend.device,)
    if not isinstance(backend, ParallelBackend):
        raise ConfigError(f"backend.processes: got {processes}, expected 1 with the backend {backend.name!r}.")
    return backend.devices(processes)
