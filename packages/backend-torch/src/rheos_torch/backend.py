"""TorchBackend: the verbs of `rheos.backend.Backend` on PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rheos.errors import ConfigError
from rheos_torch.gradients import check_compiler, compiled_gradients, eager_gradients
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


def make_backend(*, device: str, mode: str, threads: int) -> Backend:
    """Make the backend that the plugin `torch` offers."""
    return TorchBackend(device, mode, threads=threads)


class TorchBackend:
    """PyTorch, define-by-run or compiled.

    Args:
        device: where weights and batches lie, as torch spells it: "cpu", "cuda", "cuda:1".
        mode: "eager"; "graph", which compiles each loss with its gradient when it is first called: an update of small
            networks takes half the time then, after a wait of tens of seconds; or "auto", which is eager here.
        threads: how many threads torch may use, in the whole process; 1 makes a run repeat bit for bit, and
            is the fastest for small networks.

    Raises:
        ConfigError: if torch has no such device, the mode is none of these, or `graph` finds no compiler.
    """

    name = "torch"

    def __init__(self, device: str = "cpu", mode: str = "auto", *, threads: int = 1) -> None:
        if mode not in ("auto", "eager", "graph"):
            raise ConfigError(f"backend.mode: got {mode!r}, expected one of auto, eager, graph.")
        self.device = _checked_device(device)
        if mode == "graph" and torch.device(device).type == "cpu":
            check_compiler()
        self.xp: ArrayNamespace = TorchNamespace(device)
        self._make_gradients = compiled_gradients if mode == "graph" else eager_gradients
        torch.set_num_threads(threads)

    def build(self, specs: Mapping[str, NetworkSpec], weights: Mapping[str, npt.NDArray[np.float32]]) -> TorchNetworks:
        """Build native modules that start from `weights`."""
        return TorchNetworks(specs, weights, self.device)

    def weights(self, networks: TorchNetworks) -> dict[str, npt.NDArray[np.float32]]:
        """Return a copy of all weights by canonical name."""
        return networks.weights()

    def load(
        self, networks: TorchNetworks, weights: Mapping[str, npt.NDArray[np.float32]], *, strict: bool = True
    ) -> None:
        """Overwrite all weights, or without `strict` those that are given; a wrong one is a `ShapeError`."""
        networks.load(weights, strict=strict)

    def optimizer(self, spec: Adam, networks: TorchNetworks) -> TorchAdam:
        """Make an optimizer over every trainable weight of the networks."""
        return TorchAdam(spec, networks)

    def update(
        self, loss: Loss, networks: Mapping[str, torch.nn.Module], optimizer: TorchAdam, *, max_grad_norm: float | None
    ) -> Callable[[Mapping[str, Tensor], Mapping[str, float]], dict[str, Tensor]]:
        """Join a loss with gradients, clipping by global norm and a step: `(batch, coefficients) -> metrics`.

        What is trained is what the optimizer was made for; `networks` may hold others beside it.
        A gradient that is not finite changes neither weights nor optimizer, and shows in the metric
        `grad_norm` (before clipping).
        """
        gradients = self._make_gradients(loss, self.xp, networks, optimizer.networks, max_grad_norm)

        def update(batch: Mapping[str, Tensor], coefficients: Mapping[str, float]) -> dict[str, Tensor]:
            metrics = gradients(batch, coefficients)
            is_spoilt = torch.isfinite(metrics["grad_norm"]).logical_not()
            optimizer.step(coefficients["learning_rate"], skip=is_spoilt.to(torch.float32))
            return metrics

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that torch no longer uses; it refuses them as well
        try:
            torch.device(device)
        except RuntimeError:  # its message is a list of all that torch has ever had
            raise ConfigError(f"device: torch cannot use {device!r}: try device=cuda or device=cpu.") from None
        try:
            torch.zeros((), device=device).cpu()  # there and back: the device "meta" holds no values
        except (RuntimeError, AssertionError, ImportError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"device: torch cannot use {device!r} ({reason}): try device=cpu.") from None
    return device
