"""TorchAdam: torch's own fused Adam over the flat weights of some networks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.optim.adam import adam

from rheos.backend import Adam
from rheos.networks.weights import check_arrays
from rheos_torch.networks import TorchNetworks, flatten

__all__ = ["TorchAdam"]


class TorchAdam:
    """Adam over every trainable weight of the networks, which lie in one flat tensor.

    The functional form of torch's optimizer is called, since that of `torch.optim.Adam` spends more time on
    bookkeeping than on the arithmetic of small networks (docs/decisions/torch-update.md).
    """

    def __init__(self, spec: Adam, networks: TorchNetworks) -> None:
        self.networks = networks
        self._spec = spec
        self._first_moment = torch.zeros_like(networks.flat)
        self._second_moment = torch.zeros_like(networks.flat)
        self._steps = torch.zeros((), device=networks.flat.device)

    @torch.no_grad()
    def step(self, learning_rate: float, skip: Tensor) -> None:
        """Take a step along `networks.gradient`; where the scalar `skip` is 1, change nothing.

        The decision stays on the device, so nothing waits for it.
        """
        adam(
            [self.networks.flat],
            [self.networks.gradient],
            [self._first_moment],
            [self._second_moment],
            [],
            [self._steps],
            foreach=False,
            fused=True,
            found_inf=skip,
            lr=learning_rate,
            beta1=self._spec.beta_1,
            beta2=self._spec.beta_2,
            eps=self._spec.epsilon,
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
        )

    def state_dict(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return `steps`, and `first_moment/<weight>` and `second_moment/<weight>` for each weight."""
        moments = {"first_moment": self._first_moment, "second_moment": self._second_moment}
        return {
            "steps": np.array(int(self._steps), np.int64),
            **{
                f"{moment}/{weight}": array
                for moment, flat in moments.items()
                for weight, array in self.networks.by_name(flat).items()
            },
        }

    def load_state_dict(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take a state that `state_dict` gave, here or on another backend.

        Raises:
            ShapeError: if an array is missing, unknown or misshapen; then nothing has changed.
        """
        first = {f"first_moment/{weight}": shape for weight, shape in self.networks.shapes.items()}
        second = {f"second_moment/{weight}": shape for weight, shape in self.networks.shapes.items()}
        check_arrays(state, {"steps": (), **first, **second})
        self._first_moment.copy_(flatten(state, first))
        self._second_moment.copy_(flatten(state, second))
        self._steps.fill_(int(state["steps"]))
