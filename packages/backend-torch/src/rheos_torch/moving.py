"""MovingBuffers: what a forward pass of a user's own module changes beside the gradients of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rheos_torch.modules import NormalizerModule

if TYPE_CHECKING:
    from rheos_torch.processes import Group

__all__ = ["Buffers", "MovingBuffers"]

Buffers = dict[str, dict[str, Tensor]]
"""Buffers by network and by their native names."""


class MovingBuffers:
    """The buffers of networks that a forward pass may change, such as the running mean of a BatchNorm.

    Those of a Normalizer are none of them: it is the learner that sets them.
    """

    def __init__(self, networks: Mapping[str, nn.Module]) -> None:
        found = {name: dict(_places(module)) for name, module in networks.items()}
        self._places = {name: places for name, places in found.items() if places}

    def tensors(self) -> Buffers:
        """Return them as they are now; a module may put another tensor into the place of one."""
        return {
            network: {name: getattr(owner, attribute) for name, (owner, attribute) in places.items()}
            for network, places in self._places.items()
        }

    def copies(self) -> Buffers:
        """Return copies of them."""
        return {network: {name: t.clone() for name, t in part.items()} for network, part in self.tensors().items()}

    @torch.no_grad()
    def write(self, moved: Buffers) -> None:
        """Overwrite them."""
        for network, part in self.tensors().items():
            for name, tensor in part.items():
                tensor.copy_(moved[network][name])

    @torch.no_grad()
    def settle(self, before: Buffers, is_spoilt: Tensor, group: Group | None) -> None:
        """Put back what they were where a step was spoilt, and make them the mean over the processes of a group."""
        for network, part in self.tensors().items():
            for name, tensor in part.items():
                if group is not None and tensor.is_floating_point():
                    group.add_up(tensor)
                    tensor.div_(group.size)
                tensor.copy_(torch.where(is_spoilt, before[network][name], tensor))


def _places(module: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    return {
        f"{path}.{name}" if path else name: (owner, name)
        for path, owner in module.named_modules()
        if not isinstance(owner, NormalizerModule)
        for name, _ in owner.named_buffers(recurse=False)
    }
