"""Export: a function with its networks as a SavedModel, which runs without Rheos, and what was read from there."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheos.errors import ConfigError
from rheos_tf.framework import Tensor, tf
from rheos_tf.namespace import TFNamespace
from rheos_tf.networks import TFNetwork, bound

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rheos.arrays.namespace import ArrayNamespace
    from rheos.backend import Function, Networks

__all__ = ["FORMATS", "export"]

_Arrays = Mapping[str, "npt.NDArray[np.generic]"]
_Run = Callable[[_Arrays], "dict[str, npt.NDArray[np.generic]]"]

FORMATS = ("savedmodel",)
"""What can be written."""


def export(function: Function, networks: Networks, inputs: _Arrays, path: Path, to: str) -> _Run:
    """Write a function with its networks as a folder, and read it again.

    Args:
        function: as a backend's `infer` takes it.
        networks: native ones.
        inputs: an example, `[B, ...]` each; the exported function takes any B.
        path: of the folder.
        to: one of `FORMATS`.

    Returns:
        The signature `serving_default` of the SavedModel that the folder holds.

    Raises:
        ConfigError: if TensorFlow cannot write it so; nothing is left at `path` then.
    """
    if to not in FORMATS:
        raise ConfigError(f"export: got {to!r}, expected one of {', '.join(FORMATS)}.")
    with _quietly(), tempfile.TemporaryDirectory(prefix=".export-", dir=path.parent) as folder:
        written = Path(folder) / path.name
        try:
            module, signature = _module(function, networks, inputs)
            tf.saved_model.save(module, str(written), signature)
            run = _read(written)
        except Exception as error:  # whatever a graph or its writer does not know: its kinds are many
            reason = str(error).strip().partition("\n")[0][:200]
            raise ConfigError(f"export: TensorFlow cannot write this as {to!r}: {reason}") from error
        os.replace(written, path)
    return run


def _module(function: Function, networks: Networks, inputs: _Arrays) -> tuple[Any, Any]:
    """Return a module that owns the weights, and the function as a graph."""
    xp: ArrayNamespace = TFNamespace()

    def serve(columns: dict[str, Tensor]) -> dict[str, Tensor]:
        return dict(function(xp, bound(networks), columns))

    signature = {
        name: tf.TensorSpec((None, *array.shape[1:]), tf.as_dtype(array.dtype), name) for name, array in inputs.items()
    }
    module = tf.Module()
    owners = {id(network.networks): network.networks for network in networks.values() if isinstance(network, TFNetwork)}
    module.weights = [variable for owner in owners.values() for variable in owner.variables]
    return module, tf.function(serve, autograph=False).get_concrete_function(signature)


def _read(path: Path) -> _Run:
    loaded = tf.saved_model.load(str(path))
    signature = loaded.signatures["serving_default"]

    def run(inputs: _Arrays) -> dict[str, npt.NDArray[np.generic]]:
        outputs = signature(**{name: tf.constant(array) for name, array in inputs.items()})
        return {name: output.numpy() for name, output in outputs.items()}

    return run


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep what TensorFlow tells of its own parts off the screen."""
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
