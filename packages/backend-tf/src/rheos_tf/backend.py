"""TFBackend: the verbs of `rheos.backend.Backend` on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from rheos.errors import ConfigError
from rheos_tf.devices import checked_device, set_threads
from rheos_tf.export import export
from rheos_tf.framework import Tensor, tf
from rheos_tf.gradients import gradient_step
from rheos_tf.graphs import GraphFunction
from rheos_tf.namespace import TFNamespace, raw
from rheos_tf.networks import TFNetworks, bound
from rheos_tf.optimizers import TFOptimizer, make_optimizer

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from rheos.arrays.namespace import ArrayNamespace
    from rheos.backend import Backend, Function, Loss, Networks, OptimizerSpec
    from rheos.networks.specs import NetworkSpec

__all__ = ["TFBackend", "make_backend"]

_Arrays = Mapping[str, "npt.NDArray[np.generic]"]

_OTHER = ""
"""The name of what a graph gets beside the columns of a batch: none of them is called so."""


def make_backend(*, device: str, mode: str, threads: int) -> Backend:
    """Make the backend that the plugin `tf` offers."""
    return TFBackend(device, mode, threads=threads)


class TFBackend:
    """TensorFlow, as graphs or define-by-run.

    Args:
        device: where weights and batches lie: "cpu", "gpu" or "cuda", "cuda:1".
        mode: "graph", which traces each loss with its gradient, clipping and step, and each function of `infer`, when
            it is first called; "eager", which runs them operation by operation; or "auto", which is graph here.
        threads: how many threads TensorFlow may use, in the whole process; 1 makes a run repeat bit for bit, and is the
            fastest for small networks. TensorFlow can only be told before it computes anything: later, another number
            is a `RheosWarning` and changes nothing.

    Raises:
        ConfigError: if TensorFlow has no such device, or the mode is none of these.
    """

    name = "tf"

    def __init__(self, device: str = "cpu", mode: str = "auto", *, threads: int = 1) -> None:
        if mode not in ("auto", "eager", "graph"):
            raise ConfigError(f"backend.mode: got {mode!r}, expected one of auto, eager, graph.")
        set_threads(threads)
        self.device = device
        self._place = checked_device(device)
        self._has_choice = len(tf.config.list_logical_devices()) > 1
        self.xp: ArrayNamespace = TFNamespace(self._place if self._has_choice else None)
        self._is_eager = mode == "eager"
        self.num_compilations = 0
        self._gather = GraphFunction(_gather, self._placed)

    def build(
        self, specs: Mapping[str, NetworkSpec], weights: Mapping[str, npt.NDArray[np.float32]], *, seed: int = 0
    ) -> TFNetworks:
        """Build networks that start from `weights`."""
        with self._placed():
            return TFNetworks(specs, weights, seed=seed)

    def weights(self, networks: TFNetworks) -> dict[str, npt.NDArray[np.float32]]:
        """Return a copy of all weights by canonical name."""
        return networks.weights()

    def load(
        self, networks: TFNetworks, weights: Mapping[str, npt.NDArray[np.float32]], *, strict: bool = True
    ) -> None:
        """Overwrite all weights, or without `strict` those that are given; a wrong one is a `ShapeError`."""
        networks.load(weights, strict=strict)

    def optimizer(self, spec: OptimizerSpec, networks: TFNetworks) -> TFOptimizer:
        """Make an optimizer over every trainable weight of the networks."""
        with self._placed():
            return make_optimizer(spec, networks)

    def update(
        self, loss: Loss, networks: Networks, optimizer: TFOptimizer, *, max_grad_norm: float | None
    ) -> Callable[[Mapping[str, Tensor], Mapping[str, float]], dict[str, Tensor]]:
        """Join a loss with gradients, clipping by global norm and a step: `(batch, coefficients) -> metrics`.

        What is trained is what the optimizer was made for; `networks` may hold others beside it.
        A gradient that is not finite changes neither weights nor optimizer, and shows in the metric
        `grad_norm` (before clipping). Neither a ragged batch nor other coefficients trace a graph again.
        """
        step = gradient_step(loss, self.xp, networks, optimizer, max_grad_norm)
        if self._is_eager:

            def eagerly(batch: Mapping[str, Tensor], coefficients: Mapping[str, float]) -> dict[str, Tensor]:
                with self._placed():
                    return step(batch, {name: float(value) for name, value in coefficients.items()})

            return eagerly

        def traced(arrays: dict[str, Tensor], coefficients: tuple[str, ...]) -> dict[str, Tensor]:
            numbers = tf.unstack(arrays.pop(_OTHER), len(coefficients))
            return step(arrays, dict(zip(coefficients, numbers, strict=True)))

        graph = GraphFunction(traced, self._placed, on_trace=self._count_compilation, subject="loss")

        def update(batch: Mapping[str, Tensor], coefficients: Mapping[str, float]) -> dict[str, Tensor]:
            numbers = np.array([float(value) for value in coefficients.values()], np.float32)
            return graph({**batch, _OTHER: numbers}, tuple(coefficients))

        return update

    def polyak(self, target: TFNetworks, source: TFNetworks, tau: float) -> None:
        """Move all weights of a network towards those of another one: (1 - tau) target + tau source."""
        for moved, towards in zip(target.variables, source.variables, strict=True):
            moved.assign((1.0 - tau) * moved + tau * towards)

    def infer(self, function: Function, networks: Networks) -> Callable[[_Arrays], dict[str, Any]]:
        """Make a function from NumPy inputs to NumPy outputs, without gradients."""
        if self._is_eager:

            def eagerly(inputs: _Arrays) -> dict[str, Any]:
                with self._placed():
                    return self.get(function(self.xp, bound(networks), self.put(inputs)))

            return eagerly

        def traced(arrays: dict[str, Tensor], _: object) -> dict[str, Tensor]:
            return function(self.xp, bound(networks), arrays)

        graph = GraphFunction(traced, self._placed, on_trace=self._count_compilation)
        return lambda inputs: self.get(graph(inputs))

    def put(self, columns: _Arrays) -> dict[str, Tensor]:
        """Copy columns to the device, dtypes kept."""
        with self._placed():
            return {name: tf.constant(column) for name, column in columns.items()}

    def minibatches(
        self, columns: Mapping[str, Tensor], order: npt.NDArray[np.integer[Any]], bounds: Sequence[slice]
    ) -> Iterator[dict[str, Tensor]]:
        """Give the rows of native columns in another order, cut into minibatches, each gathered when asked for."""
        gather = self._gather.graph_for({**columns, _OTHER: order})
        for part in bounds:
            yield gather((*columns.values(), order[part]))

    def get(self, arrays: Mapping[str, Tensor]) -> dict[str, npt.NDArray[np.generic]]:
        """Copy native arrays to NumPy arrays."""
        return {name: np.asarray(array.numpy()) for name, array in arrays.items()}

    def export(
        self, function: Function, networks: Networks, inputs: _Arrays, path: Path, to: str
    ) -> Callable[[_Arrays], dict[str, Any]]:
        """Write a function with its networks as a SavedModel that runs without Rheos.

        Raises:
            ConfigError: if TensorFlow cannot write it so; nothing is left at `path` then.
        """
        return export(function, networks, inputs, path, to)

    def _placed(self) -> AbstractContextManager[Any]:
        """Place what is made meanwhile on the device; where there is one only, everything is there."""
        place: AbstractContextManager[Any] = tf.device(self._place) if self._has_choice else nullcontext()
        return place

    def _count_compilation(self) -> None:
        self.num_compilations += 1


def _gather(arrays: dict[str, Tensor], _: object) -> dict[str, Tensor]:
    rows = arrays.pop(_OTHER)
    return {name: raw.GatherV2(params=column, indices=rows, axis=0) for name, column in arrays.items()}
