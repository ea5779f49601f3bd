"""TorchBackend: the verbs of `rheos.backend.Backend` on PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rheos.errors import ConfigError
from rheos_torch.export import export
from rheos_torch.gradients import check_compiler, compiled_gradients, eager_gradients
from rheos_torch.moving import MovingBuffers
from rheos_torch.namespace import TorchNamespace
from rheos_torch.networks import TorchNetworks
from rheos_torch.optimizers import TorchOptimizer, make_optimizer
from rheos_torch.processes import Group, MeetingPlace, devices_of

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from rheos.arrays.namespace import ArrayNamespace
    from rheos.backend import Backend, Function, Loss, OptimizerSpec
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
            What `infer` makes is eager in every mode: compiled, small networks took as long or longer.
        threads: how many threads torch may use, in the whole process; 1 makes a run repeat bit for bit, and
            is the fastest for small networks.
        compiler: what `torch.compile` hands its graphs to in the mode "graph". "aot_eager" runs them operation by
            operation, as a test may: it compiles sooner, and needs no C++ compiler.

    Raises:
        ConfigError: if torch has no such device, the mode is none of these, or `graph` finds no compiler.
    """

    name = "torch"

    def __init__(
        self, device: str = "cpu", mode: str = "auto", *, threads: int = 1, compiler: str = "inductor"
    ) -> None:
        if mode not in ("auto", "eager", "graph"):
            raise ConfigError(f"backend.mode: got {mode!r}, expected one of auto, eager, graph.")
        self.device = _checked_device(device)
        if mode == "graph" and compiler == "inductor" and torch.device(device).type == "cpu":
            check_compiler()
        self.xp: ArrayNamespace = TorchNamespace(device)
        self.num_compilations = 0
        self._make_gradients = (
            partial(compiled_gradients, compiler=compiler, on_compiled=self._count)
            if mode == "graph"
            else eager_gradients
        )
        self._group: Group | None = None
        self._meeting_place: MeetingPlace | None = None
        torch.set_num_threads(threads)

    def build(
        self, specs: Mapping[str, NetworkSpec], weights: Mapping[str, npt.NDArray[np.float32]], *, seed: int = 0
    ) -> TorchNetworks:
        """Build native modules that start from `weights`, or a `Native` one from its own, drawn with `seed`."""
        return TorchNetworks(specs, weights, self.device, seed=seed)

    def weights(self, networks: TorchNetworks) -> dict[str, npt.NDArray[np.float32]]:
        """Return a copy of all weights by canonical name."""
        return networks.weights()

    def load(
        self, networks: TorchNetworks, weights: Mapping[str, npt.NDArray[np.float32]], *, strict: bool = True
    ) -> None:
        """Overwrite all weights, or without `strict` those that are given; a wrong one is a `ShapeError`."""
        networks.load(weights, strict=strict)

    def optimizer(self, spec: OptimizerSpec, networks: TorchNetworks) -> TorchOptimizer:
        """Make an optimizer over every trainable weight of the networks."""
        return make_optimizer(spec, networks)

    def update(
        self, loss: Loss, networks: Mapping[str, nn.Module], optimizer: TorchOptimizer, *, max_grad_norm: float | None
    ) -> Callable[[Mapping[str, Tensor], Mapping[str, float]], dict[str, Tensor]]:
        """Join a loss with gradients, clipping by global norm and a step: `(batch, coefficients) -> metrics`.

        What is trained is what the optimizer was made for; `networks` may hold others beside it.
        A gradient that is not finite changes neither weights nor optimizer, and shows in the metric
        `grad_norm` (before clipping).
        """
        trained, group = optimizer.networks, self._group
        gradients = self._make_gradients(loss, self.xp, networks, trained, max_grad_norm, group)
        moving = MovingBuffers(trained)

        def update(batch: Mapping[str, Tensor], coefficients: Mapping[str, float]) -> dict[str, Tensor]:
            before = moving.copies()
            metrics = gradients(batch, coefficients)
            is_spoilt = torch.isfinite(metrics["grad_norm"]).logical_not()
            optimizer.step(coefficients["learning_rate"], is_spoilt)
            moving.settle(before, is_spoilt, group)
            return metrics

        return update

    @torch.no_grad()
    def polyak(self, target: TorchNetworks, source: TorchNetworks, tau: float) -> None:
        """Move all weights of networks towards those of others: (1 - tau) target + tau source."""
        target.flat.lerp_(source.flat, tau)
        goals = source.fixed
        for name, tensor in target.fixed.items():
            tensor.lerp_(goals[name], tau)

    def infer(
        self, function: Function, networks: Mapping[str, nn.Module]
    ) -> Callable[[Mapping[str, npt.NDArray[np.generic]]], dict[str, npt.NDArray[np.generic]]]:
        """Make a function from NumPy inputs to NumPy outputs, without gradients."""

        def infer(inputs: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, npt.NDArray[np.generic]]:
            with torch.inference_mode():
                return self.get(function(self.xp, networks, self.put(inputs)))

        return infer

    def put(self, columns: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, Tensor]:
        """Copy columns to the device, dtypes kept."""
        # torch.tensor takes twice as long for a small column
        return {name: torch.from_numpy(np.array(column)).to(self.device) for name, column in columns.items()}

    def minibatches(
        self, columns: Mapping[str, Tensor], order: npt.NDArray[np.integer[Any]], bounds: Sequence[slice]
    ) -> Iterator[dict[str, Tensor]]:
        """Give the rows of columns in another order, cut into minibatches: views of one copy of all these rows."""
        parts = [order[part] for part in bounds]
        rows = torch.tensor(np.concatenate(parts), device=self.device)
        sizes = [len(part) for part in parts]
        cut = [torch.split(torch.index_select(column, 0, rows), sizes) for column in columns.values()]
        for minibatch in zip(*cut, strict=True):
            yield dict(zip(columns, minibatch, strict=True))

    def get(self, arrays: Mapping[str, Tensor]) -> dict[str, npt.NDArray[np.generic]]:
        """Copy native arrays to NumPy arrays."""
        return {name: array.detach().to("cpu", copy=True).numpy() for name, array in arrays.items()}

    def export(
        self,
        function: Function,
        networks: Mapping[str, nn.Module],
        inputs: Mapping[str, npt.NDArray[np.generic]],
        path: Path,
        to: str,
    ) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """Write a function with its networks as a file, a program of `torch.export` or ONNX, that runs on the CPU."""
        return export(function, networks, inputs, path, to)

    def devices(self, processes: int) -> tuple[str, ...]:
        """Return the device of each of so many processes that learn together: a GPU each, or the CPU."""
        return devices_of(self.device, processes)

    def meet(self) -> str:
        """Open a place where processes find each other, as long as this one is there, and return its address."""
        self._meeting_place = MeetingPlace()
        return self._meeting_place.address

    def join(self, rank: int, size: int, address: str) -> None:
        """Wait for the other processes; what `update` makes from then on sums over all of them."""
        self._group = Group(rank, size, address, self.device)

    def leave(self) -> None:
        """Break off from the other processes."""
        if self._group is not None:
            self._group.leave()

    def _count(self, graphs: int) -> None:
        self.num_compilations += graphs


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
