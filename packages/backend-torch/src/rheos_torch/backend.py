"""TorchBackend: the verbs of `rheos.backend.Backend` on PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rheos.errors import ConfigError
from rheos_torch.namespace import TorchNamespace
from rheos_torch.networks import TorchNetworks
from rheos_torch.optimizer import TorchAdam

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rheos.arrays.namespace import ArrayNamespace
    from rheos.backend import Adam, Backend, Function, Loss
    from rheos.networks.specs import NetworkSpec

__all__ = ["TorchBackend", "make_backend"]


def make_backend(*, device: str, mode: str) -> Backend:
    """Make the backend that the plugin `torch` offers."""
    return TorchBackend(device, mode)


class TorchBackend:
    """PyTorch, define-by-run.

    Args:
        device: where weights and batches lie, as torch spells it: "cpu", "cuda", "cuda:1".
        mode: "eager", or "auto", which is eager here: compiling does not pay on small networks.
        threads: how many threads torch may use, in the whole process; 1 makes a run repeat bit for bit, and
            is the fastest for small networks.

    Raises:
        ConfigError: if torch has no such device, or the mode is none of these.
    """

    name = "torch"

    def __init__(self, device: str = "cpu", mode: str = "auto", *, threads: int = 1) -> None:
        if mode == "graph":
            raise ConfigError(
                "backend.mode: got 'graph', which the torch backend does not have yet: use 'auto' or 'eager'."
            )
        if mode not in ("auto", "eager"):
            raise ConfigError(f"backend.mode: got {mode!r}, expected one of auto, eager, graph.")
        self.device = _checked_device(device)
        self.xp: ArrayNamespace = TorchNamespace(device)
        torch.set_num_threads(threads)

    def build(self, specs: Mapping[str, NetworkSpec], weights: Mapping[str, npt.NDArray[np.float32]]) -> TorchNetworks:
        """Build native modules that start from `weights`."""
        return TorchNetworks(specs, weights, self.device)

    def weights(self, networks: TorchNetworks) -> dict[str, npt.NDArray[np.float32]]:
        """Return a copy of all weights by canonical name."""
        return networks.by_name(networks.flat)

    def load(self, networks: TorchNetworks, weights: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Overwrite all weights; a missing, unknown or misshapen one is a `ShapeError` that names it."""
        networks.load(weights)

    def optimizer(self, spec: Adam, networks: TorchNetworks) -> TorchAdam:
        """Make an optimizer over every weight of the networks."""
        return TorchAdam(spec, networks)

    def update(
        self, loss: Loss, networks: Mapping[str, torch.nn.Module], optimizer: TorchAdam, *, max_grad_norm: float | None
    ) -> Callable[[Mapping[str, Tensor], float], dict[str, Tensor]]:
        """Join a loss with gradients, clipping by global norm and a step: `(batch, learning_rate) -> metrics`.

        What is trained is what the optimizer was made for; `networks` may hold others beside it.
        A gradient that is not finite changes neither weights nor optimizer, and shows in the metric
        `grad_norm` (before clipping).
        """
        xp, trained = self.xp, optimizer.networks

        def update(batch: Mapping[str, Tensor], learning_rate: float) -> dict[str, Tensor]:
            value, metrics = loss(xp, networks, batch)
            trained.gradient.zero_()
            torch.autograd.backward(value, inputs=trained.parameters)
            grad_norm = torch.linalg.vector_norm(trained.gradient)
            if max_grad_norm is not None:
                trained.gradient.mul_(torch.clamp(max_grad_norm / (grad_norm + 1e-6), max=1.0))
            optimizer.step(learning_rate, skip=torch.isfinite(grad_norm).logical_not().to(torch.float32))
            detached = {name: metric.detach() for name, metric in metrics.items()}
            return {**detached, "loss": value.detach(), "grad_norm": grad_norm}

        return update

    def infer(
        self, function: Function, networks: Mapping[str, torch.nn.Module]
    ) -> Callable[[Mapping[str, npt.NDArray[np.generic]]], dict[str, npt.NDArray[np.generic]]]:
        """Make a function from NumPy inputs to NumPy outputs, without gradients."""

        def infer(inputs: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, npt.NDArray[np.generic]]:
            with torch.inference_mode():
                return self.get(function(self.xp, networks, self.put(inputs)))

        return infer

    def put(self, columns: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, Tensor]:
        """Copy columns to the device, dtypes kept."""
        return {name: torch.tensor(column, device=self.device) for name, column in columns.items()}

    def take(self, columns: Mapping[str, Tensor], indices: npt.NDArray[np.integer[Any]]) -> dict[str, Tensor]:
        """Return the rows with these indices of every column."""
        rows = torch.tensor(indices, device=self.device)
        return {name: torch.index_select(column, 0, rows) for name, column in columns.items()}

    def get(self, arrays: Mapping[str, Tensor]) -> dict[str, npt.NDArray[np.generic]]:
        """Copy native arrays to NumPy arrays."""
        return {name: array.detach().to("cpu", copy=True).numpy() for name, array in arrays.items()}


def _checked_device(device: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that torch no longer uses; it refuses them as well
            torch.zeros((), device=device).cpu()  # there and back: the device "meta" holds no values
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device: torch cannot use {device!r} ({reason}): try device=cpu.") from None
    return device
