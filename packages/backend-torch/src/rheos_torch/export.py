"""Export: a function with its networks as a file that runs without Rheos, and what was read again from there."""

from __future__ import annotations

import copy
import importlib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rheos.errors import ConfigError
from rheos_torch.messages import first_lines
from rheos_torch.namespace import TorchNamespace

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rheos.arrays.namespace import ArrayNamespace
    from rheos.backend import Function

__all__ = ["FORMATS", "ExportedModule", "export"]

Arrays = Mapping[str, "npt.NDArray[np.generic]"]
Run = Callable[[Arrays], "dict[str, npt.NDArray[np.generic]]"]

_ONNX = ("onnx", "onnxscript", "onnxruntime")
"""What writes and runs ONNX files: the extra `onnx` of this package."""


class ExportedModule(nn.Module):
    """A function and a copy of its networks on the CPU, as one module: `{name: input} -> {name: output}`."""

    def __init__(self, function: Function, networks: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self._networks = {name: copy.deepcopy(module).cpu().requires_grad_(False) for name, module in networks.items()}
        self._registered = nn.ModuleList(self._networks.values())  # by number: a name may be one that torch forbids
        self._function = function
        self._xp: ArrayNamespace = TorchNamespace("cpu")

    def forward(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Call the function."""
        return self._function(self._xp, self._networks, inputs)


def export(function: Function, networks: Mapping[str, nn.Module], inputs: Arrays, path: Path, to: str) -> Run:
    """Write a function with its networks as a file, and read it again.

    Args:
        function: as a backend's `infer` takes it.
        networks: native ones.
        inputs: an example, `[B, ...]` each; the exported function takes any B.
        path: of the file.
        to: one of `FORMATS`.

    Returns:
        The function that the file holds, run by what reads such files. In ONNX an output with the name of an input is
        called `<name>_out`.

    Raises:
        ConfigError: if torch cannot write it so, or a package that the format needs is not installed; nothing is left
            at `path` then.
    """
    if to not in FORMATS:
        raise ConfigError(f"export: got {to!r}, expected one of {', '.join(FORMATS)}.")
    write, read = FORMATS[to]
    module = ExportedModule(function, networks)
    example = {name: _at_least_two(torch.tensor(array)) for name, array in inputs.items()}
    with _quietly(), tempfile.TemporaryDirectory(prefix=".export-", dir=path.parent) as folder:
        _require(to)
        written = Path(folder) / path.name
        try:
            with torch.no_grad():
                outputs = tuple(module(example))
                lead = {name: {0: torch.export.Dim.DYNAMIC} for name in example}
                program = torch.export.export(module, (example,), dynamic_shapes=(lead,))
            write(program, tuple(example), outputs, written)
            run = read(written, tuple(example), outputs)
        except Exception as error:  # whatever a tracer or converter does not know: its kinds are many
            raise ConfigError(f"export: torch cannot write this as {to!r}: {first_lines(error)}") from error
        os.replace(written, path)
    return run


def _write_torch(program: torch.export.ExportedProgram, _inputs: object, _outputs: object, path: Path) -> None:
    with path.open("wb") as file:  # not by its name: torch warns of those that do not end in .pt2
        torch.export.save(program, file)


def _read_torch(path: Path, _inputs: object, _outputs: object) -> Run:
    module = torch.export.load(io.BytesIO(path.read_bytes())).module()

    def run(inputs: Arrays) -> dict[str, npt.NDArray[np.generic]]:
        with torch.no_grad():
            outputs = module({name: torch.tensor(array) for name, array in inputs.items()})
        return {name: output.numpy() for name, output in outputs.items()}

    return run


def _write_onnx(
    program: torch.export.ExportedProgram, inputs: tuple[str, ...], outputs: tuple[str, ...], path: Path
) -> None:
    # In ONNX an output cannot have the name of an input.
    unlike = [f"{name}_out" if name in inputs else name for name in outputs]
    converted = torch.onnx.export(program, dynamo=True, input_names=inputs, output_names=unlike, verbose=False)
    if converted is None:
        raise TypeError("torch.onnx.export gave nothing")
    converted.save(path, external_data=False)


def _read_onnx(path: Path, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Run:
    onnxruntime: Any = importlib.import_module("onnxruntime")
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    read = {node.name for node in session.get_inputs()}

    def run(arrays: Arrays) -> dict[str, npt.NDArray[np.generic]]:
        values = session.run(None, {name: arrays[name] for name in inputs if name in read})
        return dict(zip(outputs, values, strict=True))

    return run


FORMATS: Mapping[str, tuple[Callable[..., None], Callable[..., Run]]] = {
    "torch": (_write_torch, _read_torch),
    "onnx": (_write_onnx, _read_onnx),
}
"""How each format is written, `(program, names of inputs, names of outputs, path)`, and read, `(path, ...)`."""


def _require(to: str) -> None:
    if to != "onnx":
        return
    for package in _ONNX:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ConfigError(
                f"export: 'onnx' needs {', '.join(_ONNX)}, and {package} cannot be imported ({first_lines(error)}):"
                " pip install 'rheos-backend-torch[onnx]'."
            ) from error


def _at_least_two(example: Tensor) -> Tensor:
    """Return an example with two rows or more: torch would take one row for a constant."""
    return example if len(example) > 1 else torch.cat([example, example])


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep torch's warnings about its own parts off the screen."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
