"""Torsos: from the columns of encoded observations to features, whatever the observation space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Networks
from rheos.errors import SpaceError
from rheos.networks.specs import CNN, NATURE_FILTERS, NetworkSpec, Normalizer
from rheos.networks.weights import weight_shapes
from rheos.spaces import Column

__all__ = ["OBSERVATION_NORMALIZER", "ImageLayout", "Torso", "filters_for", "make_torso"]

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
    """Of each column that is an image: the name of its CNN, and its layout."""

    @property
    def size(self) -> int:
        """The number of features."""
        sizes = (
            self._cnn(name).outputs if name in self.images else prod(column.shape)
            for name, column in self.columns.items()
        )
        return sum(sizes)

    @property
    def is_only_images(self) -> bool:
        """Whether every column is an image, so that the features are a CNN's."""
        return self.columns.keys() == self.images.keys()

    def __call__(self, xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> Array:
        """Return the features `[N, size]` float32 of observation columns `[N, ...]`."""
        features = [self._features(xp, networks, name, column, inputs[name]) for name, column in self.columns.items()]
        return features[0] if len(features) == 1 else xp.concat(features, axis=-1)

    def _features(self, xp: ArrayNamespace, networks: Networks, name: str, column: Column, x: Array) -> Array:
        if column.dtype.kind != "f":
            x = xp.astype(x, xp.float32) * column.scale
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

    def _cnn(self, column: str) -> CNN:
        spec = self.networks[self.images[column][0]]
        assert isinstance(spec, CNN)
        return spec


def make_torso(
    columns: Mapping[str, Column], *, prefix: str = "", filters: Filters | None = None, normalizes: bool = False
) -> Torso:
    """Make the torso for the columns of an `ObservationAdapter`.

    Args:
        columns: of the adapter; an action mask among them is passed over.
        prefix: of the names of the CNNs, so that two torsos have weights of their own.
        filters: of every CNN; None chooses them by the size of the image.
        normalizes: whether numbers (not images) are normalised; all torsos share the statistics.

    Raises:
        SpaceError: if the filters do not fit an image.
    """
    read = {name: column for name, column in columns.items() if name != "action_mask"}
    networks: dict[str, NetworkSpec] = {}
    images: dict[str, tuple[str, ImageLayout]] = {}
    for name, column in read.items():
        if column.dtype.kind != "f" and 2 <= len(column.shape) <= 4:
            layout = ImageLayout.of(column.shape)
            if filters is None and min(layout.shape[:2]) < _SMALLEST_IMAGE:
                continue
            network = f"{prefix}cnn{name.removeprefix('observations')}"
            images[name] = (network, layout)
            networks[network] = _fitting_cnn(name, layout, filters)
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
