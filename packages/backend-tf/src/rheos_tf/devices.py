"""Where TensorFlow computes and with how many threads, as far as it can still be told."""

from __future__ import annotations

import re
import warnings

from rheos.errors import ConfigError, RheosWarning
from rheos_tf.framework import tf

__all__ = ["checked_device", "set_threads"]


def checked_device(device: str) -> str:
    """Return what TensorFlow calls a device, and tell it to take memory of GPUs only as it needs it.

    Args:
        device: "cpu", "gpu" or "cuda", the last two also with a number: "cuda:1".

    Raises:
        ConfigError: if TensorFlow has no such device.
    """
    match = re.fullmatch(r"(cpu|gpu|cuda)(?::(\d+))?", device)
    if match is None:
        raise ConfigError(f"device: TensorFlow cannot use {device!r}: try device=cuda or device=cpu.")
    kind, number = "CPU" if match[1] == "cpu" else "GPU", int(match[2] or 0)
    _grow_memory()
    there = len(tf.config.list_logical_devices(kind))
    if number >= there:
        sees = f"it sees {there or 'no'} {kind}{'s' if there > 1 else ''}"
        raise ConfigError(f"device: TensorFlow cannot use {device!r} ({sees}): try device=cpu.")
    return f"/{kind}:{number}"


def set_threads(threads: int) -> None:
    """Let TensorFlow compute with so many threads, or warn that it has started with another number."""
    for kind in ("intra", "inter"):
        try:
            getattr(tf.config.threading, f"set_{kind}_op_parallelism_threads")(threads)
        except RuntimeError:
            has = getattr(tf.config.threading, f"get_{kind}_op_parallelism_threads")()
            warnings.warn(
                f"backend.threads: got {threads}, but TensorFlow has started with {has or 'as many as there are cores'}"
                " in this process and stays so: make the backend before anything else computes with TensorFlow.",
                RheosWarning,
                stacklevel=3,
            )
            return


def _grow_memory() -> None:
    for gpu in tf.config.list_physical_devices("GPU"):
        if not tf.config.experimental.get_memory_growth(gpu):
            try:
                tf.config.experimental.set_memory_growth(gpu, True)
            except RuntimeError:  # TensorFlow has started and taken all of it
                return
