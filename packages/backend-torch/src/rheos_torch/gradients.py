"""The gradient of a loss in the flat weights: operation by operation, or compiled."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rheos.errors import ConfigError
from rheos_torch.networks import Place, TorchNetworks

if TYPE_CHECKING:
    from rheos.arrays.namespace import ArrayNamespace
    from rheos.backend import Loss

__all__ = ["Gradients", "check_compiler", "compiled_gradients", "eager_gradients"]

Gradients = Callable[[Mapping[str, Tensor], Mapping[str, float]], dict[str, Tensor]]
"""`(batch, coefficients) -> metrics`: writes the clipped gradient into `gradient` of the networks that are trained."""


def eager_gradients(
    loss: Loss,
    xp: ArrayNamespace,
    networks: Mapping[str, nn.Module],
    trained: TorchNetworks,
    max_grad_norm: float | None,
) -> Gradients:
    """Run the loss and its gradient operation by operation."""

    def gradients(batch: Mapping[str, Tensor], coefficients: Mapping[str, float]) -> dict[str, Tensor]:
        value, metrics = loss(xp, networks, batch, coefficients)
        trained.gradient.zero_()
        torch.autograd.backward(value, inputs=trained.parameters)
        grad_norm = _clip(trained.gradient, max_grad_norm)
        detached = {name: metric.detach() for name, metric in metrics.items()}
        return {**detached, "loss": value.detach(), "grad_norm": grad_norm}

    return gradients


def compiled_gradients(
    loss: Loss,
    xp: ArrayNamespace,
    networks: Mapping[str, nn.Module],
    trained: TorchNetworks,
    max_grad_norm: float | None,
) -> Gradients:
    """Compile loss, gradient and clipping into one graph, at the first call.

    The number of rows is a symbol of the graph and coefficients are scalars on the device, so that neither a ragged
    minibatch nor a schedule compiles again. Batches of very different size do, one row or thousands, once each.

    Raises:
        ConfigError: by the first call, if torch cannot compile the loss.
    """
    names = {id(module): name for name, module in trained.items()}
    places = {name: trained.places(names[id(module)]) for name, module in networks.items() if id(module) in names}
    device = trained.flat.device

    def from_flat(flat: Tensor, *arguments: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        functions = {
            name: _with_weights(module, flat, places[name]) if name in places else module
            for name, module in networks.items()
        }
        return loss(xp, functions, *arguments)

    def gradients(
        flat: Tensor, batch: Mapping[str, Tensor], coefficients: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        gradient, (value, metrics) = torch.func.grad_and_value(from_flat, has_aux=True)(flat, batch, coefficients)
        grad_norm = _clip(gradient, max_grad_norm)
        return gradient, {**metrics, "loss": value, "grad_norm": grad_norm}

    from torch._dynamo.exc import TorchDynamoException  # half a second to import, and only for this

    # One thread compiles: a pool of processes would outlive what they are for.
    compiled = torch.compile(gradients, fullgraph=True, options={"compile_threads": 1})

    def call(batch: Mapping[str, Tensor], coefficients: Mapping[str, float]) -> dict[str, Tensor]:
        scalars = {name: torch.full((), value, device=device) for name, value in coefficients.items()}
        for column in batch.values():
            torch._dynamo.maybe_mark_dynamic(column, 0)
        try:
            with torch.no_grad():
                gradient, metrics = compiled(trained.flat, dict(batch), scalars)
        # An AssertionError is how torch 2.13 fails on a NumPy array among a loss's constants, where it takes a tuple.
        except (TorchDynamoException, AssertionError) as error:
            reason = " ".join(line.strip() for line in str(error).strip().splitlines()[:2])[:200]
            raise ConfigError(
                f"backend.mode: torch cannot compile the loss ({reason}): use backend.mode=eager."
            ) from error
        trained.gradient.copy_(gradient)
        return metrics

    return call


def check_compiler() -> None:
    """Require the C++ compiler that `torch.compile` calls for code on the CPU.

    Raises:
        ConfigError: if there is none.
    """
    usual = {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    compiler = os.environ.get("CXX", usual)
    if shutil.which(compiler) is None:
        raise ConfigError(
            f"backend.mode: 'graph' compiles C++, but there is no `{compiler}`: install it, name another one in the"
            " environment variable CXX, or use backend.mode=eager."
        )


def _with_weights(module: nn.Module, flat: Tensor, places: Mapping[str, Place]) -> Callable[[Tensor], Tensor]:
    weights = {name: flat[place].view(shape) for name, (place, shape) in places.items()}
    return lambda x: torch.func.functional_call(module, weights, (x,))


def _clip(gradient: Tensor, max_norm: float | None) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(gradient)
    if max_norm is not None:
        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1.0))
    return norm
