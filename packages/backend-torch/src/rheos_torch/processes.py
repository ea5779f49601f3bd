"""Processes that learn together: where they meet, on which device each computes, and their sums."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rheos.errors import ConfigError
from rheos_torch.messages import first_lines

__all__ = ["Group", "MeetingPlace", "devices_of"]

_torch: Any = torch.distributed  # process groups as they are have no types
_HERE = "127.0.0.1"
"""All processes are on this machine, and nobody else is let in."""


def devices_of(device: str, processes: int) -> tuple[str, ...]:
    """Return the device of each of the processes: a GPU of its own, or the CPU of all.

    Args:
        device: of the first process; with GPUs, those that follow are the others'.
        processes: how many there are.

    Raises:
        ConfigError: if there are too few GPUs, or this torch cannot sum between processes or devices of this kind.
    """
    kind = torch.device(device).type
    if not _torch.is_available():
        raise ConfigError(f"backend.processes: got {processes}, expected 1: this torch has no torch.distributed.")
    if kind == "cpu":
        return (device,) * processes
    if kind != "cuda":
        raise ConfigError(
            f"backend.processes: got {processes}, expected 1 on {device!r}: use device=cpu or device=cuda."
        )
    first = torch.device(device).index or 0
    found = torch.cuda.device_count()
    if first + processes > found:
        raise ConfigError(
            f"backend.processes: got {processes}, expected at most {max(1, found - first)}: each has a GPU of its own,"
            f" from cuda:{first} on."
        )
    return tuple(f"cuda:{first + index}" for index in range(processes))


class MeetingPlace:
    """Where processes find each other; it is there as long as the process that opened it."""

    def __init__(self) -> None:
        listening = socket.create_server((_HERE, 0))
        port = listening.getsockname()[1]
        self.address = f"{_HERE}:{port}"
        self._store = _torch.TCPStore(
            _HERE, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
        )


class Group:
    """This process and others, which sum tensors: with NCCL on GPUs, else with gloo.

    It is made of torch's process groups as they are, not of its global one, so that a program may have several.
    All processes call the same methods in the same order.

    Args:
        rank: of this process, from 0.
        size: how many there are.
        address: of the meeting place.
        device: where the tensors lie.

    Raises:
        ConnectionError: here and by every sum, if another process has gone.
    """

    def __init__(self, rank: int, size: int, address: str, device: str) -> None:
        self.size = size
        host, _, port = address.rpartition(":")
        with _telling_who_is_gone():
            store = _torch.TCPStore(host, int(port), is_master=False, wait_for_workers=False)
            is_nccl = torch.device(device).type == "cuda" and _torch.is_nccl_available()
            self._group = (_nccl if is_nccl else _gloo)(store, rank, size)

    def sum(self, gradient: Tensor, metrics: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Make a gradient the sum of those of all processes, in place, and return the sums of scalar metrics."""
        scalars = torch.stack(list(metrics.values()))
        self.add_up(gradient, scalars)
        return dict(zip(metrics, scalars.unbind(), strict=True))

    def add_up(self, *tensors: Tensor) -> None:
        """Make each tensor, all of one dtype, the sum of those of all processes, in place; all go in one message."""
        with _telling_who_is_gone():
            self._group.allreduce_coalesced(list(tensors)).wait()

    def leave(self) -> None:
        """Break off, also from another thread: what waits for the others on a GPU then fails."""
        self._group.abort()


def _gloo(store: Any, rank: int, size: int) -> Any:
    gloo = _torch.ProcessGroupGloo
    options = gloo._Options()
    options._devices = [gloo.create_device(hostname=_HERE)]
    return gloo(store, rank, size, options)


def _nccl(store: Any, rank: int, size: int) -> Any:
    nccl = _torch.ProcessGroupNCCL
    return nccl(store, rank, size, nccl.Options())


@contextmanager
def _telling_who_is_gone() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise ConnectionError(f"torch lost the processes that learn together: {first_lines(error)}") from error
