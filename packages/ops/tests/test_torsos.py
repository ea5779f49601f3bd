"""Torsos: what becomes of the columns of an observation before the heads."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import SpaceError
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.networks.specs import CNN, NATURE_FILTERS, Native, ResNet
from rheos.seeds import generator_for
from rheos.spaces import ObservationAdapter
from rheos_ops.torsos import OBSERVATION_NORMALIZER, ImageLayout, filters_for, make_native_torso, make_torso

NUMBERS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
IMAGE = gym.spaces.Box(0, 255, (36, 40, 3), np.uint8)


def columns_of(space):
    return ObservationAdapter(space).columns


def networks_of(torso):
    return NumpyNetworks(torso.networks, initial_weights(torso.networks, generator_for(0, "weights")))


def samples(space, count=4):
    space.seed(0)
    singles = [space.sample() for _ in range(count)]
    return ObservationAdapter(space).encode(
        {key: np.stack([single[key] for single in singles]) for key in space.spaces}
        if isinstance(space, gym.spaces.Dict)
        else np.stack(singles)
    )


def test_numbers_alone_pass_through_untouched():
    torso = make_torso(columns_of(NUMBERS))
    observations = np.ones((4, 3), np.float32)

    features = torso(xp, {}, {"observations": observations})

    assert features is observations
    assert torso.size == 3


def test_an_image_becomes_the_features_of_a_cnn_over_numbers_from_0_to_1():
    torso = make_torso(columns_of(IMAGE))
    networks, inputs = networks_of(torso), samples(IMAGE)

    features = torso(xp, networks, inputs)

    expected = networks["cnn"](inputs["observations"].astype(np.float32) / 255)
    assert torso.is_only_images
    assert features.shape == (4, torso.size)
    np.testing.assert_allclose(expected, features, atol=1e-6)  # float32, numbers of about 1


def test_images_and_numbers_of_a_dict_are_joined():
    space = gym.spaces.Dict(camera=IMAGE, speed=NUMBERS)
    torso = make_torso(columns_of(space))
    networks, inputs = networks_of(torso), samples(space)

    features = torso(xp, networks, inputs)

    assert not torso.is_only_images
    assert features.shape == (4, 512 + 3)
    assert any(np.array_equal(inputs["observations"], features[:, start : start + 3]) for start in (0, 512))


def test_a_stack_of_frames_becomes_channels_without_mixing_pixels():
    stacked = gym.spaces.Box(0, 255, (4, 36, 40), np.uint8)
    torso = make_torso(columns_of(stacked))
    networks, inputs = networks_of(torso), samples(stacked)

    features = torso(xp, networks, inputs)

    as_channels = np.moveaxis(inputs["observations"], 1, -1).astype(np.float32) / 255
    np.testing.assert_allclose(networks["cnn"](as_channels), features, atol=1e-6)


def test_images_are_seen_by_a_residual_network_where_it_is_asked_for():
    torso = make_torso(columns_of(IMAGE), is_residual=True)

    features = torso(xp, networks_of(torso), samples(IMAGE))

    assert {"resnet": ResNet((36, 40, 3))} == torso.networks
    assert (4, torso.size) == features.shape


def test_a_module_of_ones_own_gets_the_observations_as_floats_of_about_1():
    space = gym.spaces.Dict(camera=IMAGE, speed=NUMBERS)
    torso = make_native_torso(columns_of(space), "builtins:dict", 5, prefix="value_")
    seen = {}

    def module(inputs):
        seen.update(inputs)
        return np.zeros((4, 5), np.float32)

    features = torso(xp, {"value_torso": module}, samples(space))

    own = torso.networks["value_torso"]
    assert isinstance(own, Native)
    assert {name: column.shape for name, column in columns_of(space).items()} == own.make()
    assert {name: (4, *column.shape) for name, column in columns_of(space).items()} == {
        name: array.shape for name, array in seen.items()
    }
    assert all(array.dtype == np.float32 for array in seen.values())
    assert 0.9 < max(array.max() for name, array in seen.items() if array.ndim == 4) <= 1.0
    assert (4, torso.size) == features.shape
    assert {"observations.camera"} == torso.images


def test_a_module_of_ones_own_gets_a_single_column_as_it_is_and_never_the_mask():
    space = gym.spaces.Dict(observation=NUMBERS, action_mask=gym.spaces.MultiBinary(2))
    columns = ObservationAdapter(space, gym.spaces.Discrete(2)).columns
    torso = make_native_torso(columns, "nowhere:nothing", 3)

    features = torso(xp, {"torso": lambda x: 2.0 * x}, {"observations": np.ones((2, 3), np.float32)})

    assert {"observations"} == torso.columns.keys()
    np.testing.assert_array_equal(np.full((2, 3), 2.0), features)


def test_bytes_that_are_no_image_are_scaled_numbers():
    memory = gym.spaces.Box(0, 255, (128,), np.uint8)
    torso = make_torso(columns_of(memory))

    features = torso(xp, {}, {"observations": np.full((2, 128), 255, np.uint8)})

    assert {} == torso.networks
    np.testing.assert_allclose(1.0, features, rtol=1e-6)


def test_a_picture_too_small_for_any_filter_is_taken_as_numbers():
    tiny = gym.spaces.Box(0, 255, (3, 3, 2), np.uint8)
    torso = make_torso(columns_of(tiny))

    features = torso(xp, {}, {"observations": np.zeros((5, 3, 3, 2), np.uint8)})

    assert features.shape == (5, 18)


@pytest.mark.parametrize("side", [5, 7, 9, 10, 16, 35, 36, 84, 210])
def test_chosen_filters_fit_every_side_from_5_pixels_on(side):
    space = gym.spaces.Box(0, 255, (side, side + 3, 3), np.uint8)

    torso = make_torso(columns_of(space))

    assert networks_of(torso)["cnn"](np.zeros((2, side, side + 3, 3), np.float32)).shape == (2, torso.size)


def test_a_large_image_gets_the_filters_of_nature():
    assert NATURE_FILTERS == filters_for(84, 84)


def test_filters_that_do_not_fit_are_refused_with_the_column_and_the_size():
    with pytest.raises(SpaceError, match=r"observations.*36 x 40"):
        make_torso(columns_of(IMAGE), filters=((32, 64, 4),))


def test_the_normalizer_takes_numbers_and_leaves_images():
    space = gym.spaces.Dict(camera=IMAGE, speed=NUMBERS)

    torso = make_torso(columns_of(space), normalizes=True)
    alone = make_torso(columns_of(IMAGE), normalizes=True)

    assert torso.networks[OBSERVATION_NORMALIZER].size == 3
    assert OBSERVATION_NORMALIZER not in alone.networks


def test_prefixes_give_two_torsos_cnns_of_their_own_and_one_normalizer():
    space = gym.spaces.Dict(camera=IMAGE, speed=NUMBERS)

    first, second = (make_torso(columns_of(space), prefix=prefix, normalizes=True) for prefix in ("", "value_"))

    assert {OBSERVATION_NORMALIZER} == first.networks.keys() & second.networks.keys()
    assert all(isinstance(spec, CNN) for name, spec in second.networks.items() if name != OBSERVATION_NORMALIZER)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((84, 84), (84, 84, 1)),
        ((84, 84, 3), (84, 84, 3)),
        ((3, 84, 84), (84, 84, 3)),
        ((4, 84, 84), (84, 84, 4)),
        ((96, 96, 12), (96, 96, 12)),
        ((4, 96, 96, 3), (96, 96, 12)),
    ],
)
def test_the_shorter_outer_axis_has_the_channels(shape, expected):
    assert expected == ImageLayout.of(shape).shape
