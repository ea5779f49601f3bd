"""The gradient of a loss in the flat weights: operation by operation, or compiled."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rheos.errors import ConfigError
from rheos_torch.messages import first_lines
from rheos_torch.moving import MovingBuffers
from rheos_torch.networks import Place, TorchNetworks

if TYPE_CHECKING:
    from rheos.arrays.namespace import ArrayNamespace
    from rheos.backend import Loss
    from rheos_torch.processes import Group

__all__ = ["Gradients", "check_compiler", "compiled_gradients", "eager_gradients"]

Gradients = Callable[[Mapping[str, Tensor], Mapping[str, float]], dict[str, Tensor]]
"""`(batch, coefficients) -> metrics`: writes the clipped gradient into `gradient` of the networks that are trained.

With a group, gradient and metrics are summed over its processes before the gradient is clipped.
"""


def eager_gradients(
    loss: Loss,
    xp: ArrayNamespace,
    networks: Mapping[str, nn.Module],
    trained: TorchNetworks,
    max_grad_norm: float | None,
    group: Group | None = None,
) -> Gradients:
    """Run the loss and its gradient operation by operation."""

    def gradients(batch: Mapping[str, Tensor], coefficients: Mapping[str, float]) -> dict[str, Tensor]:
        with trained.training():
            value, metrics = loss(xp, networks, batch, coefficients)
        trained.gradient.zero_()
        torch.autograd.backward(value, inputs=trained.parameters)
        metrics = {**{name: metric.detach() for name, metric in metrics.items()}, "loss": value.detach()}
        if group is not None:
            metrics = group.sum(trained.gradient, metrics)
        return {**metrics, "grad_norm": _clip(trained.gradient, max_grad_norm)}

    return gradients


def compiled_gradients(
    loss: Loss,
    xp: ArrayNamespace,
    networks: Mapping[str, nn.Module],
    trained: TorchNetworks,
    max_grad_norm: float | None,
    group: Group | None = None,
    *,
    compiler: str = "inductor",
    on_compiled: Callable[[int], None] = lambda _graphs: None,
) -> Gradients:
    """Compile loss, gradient and clipping into one graph, at the first call.

    The number of rows is a symbol of the graph and coefficients are scalars on the device, so that neither a ragged
    minibatch nor a schedule compiles again. Batches of very different size do, one row or thousands, once each.

    Args:
        loss: what is differentiated.
        xp: the array namespace.
        networks: those that the loss gets, by name.
        trained: those whose weights it is differentiated in.
        max_grad_norm: that gradients are scaled down to.
        group: processes to sum over; then the clipping comes after the graph.
        compiler: to which torch hands the graph.
        on_compiled: told how many graphs a call has compiled, after each that did.

    Raises:
        ConfigError: by the first call, if torch cannot compile the loss.
    """
    names = {id(module): name for name, module in trained.items()}
    places = {name: trained.places(names[id(module)]) for name, module in networks.items() if id(module) in names}
    device = trained.flat.device
    moving = MovingBuffers({name: networks[name] for name in places})

    def from_flat(
        flat: Tensor, buffers: dict[str, dict[str, Tensor]], *arguments: Mapping[str, Tensor]
    ) -> tuple[Tensor, tuple[dict[str, Tensor], dict[str, dict[str, Tensor]]]]:
        # Copies, since a gradient must not be taken through tensors that are written to.
        moved = {name: {key: buffer.clone() for key, buffer in part.items()} for name, part in buffers.items()}
        functions = {
            name: _with_weights(module, flat, places[name], moved.get(name, {})) if name in places else module
            for name, module in networks.items()
        }
        value, metrics = loss(xp, functions, *arguments)
        return value, (metrics, moved)

    def gradients(
        flat: Tensor,
        buffers: dict[str, dict[str, Tensor]],
        batch: Mapping[str, Tensor],
        coefficients: Mapping[str, Tensor],
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, dict[str, Tensor]]]:
        differentiated = torch.func.grad_and_value(from_flat, has_aux=True)
        gradient, (value, (metrics, moved)) = differentiated(flat, buffers, batch, coefficients)
        metrics = {**metrics, "loss": value}
        if group is None:
            metrics["grad_norm"] = _clip(gradient, max_grad_norm)
        return gradient, metrics, moved

    from torch._dynamo.exc import TorchDynamoException  # half a second to import, and only for this
    from torch._dynamo.utils import counters

    # One thread compiles: a pool of processes would outlive what they are for.
    options: dict[str, Any] | None = {"compile_threads": 1} if compiler == "inductor" else None
    # Torch keeps eight graphs for each code object: without a copy, all losses of a process would share them.
    gradients.__code__ = gradients.__code__.replace()
    compiled = torch.compile(gradients, fullgraph=True, backend=compiler, options=options)

    def call(batch: Mapping[str, Tensor], coefficients: Mapping[str, float]) -> dict[str, Tensor]:
        scalars = {name: torch.full((), value, device=device) for name, value in coefficients.items()}
        for column in batch.values():
            torch._dynamo.maybe_mark_dynamic(column, 0)
        graphs = counters["stats"]["unique_graphs"]
        try:
            with torch.no_grad(), trained.training():
                gradient, metrics, moved = compiled(trained.flat, moving.tensors(), dict(batch), scalars)
        # An AssertionError is how torch 2.13 fails on a NumPy array among a loss's constants, where it takes a tuple.
        except (TorchDynamoException, AssertionError) as error:
            raise ConfigError(
                f"backend.mode: torch cannot compile the loss ({first_lines(error)}): use backend.mode=eager."
            ) from error
        if counters["stats"]["unique_graphs"] > graphs:
            on_compiled(counters["stats"]["unique_graphs"] - graphs)
        trained.gradient.copy_(gradient)
        moving.write(moved)
        if group is not None:
            metrics = group.sum(trained.gradient, metrics)
            metrics["grad_norm"] = _clip(trained.gradient, max_grad_norm)
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


def _with_weights(
    module: nn.Module, flat: Tensor, places: Mapping[str, Place], buffers: dict[str, Tensor]
) -> Callable[..., Any]:
    weights = {name: flat[place].view(shape) for name, (place, shape) in places.items()}

    def call(*arguments: Any) -> Any:
        tensors = {**weights, **buffers}
        outputs = torch.func.functional_call(module, tensors, arguments)
        buffers.update({name: tensors[name] for name in buffers})  # where the module has put others into their places
        return outputs

    return call


def _clip(gradient: Tensor, max_norm: float | None) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(gradient)
    if max_norm is not None:
        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1.0))
    return norm
