"""Network specs on torch: the values of NumPy, true gradients, weights that come back, and what is not trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rheos.backend import Adam
from rheos.errors import ShapeError
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.networks.specs import CNN, GRU, LSTM, MLP, Activation, Heads, Normalizer, Parameter, ResNet, Tree
from rheos.networks.weights import trainable_shapes, weight_shapes
from rheos_torch.backend import TorchBackend

SPECS = {
    "mlp": MLP(5, 3, (8,)),
    "trunk": MLP(5, 6, (8,), Activation.RELU, activates_output=True),
    "cnn": CNN((12, 10, 3), 7, ((4, 4, 2), (6, 3, 1)), Activation.TANH),
    "resnet": ResNet((12, 10, 3), 16, (4, 5), scale=0.7),
    "odd_resnet": ResNet((7, 9, 3), 16, (4, 5), num_blocks=1, scale=0.7),
    "one_pixel": ResNet((1, 1, 3), 16, (4,), num_blocks=1),
    "normalizer": Normalizer(5, limit=2.0),
    "parameter": Parameter((2,), 0.5),
    # Parts may be called what attributes of a module are called, or have the dots of a module's path.
    "tree": Tree({"type": MLP(5, 3, ()), "camera.left": MLP(5, 4, (), activates_output=True), "n": Normalizer(5)}),
    "heads": Heads(MLP(5, 6, (), activates_output=True), {"forward": MLP(6, 2, ()), "value": MLP(6, 1, (4,))}),
    "nested": Heads(Tree({"type": MLP(5, 3, ())}), {"values": Heads(MLP(3, 2), {"mean": MLP(2, 1, ())})}),
    "lstm": LSTM(5, 4),
    "gru": GRU(5, 4),
}
IMAGES = {"cnn": (12, 10, 3), "resnet": (12, 10, 3), "odd_resnet": (7, 9, 3), "one_pixel": (1, 1, 3)}
MEMORIES = {"lstm": 8, "gru": 4}


def weights() -> dict[str, np.ndarray]:
    """Initial weights, with biases and statistics that are not 0."""
    generator = np.random.default_rng(0)
    drawn = initial_weights(SPECS, generator)
    for name, array in drawn.items():
        if name.endswith(("bias", "mean")):
            drawn[name] = generator.normal(size=array.shape).astype(np.float32)
        elif name.endswith("std"):
            drawn[name] = generator.uniform(0.5, 2.0, array.shape).astype(np.float32)
    return drawn


def inputs_of(name: str, leading: tuple[int, ...]) -> tuple[Any, ...]:
    """What a network is called with."""
    generator = np.random.default_rng(1)
    if name in MEMORIES:
        x, state = generator.normal(size=(6, *leading[-1:], 5)), generator.normal(size=(*leading[-1:], MEMORIES[name]))
        return x.astype(np.float32), state.astype(np.float32), generator.random((6, *leading[-1:])) < 0.3
    x = generator.normal(size=(*leading, *IMAGES.get(name, (5,)))).astype(np.float32)
    return ({"type": x, "camera.left": -x, "n": 2 * x},) if name in ("tree", "nested") else (x,)


def on_torch(values: Any) -> Any:
    """The same tree of arrays, as tensors."""
    return torch.utils._pytree.tree_map(torch.tensor, values)


def outputs_of(result: Any) -> list[Any]:
    """All arrays of a result, in order."""
    return torch.utils._pytree.tree_leaves(result)


CASES = [
    (name, leading)
    for name in SPECS
    for leading in ([(4,), (1,)] if name in MEMORIES else [(), (4,), (2, 3), (1,), (2, 1, 3)])
]


@pytest.mark.parametrize(("name", "leading"), CASES, ids=str)
def test_outputs_are_those_of_numpy_whatever_the_leading_axes(name, leading):
    inputs = inputs_of(name, leading)

    expected = outputs_of(NumpyNetworks(SPECS, weights())[name](*inputs))
    with torch.no_grad():
        outputs = outputs_of(TorchBackend().build(SPECS, weights())[name](*on_torch(inputs)))

    assert [array.shape for array in expected] == [tuple(tensor.shape) for tensor in outputs]
    for array, tensor in zip(expected, outputs, strict=True):
        # float32, sums over at most 120 numbers of about 1; through the residual networks, up to 10 of them
        np.testing.assert_allclose(
            array, tensor.detach().numpy(), atol=1e-5 if isinstance(SPECS[name], ResNet) else 2e-6
        )


@pytest.mark.parametrize("name", [name for name in SPECS if name != "normalizer"])
def test_gradients_are_those_of_finite_differences_on_numpy(name):
    inputs, step = inputs_of(name, (4,)), 5e-4
    backend = TorchBackend()
    native = backend.build(SPECS, weights())
    generator = np.random.default_rng(2)
    direction = {
        weight: generator.normal(size=shape).astype(np.float32)
        for weight, shape in trainable_shapes({name: SPECS[name]}).items()
    }

    def loss_along(distance: float) -> float:
        moved = {w: array + distance * direction.get(w, np.float32(0)) for w, array in weights().items()}
        outputs = outputs_of(NumpyNetworks(SPECS, moved)[name](*inputs))
        return sum(float(np.square(output, dtype=np.float64).sum()) for output in outputs)

    loss = sum(torch.sum(torch.square(output)) for output in outputs_of(native[name](*on_torch(inputs))))
    torch.autograd.backward(loss, inputs=native.parameters)
    gradients = native.by_name(native.gradient)

    slope = (loss_along(step) - loss_along(-step)) / (2 * step)
    expected = sum(float((gradients[weight] * direction[weight]).sum()) for weight in direction)
    size = float(np.linalg.norm([np.linalg.norm(gradients[weight]) for weight in direction]))
    # The slope is of the size of the gradient; rounding over the step is 3e-4 of it, and where a ReLU bends between
    # the two points, at most 0.84e-2 here.
    assert slope == pytest.approx(expected, abs=1e-2 * size)


def test_all_weights_come_back_in_their_order_and_as_copies():
    backend = TorchBackend()
    native = backend.build(SPECS, weights())

    found = backend.weights(native)
    for array in found.values():
        array += 1.0

    assert list(weight_shapes(SPECS)) == list(found)
    for name, array in backend.weights(native).items():
        np.testing.assert_array_equal(weights()[name], array)


def test_weights_go_to_numpy_and_back_to_the_bit():
    backend = TorchBackend()
    sent = backend.weights(backend.build(SPECS, weights()))

    NumpyNetworks(SPECS, sent)
    back = backend.weights(backend.build(SPECS, sent))

    for name, array in weights().items():
        np.testing.assert_array_equal(array, back[name], err_msg=name)


def test_an_update_moves_every_trainable_weight_and_no_normalizer():
    backend = TorchBackend()
    native = backend.build(SPECS, weights())
    optimizer = backend.optimizer(Adam(), native)

    def loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        return sum(
            xp.mean(xp.square(output))
            for name in SPECS
            for output in outputs_of(networks[name](*batch[name]))
            if output.requires_grad
        ), {}

    update = backend.update(loss, native, optimizer, max_grad_norm=None)
    update({name: on_torch(inputs_of(name, (16,))) for name in SPECS}, {"learning_rate": 1e-2})

    moved = {name for name, array in backend.weights(native).items() if not np.array_equal(weights()[name], array)}
    assert set(trainable_shapes(SPECS)) == moved
    assert not any("normalizer" in name for name in optimizer.state_dict())


def test_loading_some_weights_leaves_the_others_as_they_are():
    backend = TorchBackend()
    native = backend.build(SPECS, weights())
    given = {"normalizer/mean": np.full(5, 3.0, np.float32), "mlp/output/bias": np.ones(3, np.float32)}

    backend.load(native, given, strict=False)

    for name, array in backend.weights(native).items():
        np.testing.assert_array_equal({**weights(), **given}[name], array)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"normalizer/mean": np.zeros(4, np.float32)}, r"`normalizer/mean` has shape \(4,\), expected \(5,\)"),
        ({"normalizer/scale": np.zeros(5, np.float32)}, "`normalizer/scale` is unknown"),
    ],
    ids=["misshapen", "unknown"],
)
def test_some_weights_that_do_not_fit_are_refused_by_name_and_change_nothing(given, message):
    backend = TorchBackend()
    native = backend.build(SPECS, weights())

    with pytest.raises(ShapeError, match=message):
        backend.load(native, given, strict=False)

    np.testing.assert_array_equal(weights()["normalizer/mean"], backend.weights(native)["normalizer/mean"])


def test_without_saying_so_every_weight_must_be_given():
    backend = TorchBackend()

    with pytest.raises(ShapeError, match="is missing"):
        backend.load(backend.build(SPECS, weights()), {"normalizer/mean": np.zeros(5, np.float32)})
