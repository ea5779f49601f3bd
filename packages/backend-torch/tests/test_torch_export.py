"""A function with its networks as a file: it gives what the backend gives, for any number of rows, or is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rheos.backend import SGD
from rheos.errors import ConfigError
from rheos.networks.initial import initial_weights
from rheos.networks.specs import CNN, GRU, MLP, Native, Normalizer, Tree
from rheos_torch.backend import TorchBackend

needs_onnx = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")),
    reason="needs rheos-backend-torch[onnx]",
)
every_format = pytest.mark.parametrize("to", ["torch", pytest.param("onnx", marks=needs_onnx)])

SPECS = {
    "torso": Tree({"images": CNN((5, 5, 2), 4, ((3, 3, 1),)), "numbers": MLP(3, 6, (8,))}),
    "normalizer": Normalizer(3),
    "policy": MLP(10, 4),
    "memory": GRU(4, 5),
}


def act(xp: Any, networks: Any, inputs: Any) -> dict[str, Any]:
    """Act as a policy might: images and numbers, a memory, constants, and a choice by noise."""
    numbers = networks["normalizer"](inputs["numbers"])
    logits = networks["policy"](networks["torso"]({"images": inputs["images"], "numbers": numbers}))
    outputs, state = networks["memory"](logits[None], inputs["state"], inputs["is_first"][None])
    scores = xp.log_softmax(logits * xp.asarray(np.float32([1.0, 0.5, 2.0, 1.0]))) + inputs["noise"]
    return {"state": state, "actions": xp.argmax(scores, axis=-1), "memory": outputs[0], "scores": scores}


def inputs_of(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    shapes = {"images": (5, 5, 2), "numbers": (3,), "state": (5,), "noise": (4,)}
    inputs = {name: generator.normal(size=(rows, *shape)).astype(np.float32) for name, shape in shapes.items()}
    return {**inputs, "is_first": generator.integers(0, 2, rows) == 1}


def built(specs: Any = SPECS) -> tuple[TorchBackend, Any]:
    backend = TorchBackend()
    return backend, backend.build(specs, initial_weights(specs, np.random.default_rng(0)), seed=1)


def assert_same_outputs(expected: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
    assert list(expected) == list(outputs)
    for name, array in expected.items():
        assert (array.shape, array.dtype) == (outputs[name].shape, outputs[name].dtype)
        np.testing.assert_allclose(outputs[name], array, rtol=1e-5, atol=1e-6, err_msg=name)  # other kernels


@every_format
def test_an_exported_function_gives_what_infer_gives_for_any_number_of_rows(tmp_path, to, capfd, caplog):
    backend, networks = built()
    expected = backend.infer(act, networks)
    capfd.readouterr()

    run = backend.export(act, networks, inputs_of(1), tmp_path / "policy", to)

    assert ("", "") == capfd.readouterr()  # nothing of torch's chatter shows
    assert [] == [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    for count in (1, 2, 6, 33):
        assert_same_outputs(expected(inputs_of(count, seed=count)), run(inputs_of(count, seed=count)))
    assert [tmp_path / "policy"] == list(tmp_path.iterdir())


def scaled(xp: Any, networks: Any, inputs: Any) -> dict[str, Any]:
    y = networks["policy"](inputs["numbers"])
    return {"y": y, "numbers": 2.0 * inputs["numbers"], "best": xp.argmax(y, axis=-1)}


RUNS = {
    "torch": """
module = torch.export.load(path).module()
outputs = {name: tensor.numpy() for name, tensor in module({n: torch.tensor(a) for n, a in inputs.items()}).items()}
""",
    "onnx": """
session = onnxruntime.InferenceSession(path)
names = [node.name for node in session.get_outputs()]
outputs = dict(zip([name.removesuffix("_out") for name in names], session.run(names, inputs)))
""",
}


@every_format
def test_the_file_runs_where_rheos_is_not(tmp_path, to):
    backend, networks = built({"policy": MLP(3, 2, (8,))})
    inputs = {"numbers": inputs_of(3)["numbers"]}
    expected = backend.infer(scaled, networks)(inputs)
    backend.export(scaled, networks, inputs, tmp_path / "policy.pt2", to)
    np.savez(tmp_path / "inputs.npz", **inputs)
    library = {"torch": "torch", "onnx": "onnxruntime"}[to]

    script = f"""
import json, sys, numpy, {library}
inputs, path = dict(numpy.load("inputs.npz")), "policy.pt2"
{RUNS[to]}
assert not any(name.startswith("rheos") for name in sys.modules)
print(json.dumps({{name: array.tolist() for name, array in outputs.items()}}))
"""
    process = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)

    outputs = json.loads(process.stdout)
    assert_same_outputs(expected, {name: np.array(outputs[name], array.dtype) for name, array in expected.items()})


class Own(torch.nn.Module):
    """A module that in training mode would give something else."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y


def own(_xp: Any, networks: Any, inputs: Any) -> dict[str, Any]:
    return {"y": networks["values"](inputs["numbers"])}  # a name that torch's own containers forbid


@every_format
def test_what_was_exported_is_a_copy_that_later_updates_do_not_reach(tmp_path, to):
    backend, networks = built({"values": Native(Own)})
    inputs = {"numbers": inputs_of(4)["numbers"]}
    expected = backend.infer(own, networks)(inputs)
    run = backend.export(own, networks, inputs, tmp_path / "policy", to)

    def loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        return xp.mean(networks["values"](batch["numbers"])), {}

    step = backend.update(loss, networks, backend.optimizer(SGD(), networks), max_grad_norm=None)
    step(backend.put(inputs), {"learning_rate": 0.1})

    assert_same_outputs(expected, run(inputs))
    assert not np.allclose(expected["y"], backend.infer(own, networks)(inputs)["y"])


# What cannot be


def branching(xp: Any, networks: Any, inputs: Any) -> dict[str, Any]:
    value = xp.mean(inputs["numbers"])
    return {"y": value if value > 0 else -value}


@every_format
def test_a_function_that_cannot_be_written_is_refused_in_one_line_and_leaves_nothing(tmp_path, to):
    backend, networks = built()

    with pytest.raises(ConfigError, match=rf"^export: torch cannot write this as '{to}': .+") as caught:
        backend.export(branching, networks, inputs_of(2), tmp_path / "policy", to)

    assert 1 == len(str(caught.value).splitlines())
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_package_that_is_missing_is_told_with_the_command_that_installs_it(tmp_path, monkeypatch, package):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, sys)  # as if it were there
    monkeypatch.setitem(sys.modules, package, None)
    backend, networks = built()

    message = rf"^export: 'onnx' needs .* and {package} cannot be .*: pip install 'rheos-backend-torch\[onnx\]'\.$"
    with pytest.raises(ConfigError, match=message):
        backend.export(act, networks, inputs_of(2), tmp_path / "policy", "onnx")

    assert [] == list(tmp_path.iterdir())


def test_a_format_that_is_none_is_refused(tmp_path: Path):
    backend, networks = built()

    with pytest.raises(ConfigError, match=r"^export: got 'savedmodel', expected one of torch, onnx\.$"):
        backend.export(act, networks, inputs_of(2), tmp_path / "policy", "savedmodel")
