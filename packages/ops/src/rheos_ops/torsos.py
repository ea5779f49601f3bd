"""Torsos: from the columns of encoded observations to features, whatever the observation space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Networks
from rheos.errors import SpaceError
from rheos.networks.specs import CNN, NATURE_FILTERS, Native, NetworkSpec, Normalizer, ResNet
from rheos.networks.weights import weight_shapes
from rheos.plugins.resolving import resolve
from rheos.spaces import Column

__all__ = [
    "OBSERVATION_NORMALIZER",
    "ImageLayout",
    "NativeTorso",
    "Torso",
    "filters_for",
    "make_native_torso",
    "make_torso",
]

Filters = tuple[tuple[int, int, int], ...]
"""Channels, kernel size and stride of each convolution."""

OBSERVATION_NORMALIZER = "observation_normalizer"
"""The name of the network that normalises the column `observations`."""

_SMALL_FILTERS: Filters = ((32, 3, 1), (64, 3, 1))
_MIDDLE_FILTERS: Filters = ((32, 4, 2), (64, 3, 1))
_SMALLEST_IMAGE = 5


@dataclass(frozen=True)
class ImageLayout:
    """How the axes of an image column become height, width and channels; a stack of frames becomes channels.

    Example:
        >>> ImageLayout.of((4, 84, 84)).shape, ImageLayout.of((4, 96, 96, 3)).shape, ImageLayout.of((64, 64)).shape
        ((84, 84, 4), (96, 96, 12), (64, 64, 1))
    """

    axes: tuple[int, ...]
    """The order of the column's axes, behind the axis of the rows: height, width, what becomes channels."""
    shape: tuple[int, int, int]
    """Height, width, channels."""

    @staticmethod
    def of(shape: tuple[int, ...]) -> ImageLayout:
        """Return the layout of a column `[H, W]`, `[H, W, C]`, `[C, H, W]` or `[stack, H, W, C]`.

        Of three axes, the shorter one of the first and the last has the channels, as a stack of gray frames has.
        """
        if len(shape) == 2:
            return ImageLayout((0, 1), (*shape, 1))
        if len(shape) == 4:
            return ImageLayout((1, 2, 0, 3), (shape[1], shape[2], shape[0] * shape[3]))
        if shape[0] < shape[-1]:
            return ImageLayout((1, 2, 0), (shape[1], shape[2], shape[0]))
        return ImageLayout((0, 1, 2), (shape[0], shape[1], shape[2]))


@dataclass(frozen=True)
class Torso:
    """Joins the columns of an observation into features `[N, size]`: images through a CNN each, numbers as they are.

    Where there is a normalizer, the column `observations` passes through it first.
    """

    columns: Mapping[str, Column]
    """The columns that are read, without the action mask."""
    networks: Mapping[str, NetworkSpec]
    """The torso's own networks by name."""
    images: Mapping[str, tuple[str, ImageLayout]]
    """Of each column that is an image: the name of its encoder, and its layout."""

    @property
    def size(self) -> int:
        """The number of features."""
        sizes = (
            self._encoder(name).outputs if name in self.images else prod(column.shape)
            for name, column in self.columns.items()
        )
        return sum(sizes)

    @property
    def is_only_images(self) -> bool:
        """Whether every column is an image, so that the features are an encoder's."""
        return self.columns.keys() == self.images.keys()

    def __call__(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> Array:
        """Return the features `[N, size]` float32 of observation columns `[N, ...]`."""
        features = [self._features(xp, networks, name, column, inputs[name]) for name, column in self.columns.items()]
        return features[0] if len(features) == 1 else xp.concat(features, axis=-1)

    def _features(self, xp: ArrayNamespace, networks: Networks, name: str, column: Column, x: Array) -> Array:
        x = _as_floats(xp, column, x)
        if name in self.images:
            network, layout = self.images[name]
            if len(layout.axes) > 2:
                x = xp.permute_dims(x, (0, *(axis + 1 for axis in layout.axes)))
            return networks[network](xp.reshape(x, (-1, *layout.shape)))
        if len(column.shape) != 1:
            x = xp.reshape(x, (-1, prod(column.shape)))
        return networks[OBSERVATION_NORMALIZER](x) if name == "observations" and self._normalizes else x

    @property
    def _normalizes(self) -> bool:
        return OBSERVATION_NORMALIZER in self.networks

    def _encoder(self, column: str) -> CNN | ResNet:
        spec = self.networks[self.images[column][0]]
        assert isinstance(spec, CNN | ResNet)
        return spec


@dataclass(frozen=True)
class NativeTorso:
    """A module of the user's own in place of the encoders, called with observations as the environment gives them.

    The module gets one array float32 `[N, *shape]` (bytes scaled to [0, 1]), or where observations have several columns
    a dict of them, and gives features `[N, size]`.
    """

    columns: Mapping[str, Column]
    """The columns that are read, without the action mask."""
    network: str
    """The name of the module among the networks."""
    module: Native
    size: int
    """The number of features."""

    is_only_images = True
    """True: what follows are the heads alone."""

    @property
    def networks(self) -> Mapping[str, NetworkSpec]:
        """The module by its name."""
        return {self.network: self.module}

    @cached_property
    def images(self) -> frozenset[str]:
        """The columns that are images."""
        return frozenset(name for name, column in self.columns.items() if _is_image(column))

    def __call__(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> Array:
        """Return the features `[N, size]` of observation columns `[N, ...]`."""
        arrays = {name: _as_floats(xp, column, inputs[name]) for name, column in self.columns.items()}
        return networks[self.network](next(iter(arrays.values())) if len(arrays) == 1 else arrays)


def make_native_torso(columns: Mapping[str, Column], reference: str, size: int, *, prefix: str = "") -> NativeTorso:
    """Make a torso of a module of the user's own.

    Args:
        columns: of an `ObservationAdapter`; an action mask among them is passed over.
        reference: `"module:function"`; called with the shapes of the columns by name (without the axis of the rows),
            and makes a `torch.nn.Module`, or a Keras model that is built.
        size: the number of features that the module gives.
        prefix: of the module's name, so that two torsos have weights of their own.
    """
    read = _without_mask(columns)
    shapes = {name: column.shape for name, column in read.items()}
    return NativeTorso(read, f"{prefix}torso", Native(partial(_make_module, reference, shapes)), size)


def _make_module(reference: str, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    return resolve(reference, "the torso")(shapes)


def _without_mask(columns: Mapping[str, Column]) -> dict[str, Column]:
    return {name: column for name, column in columns.items() if name != "action_mask"}


def _as_floats(xp: ArrayNamespace, column: Column, x: Array) -> Array:
    return x if column.dtype.kind == "f" else xp.astype(x, xp.float32) * column.scale


def _is_image(column: Column) -> bool:
    return column.dtype.kind != "f" and 2 <= len(column.shape) <= 4


def make_torso(
    columns: Mapping[str, Column],
    *,
    prefix: str = "",
    filters: Filters | None = None,
    is_residual: bool = False,
    normalizes: bool = False,
) -> Torso:
    """Make the torso for the columns of an `ObservationAdapter`.

    Args:
        columns: of the adapter; an action mask among them is passed over.
        prefix: of the names of the encoders, so that two torsos have weights of their own.
        filters: of every CNN; None chooses them by the size of the image.
        is_residual: whether images are seen by a `ResNet` each, in place of a CNN.
        normalizes: whether numbers (not images) are normalised; all torsos share the statistics.

    Raises:
        SpaceError: if the filters do not fit an image.
    """
    read = _without_mask(columns)
    networks: dict[str, NetworkSpec] = {}
    images: dict[str, tuple[str, ImageLayout]] = {}
    for name, column in read.items():
        if _is_image(column):
            layout = ImageLayout.of(column.shape)
            if filters is None and min(layout.shape[:2]) < _SMALLEST_IMAGE:
                continue
            network = f"{prefix}{'resnet' if is_residual else 'cnn'}{name.removeprefix('observations')}"
            images[name] = (network, layout)
            networks[network] = ResNet(layout.shape) if is_residual else _fitting_cnn(name, layout, filters)
    numbers = read.get("observations")
    if normalizes and numbers is not None and numbers.dtype.kind == "f":
        networks[OBSERVATION_NORMALIZER] = Normalizer(prod(numbers.shape))
    return Torso(read, networks, images)


def filters_for(height: int, width: int) -> Filters:
    """Return filters that fit an image: those of Mnih et al. 2015 from 36 pixels on, smaller ones for smaller images.

    Example:
        >>> filters_for(84, 84)
        ((32, 8, 4), (64, 4, 2), (64, 3, 1))
        >>> filters_for(7, 7)
        ((32, 3, 1), (64, 3, 1))
    """
    shorter = min(height, width)
    if shorter >= 36:
        return NATURE_FILTERS
    return _MIDDLE_FILTERS if shorter >= 10 else _SMALL_FILTERS


def _fitting_cnn(column: str, layout: ImageLayout, filters: Filters | None) -> CNN:
    height, width, _ = layout.shape
    cnn = CNN(layout.shape, filters=filters if filters is not None else filters_for(height, width))
    try:
        weight_shapes({"cnn": cnn})
    except ValueError as error:
        raise SpaceError(
            f"{column}: got images of {height} x {width}, which the filters {cnn.filters} do not fit: {error}"
        ) from error
    return cnn
