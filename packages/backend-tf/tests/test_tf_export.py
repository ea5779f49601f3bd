"""Export to a SavedModel: what is read again acts as the backend does, in a process without Rheos, too."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rheos.backend import Adam
from rheos.errors import ConfigError
from rheos.networks.initial import initial_weights
from rheos.networks.specs import CNN, GRU, MLP, Native, Normalizer
from rheos_tf.backend import TFBackend

SPECS = {
    "normalizer": Normalizer(4),
    "policy": MLP(4, 3),
    "eye": CNN((8, 8, 1), 5, ((4, 4, 2),)),
}


def inputs_of(rows: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(rows)
    return {
        "observations": generator.normal(size=(rows, 4)).astype(np.float32),
        "observations/camera": generator.integers(0, 255, (rows, 8, 8, 1)).astype(np.uint8),
        "mask": generator.random((rows, 3)) < 0.5,
    }


def act(xp: Any, networks: Any, inputs: Any) -> dict[str, Any]:
    logits = networks["policy"](networks["normalizer"](inputs["observations"]))
    allowed = xp.where(inputs["mask"], logits, -1e9)
    seen = networks["eye"](xp.astype(inputs["observations/camera"], xp.float32) / 255.0)
    return {"actions": xp.argmax(allowed), "logits": logits, "what is/seen": seen}


def test_what_is_read_again_gives_what_the_backend_gives_for_any_number_of_rows(tmp_path):
    backend = TFBackend()
    networks = backend.build(SPECS, initial_weights(SPECS, np.random.default_rng(0)))
    infer = backend.infer(act, networks)

    run = backend.export(act, networks, inputs_of(2), tmp_path / "policy", "savedmodel")

    assert [tmp_path / "policy"] == list(tmp_path.iterdir())
    for rows in (1, 7, 64):
        expected, found = infer(inputs_of(rows)), run(inputs_of(rows))
        assert sorted(expected) == sorted(found)
        for name, array in expected.items():
            np.testing.assert_array_equal(array, found[name], err_msg=name)


ALONE = """
import sys
import numpy as np, tensorflow as tf
signature = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
(output,) = signature(x=tf.constant(np.ones((3, 4), np.float32))).values()
print(*output.numpy().ravel().tolist(), any(name.startswith("rheos") for name in sys.modules))
"""


def test_what_is_written_runs_without_rheos(tmp_path):
    specs = {"policy": MLP(4, 1)}
    backend = TFBackend()
    networks = backend.build(specs, initial_weights(specs, np.random.default_rng(0)))

    run = backend.export(
        lambda xp, nets, inputs: {"y": nets["policy"](inputs["x"])},
        networks,
        {"x": np.zeros((1, 4), np.float32)},
        tmp_path / "policy",
        "savedmodel",
    )
    process = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path / "policy")], capture_output=True, text=True, timeout=120, check=True
    )

    *numbers, has_rheos = process.stdout.split()
    expected = run({"x": np.ones((3, 4), np.float32)})["y"].ravel()
    np.testing.assert_allclose([float(number) for number in numbers], expected, rtol=1e-6)
    assert "False" == has_rheos


def test_what_is_written_keeps_its_weights_when_training_goes_on(tmp_path):
    specs = {"policy": MLP(4, 1)}
    backend = TFBackend()
    networks = backend.build(specs, initial_weights(specs, np.random.default_rng(0)))
    inputs = {"x": np.ones((3, 4), np.float32)}
    run = backend.export(
        lambda xp, nets, inputs: {"y": nets["policy"](inputs["x"])}, networks, inputs, tmp_path / "p", "savedmodel"
    )
    before = run(inputs)["y"]

    def loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        return xp.mean(networks["policy"](batch["x"])), {}

    update = backend.update(loss, networks, backend.optimizer(Adam(), networks), max_grad_norm=None)
    update(backend.put(inputs), {"learning_rate": 0.1})

    np.testing.assert_array_equal(before, run(inputs)["y"])


def test_memories_and_keras_models_are_exported_too(tmp_path):
    keras: Any = importlib.import_module("keras")

    def make() -> Any:
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.BatchNormalization()])

    specs = {"memory": GRU(3, 4), "own": Native(make)}
    backend = TFBackend(mode="eager")
    networks = backend.build(specs, initial_weights(specs, np.random.default_rng(0)))

    def remember(_xp: Any, networks: Any, inputs: Any) -> dict[str, Any]:
        outputs, state = networks["memory"](networks["own"](inputs["x"])[None], inputs["state"], inputs["first"][None])
        return {"outputs": outputs[0], "state": state}

    inputs = {"x": np.ones((3, 4), np.float32), "state": np.ones((3, 4), np.float32), "first": np.zeros(3, np.bool_)}
    expected = backend.infer(remember, networks)(inputs)

    found = backend.export(remember, networks, inputs, tmp_path / "policy", "savedmodel")(inputs)

    for name, array in expected.items():
        np.testing.assert_allclose(array, found[name], rtol=1e-5, atol=1e-6)


def test_a_function_that_needs_values_is_refused_in_one_line_and_leaves_nothing(tmp_path):
    backend = TFBackend(mode="eager")
    networks = backend.build(SPECS, initial_weights(SPECS, np.random.default_rng(0)))

    def branching(xp: Any, networks: Any, inputs: Any) -> dict[str, Any]:
        y = networks["policy"](inputs["observations"])
        return {"y": y if xp.mean(y) > 0 else -y}

    with pytest.raises(ConfigError, match=r"^export: TensorFlow cannot write this as 'savedmodel': .+"):
        backend.export(branching, networks, inputs_of(2), tmp_path / "policy", "savedmodel")

    assert [] == list(tmp_path.iterdir())


def test_another_format_is_refused(tmp_path: Path):
    backend = TFBackend()
    networks = backend.build(SPECS, initial_weights(SPECS, np.random.default_rng(0)))

    with pytest.raises(ConfigError, match=r"^export: got 'onnx', expected one of savedmodel\.$"):
        backend.export(act, networks, inputs_of(1), tmp_path / "policy", "onnx")
