"""CNN, ResNet and Normalizer: their shapes, their first weights, and what NumPy makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from rheos.errors import ShapeError
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks, acts_in_numpy
from rheos.networks.specs import CNN, MLP, Activation, Normalizer, ResNet
from rheos.networks.weights import trainable_shapes, weight_shapes

SMALL = CNN((7, 6, 2), 5, ((3, 3, 2), (4, 2, 1)), Activation.TANH)


def convolved(images, kernel, bias, stride):
    """A convolution without padding, number by number."""
    count, height, width, _ = images.shape
    size = kernel.shape[0]
    rows, columns = (height - size) // stride + 1, (width - size) // stride + 1
    out = np.zeros((count, rows, columns, kernel.shape[-1]))
    for i in range(rows):
        for j in range(columns):
            seen = images[:, i * stride : i * stride + size, j * stride : j * stride + size]
            for channel in range(kernel.shape[-1]):
                out[:, i, j, channel] = (seen * kernel[..., channel]).sum(axis=(1, 2, 3)) + bias[channel]
    return out


def test_a_cnn_is_its_convolutions_one_by_one_and_a_dense_layer():
    generator = np.random.default_rng(0)
    weights = {
        name: generator.normal(size=shape).astype(np.float32) for name, shape in weight_shapes({"cnn": SMALL}).items()
    }
    images = generator.normal(size=(3, 7, 6, 2)).astype(np.float32)

    expected = images.astype(np.float64)
    for index, (_, _, stride) in enumerate(SMALL.filters):
        kernel, bias = weights[f"cnn/conv_{index}/kernel"], weights[f"cnn/conv_{index}/bias"]
        expected = np.tanh(convolved(expected, kernel, bias, stride))
    expected = np.tanh(expected.reshape(3, -1) @ weights["cnn/output/kernel"] + weights["cnn/output/bias"])

    outputs = NumpyNetworks({"cnn": SMALL}, weights)["cnn"](images)
    np.testing.assert_allclose(expected, outputs, atol=1e-4)  # float32, sums over 18 numbers of about 4


def halved(images):
    """The maximum over 3 x 3 pixels around every second one, number by number."""
    count, height, width, channels = images.shape
    out = np.zeros((count, (height + 1) // 2, (width + 1) // 2, channels))
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            rows, columns = slice(max(2 * i - 1, 0), 2 * i + 2), slice(max(2 * j - 1, 0), 2 * j + 2)
            out[:, i, j] = images[:, rows, columns].max(axis=(1, 2))
    return out


@pytest.mark.parametrize("size", [(7, 6), (8, 5), (1, 1)], ids=str)
def test_a_resnet_is_its_convolutions_maxima_and_sums_one_by_one(size):
    spec = ResNet((*size, 2), 5, channels=(3, 4), num_blocks=2)
    generator = np.random.default_rng(0)
    weights = {
        n: generator.normal(0.0, 0.3, shape).astype(np.float32) for n, shape in weight_shapes({"r": spec}).items()
    }
    images = generator.normal(size=(3, *size, 2)).astype(np.float32)

    def padded(x, layer):
        around = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
        return convolved(around, weights[f"r/{layer}/kernel"], weights[f"r/{layer}/bias"], 1)

    expected = images.astype(np.float64)
    for section in ("section_0", "section_1"):
        expected = halved(padded(expected, f"{section}/conv"))
        for block in ("block_0", "block_1"):
            inner = padded(np.maximum(expected, 0.0), f"{section}/{block}/conv_0")
            expected = expected + padded(np.maximum(inner, 0.0), f"{section}/{block}/conv_1")
    flat = np.maximum(expected, 0.0).reshape(3, -1)
    expected = np.maximum(flat @ weights["r/output/kernel"] + weights["r/output/bias"], 0.0)

    outputs = NumpyNetworks({"r": spec}, weights)["r"](images)
    np.testing.assert_allclose(expected, outputs, rtol=1e-5, atol=1e-4)  # float32, through 10 sums of 36 numbers


def test_three_sections_leave_11_by_11_pixels_of_84_by_84():
    shapes = weight_shapes({"r": ResNet((84, 84, 4))})

    assert (11 * 11 * 32, 256) == shapes["r/output/kernel"]
    # 15 convolutions and a dense layer, as Espeholt et al. count them; their weights by hand:
    convolutions = 9 * (4 * 16 + 4 * 16 * 16 + 16 * 32 + 4 * 32 * 32 + 32 * 32 + 4 * 32 * 32) + 16 * 5 + 32 * 10
    assert convolutions + (3872 + 1) * 256 == sum(int(np.prod(shape)) for shape in shapes.values())
    assert len(shapes) == 2 * 16


@pytest.mark.parametrize("lead", [(), (2, 3)], ids=str)
def test_a_resnet_keeps_leading_axes(lead):
    spec = {"r": ResNet((5, 4, 2), 3, (2,), num_blocks=1)}
    network = NumpyNetworks(spec, initial_weights(spec, np.random.default_rng(0)))["r"]
    x = np.random.default_rng(0).random((*lead, 5, 4, 2), np.float32)

    outputs = network(x)

    assert (*lead, 3) == outputs.shape
    np.testing.assert_allclose(network(x.reshape(-1, 5, 4, 2)), outputs.reshape(-1, 3), rtol=1e-5, atol=1e-6)


def test_nature_filters_leave_7_by_7_pixels_of_84_by_84():
    shapes = weight_shapes({"cnn": CNN((84, 84, 4))})

    assert (7 * 7 * 64, 512) == shapes["cnn/output/kernel"]


@pytest.mark.parametrize(("shape", "layer"), [((7, 84, 4), "conv_0"), ((20, 20, 4), "conv_2")])
def test_an_image_too_small_for_a_filter_is_refused_with_the_layer_and_what_it_gets(shape, layer):
    with pytest.raises(ShapeError, match=rf"`{layer}` gets \d+ x \d+ pixels"):
        weight_shapes({"cnn": CNN(shape)})


def test_the_first_kernel_of_a_cnn_is_orthogonal_over_all_that_a_filter_sees():
    weights = initial_weights({"cnn": SMALL}, np.random.default_rng(0))

    matrix = weights["cnn/conv_0/kernel"].reshape(-1, 3)
    np.testing.assert_allclose(2 * np.eye(3), matrix.T @ matrix, atol=1e-5)  # scale √2, squared
    assert not weights["cnn/conv_0/bias"].any()


def test_a_normalizer_shifts_scales_and_clips():
    weights = {"n/mean": np.array([1.0, 0.0], np.float32), "n/std": np.array([2.0, 0.1], np.float32)}

    outputs = NumpyNetworks({"n": Normalizer(2, limit=3.0)}, weights)["n"](np.array([[5.0, 1.0]], np.float32))

    np.testing.assert_allclose([[2.0, 3.0]], outputs)


def test_a_normalizer_changes_nothing_at_the_start_and_is_not_trained():
    specs = {"n": Normalizer(2)}
    x = np.array([[1.5, -2.5]], np.float32)

    outputs = NumpyNetworks(specs, initial_weights(specs, np.random.default_rng(0)))["n"](x)

    np.testing.assert_array_equal(x, outputs)
    assert {} == trainable_shapes(specs)
    np.testing.assert_array_equal([[1.5, -2.5]], x)  # the input is not written to


def test_a_trunk_activates_what_it_gives():
    specs = {"trunk": MLP(3, 4, (), Activation.RELU, activates_output=True)}
    weights = initial_weights(specs, np.random.default_rng(0))
    x = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)

    outputs = NumpyNetworks(specs, weights)["trunk"](x)

    np.testing.assert_allclose(np.maximum(x @ weights["trunk/output/kernel"], 0.0), outputs, atol=1e-6)


def test_images_are_not_seen_in_numpy():
    assert not acts_in_numpy({"cnn": SMALL, "policy": MLP(5, 2)})
    assert acts_in_numpy({"n": Normalizer(3), "policy": MLP(3, 2)})
