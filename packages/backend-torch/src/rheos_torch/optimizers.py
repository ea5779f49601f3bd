"""Optimizers over the flat weights of some networks: torch's own, called as functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd

from rheos.backend import SGD, Adam, AdamW, OptimizerSpec, RMSProp
from rheos.networks.weights import check_arrays
from rheos_torch.networks import TorchNetworks, flatten

__all__ = ["TorchAdam", "TorchOptimizer", "TorchRMSProp", "TorchSGD", "make_optimizer"]


class TorchOptimizer(ABC):
    """What all optimizers have: the networks, and a state of tensors that are laid out as their flat weights.

    Torch's kernels and functional forms are called, since the optimizers of `torch.optim` spend more time on
    bookkeeping than on the arithmetic of small networks (docs/decisions/torch-update.md).

    Args:
        networks: whose trainable weights are moved.
        names: of the tensors of the state; they start at 0.
    """

    def __init__(self, networks: TorchNetworks, names: tuple[str, ...]) -> None:
        self.networks = networks
        self._state = {name: torch.zeros_like(networks.flat) for name in names}
        self._steps = torch.zeros((), device=networks.flat.device)

    @abstractmethod
    def step(self, learning_rate: float, is_spoilt: Tensor) -> None:
        """Take a step along `networks.gradient`; where the bool scalar `is_spoilt` is True, change nothing.

        The decision stays on the device, so nothing waits for it.
        """

    def state_dict(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return `steps`, and `<name>/<weight>` for each tensor of the state and each weight."""
        return {
            "steps": np.array(int(self._steps), np.int64),
            **{
                f"{name}/{weight}": array
                for name, flat in self._state.items()
                for weight, array in self.networks.by_name(flat).items()
            },
        }

    def load_state_dict(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take a state that `state_dict` gave, here or on another backend.

        Raises:
            ShapeError: if an array is missing, unknown or misshapen; then nothing has changed.
        """
        shapes = {
            name: {f"{name}/{weight}": shape for weight, shape in self.networks.shapes.items()} for name in self._state
        }
        check_arrays(state, {"steps": (), **{key: shape for part in shapes.values() for key, shape in part.items()}})
        for name, flat in self._state.items():
            flat.copy_(flatten(state, shapes[name]))
        self._steps.fill_(int(state["steps"]))


class TorchAdam(TorchOptimizer):
    """Adam or AdamW, with torch's fused kernel; the state is `first_moment` and `second_moment`."""

    def __init__(self, spec: Adam | AdamW, networks: TorchNetworks) -> None:
        super().__init__(networks, ("first_moment", "second_moment"))
        self._spec = spec
        operators: Any = torch.ops.aten
        kernel = operators._fused_adamw_ if isinstance(spec, AdamW) else operators._fused_adam_
        self._kernel = kernel.default
        self._weight_decay = spec.weight_decay if isinstance(spec, AdamW) else 0.0

    @torch.no_grad()
    def step(self, learning_rate: float, is_spoilt: Tensor) -> None:
        """Take a step along the gradient, or none."""
        found_inf = is_spoilt.to(torch.float32)
        self._steps.add_(1.0)
        self._kernel(
            [self.networks.flat],
            [self.networks.gradient],
            [self._state["first_moment"]],
            [self._state["second_moment"]],
            [],
            [self._steps],
            lr=learning_rate,
            beta1=self._spec.beta_1,
            beta2=self._spec.beta_2,
            weight_decay=self._weight_decay,
            eps=self._spec.epsilon,
            amsgrad=False,
            maximize=False,
            found_inf=found_inf,
        )
        self._steps.sub_(found_inf)


class TorchRMSProp(TorchOptimizer):
    """RMSProp; the state is `square_average`, `gradient_average` where it is centered, and `momentum` where it has one.

    Torch has no kernel of it that can be told to change nothing, so what has changed is put back then.
    """

    def __init__(self, spec: RMSProp, networks: TorchNetworks) -> None:
        is_used = {"square_average": True, "gradient_average": spec.is_centered, "momentum": spec.momentum > 0}
        super().__init__(networks, tuple(name for name, used in is_used.items() if used))
        self._spec = spec

    @torch.no_grad()
    def step(self, learning_rate: float, is_spoilt: Tensor) -> None:
        """Take a step along the gradient, or none."""
        changing = [self.networks.flat, self._steps, *self._state.values()]
        before = [tensor.clone() for tensor in changing]
        rmsprop(
            [self.networks.flat],
            [self.networks.gradient],
            [self._state["square_average"]],
            [self._state["gradient_average"]] if self._spec.is_centered else [],
            [self._state["momentum"]] if self._spec.momentum else [],
            [self._steps],
            foreach=False,
            lr=learning_rate,
            alpha=self._spec.decay,
            eps=self._spec.epsilon,
            weight_decay=0.0,
            momentum=self._spec.momentum,
            centered=self._spec.is_centered,
        )
        for tensor, old in zip(changing, before, strict=True):
            torch.where(is_spoilt, old, tensor, out=tensor)


class TorchSGD(TorchOptimizer):
    """Gradient descent, with torch's fused kernel; the state is `momentum` where it has one."""

    def __init__(self, spec: SGD, networks: TorchNetworks) -> None:
        super().__init__(networks, ("momentum",) if spec.momentum else ())
        self._spec = spec

    @torch.no_grad()
    def step(self, learning_rate: float, is_spoilt: Tensor) -> None:
        """Take a step along the gradient, or none."""
        skip = is_spoilt.to(torch.float32)
        sgd(
            [self.networks.flat],
            [self.networks.gradient],
            [self._state.get("momentum")],  # at first 0, so that the first v is g, as torch has it
            foreach=False,
            fused=True,
            found_inf=skip,
            weight_decay=0.0,
            momentum=self._spec.momentum,
            lr=learning_rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        self._steps.add_(1.0 - skip)


def make_optimizer(spec: OptimizerSpec, networks: TorchNetworks) -> TorchOptimizer:
    """Make the optimizer that a spec describes, over every trainable weight of the networks."""
    match spec:
        case Adam() | AdamW():
            return TorchAdam(spec, networks)
        case RMSProp():
            return TorchRMSProp(spec, networks)
        case SGD():
            return TorchSGD(spec, networks)
