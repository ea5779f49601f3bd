"""TFNetworks: networks by name, whose trainable weights lie in one flat variable."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.networks.specs import Native, NetworkSpec
from rheos.networks.weights import check_arrays, leaf_specs, trainable_shapes, weight_shapes
from rheos_tf.framework import Tensor, Variable, tf
from rheos_tf.modules import Network, make_network
from rheos_tf.namespace import integers, raw
from rheos_tf.natives import KerasNetwork, seeded

__all__ = ["Layout", "TFNetwork", "TFNetworks", "bound"]

_Arrays = Mapping[str, "npt.NDArray[np.generic]"]


@dataclass(frozen=True)
class Layout:
    """How arrays by name lie in one flat array: in this order, each in row-major order."""

    shapes: Mapping[str, tuple[int, ...]]

    @property
    def sizes(self) -> list[int]:
        """The numbers in each."""
        return [math.prod(shape) for shape in self.shapes.values()]

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """Return the parts of a native array."""
        if not self.shapes:
            return {}
        parts = raw.SplitV(value=flat, size_splits=integers(self.sizes), axis=0, num_split=len(self.shapes))
        return {
            name: raw.Reshape(tensor=part, shape=integers(shape))
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def views(self, flat: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the parts of a NumPy array, as views."""
        places = pairwise(accumulate(self.sizes, initial=0))
        return {
            name: flat[start:end].reshape(shape)
            for (name, shape), (start, end) in zip(self.shapes.items(), places, strict=True)
        }

    def flatten(self, arrays: _Arrays) -> npt.NDArray[np.float32]:
        """Lay arrays one after the other, as float32."""
        nothing = np.empty(0, np.float32)  # where there are no names
        return np.concatenate([nothing, *(np.ravel(arrays[name]) for name in self.shapes)], dtype=np.float32)


class TFNetwork:
    """One of some networks; in a graph, `bound` splits the weights of all of them once."""

    def __init__(self, networks: TFNetworks, name: str) -> None:
        self.networks = networks
        self.name = name

    def __call__(self, *inputs: Any) -> Any:
        """Call it with the weights as they are now."""
        return self.networks.bind()[self.name](*inputs)


class TFNetworks(Mapping[str, TFNetwork]):
    """Networks by name, over one flat variable of trainable weights.

    Every trainable weight of every spec lies in `flat`, in the order of the specs. So a gradient is one tensor, and
    clipping, the optimizer's step and a copy of all weights are a handful of operations, however many layers there
    are. What no gradient changes lies apart: the numbers of normalizers. The variables of a user's own Keras model stay
    its own.

    Args:
        specs: networks by name.
        weights: what they start from, by canonical name; those of a `Native` network may be missing, all of them.
        seed: of what a `Native` network draws when it is made: see `rheos_tf.natives.seeded`.

    Raises:
        ConfigError: if a `Native` network is not a built Keras model of float32 weights of its own.
        ShapeError: if a weight is missing, unknown or misshapen.
    """

    def __init__(
        self, specs: Mapping[str, NetworkSpec], weights: Mapping[str, npt.NDArray[np.float32]], *, seed: int = 0
    ) -> None:
        self._specs = dict(specs)
        leaves = leaf_specs(specs)
        native_specs = {path: leaf for path, leaf in leaves.items() if isinstance(leaf, Native)}
        self._natives: dict[str, KerasNetwork] = {}
        if native_specs:
            with seeded(seed):
                self._natives = {path: KerasNetwork(path, leaf) for path, leaf in native_specs.items()}
        trainable, shapes = trainable_shapes(specs), weight_shapes(specs)
        self._layout = Layout(trainable)
        self._fixed_layout = Layout({name: shape for name, shape in shapes.items() if name not in trainable})
        self.flat = tf.Variable(tf.zeros(sum(self._layout.sizes)))
        """The trainable weights of the specs."""
        self._fixed = tf.Variable(tf.zeros(sum(self._fixed_layout.sizes)), trainable=False)
        self._own = {name: variable for native in self._natives.values() for name, variable in native.variables.items()}
        self._own_trained = [name for native in self._natives.values() for name in native.trained]
        self._names = [name for path, leaf in leaves.items() for name in self._names_of(path, leaf)]
        self.load({**self._missing(weights), **weights}, strict=True)

    @property
    def trained(self) -> list[Variable]:
        """The variables that gradients change: `flat` first, then those of Keras models."""
        return [self.flat, *(self._own[name] for name in self._own_trained)]

    @property
    def moved_by_models(self) -> list[Variable]:
        """The variables of Keras models that no gradient changes, but a call may, such as the mean of what was seen."""
        return [variable for name, variable in self._own.items() if name not in self._own_trained]

    @property
    def trained_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight that gradients change, by canonical name."""
        shapes = {**self._layout.shapes, **{name: tuple(self._own[name].shape) for name in self._own_trained}}
        return {name: shapes[name] for name in self._names if name in shapes}

    @property
    def variables(self) -> list[Variable]:
        """All variables that hold weights."""
        return [self.flat, self._fixed, *self._own.values()]

    @property
    def models(self) -> list[Any]:
        """The users' own models."""
        return [native.model for native in self._natives.values()]

    def bind(self, flat: Tensor | None = None, *, is_training: bool = False) -> dict[str, Network]:
        """Return the networks over the weights as they are now.

        Args:
            flat: what to take for the trainable weights of the specs instead.
            is_training: whether Keras models run as in training (dropout, statistics of the batch).
        """
        weights = self._layout.split(self.flat.read_value() if flat is None else flat)
        weights |= self._fixed_layout.split(self._fixed.read_value())
        natives = {path: partial(native.model, training=is_training) for path, native in self._natives.items()}
        return {name: make_network(name, spec, weights, natives) for name, spec in self._specs.items()}

    def load(self, weights: Mapping[str, npt.NDArray[np.float32]], *, strict: bool) -> None:
        """Overwrite all weights, or only those that are given."""
        shapes = {**self._layout.shapes, **self._fixed_layout.shapes}
        shapes |= {name: tuple(variable.shape) for name, variable in self._own.items()}
        check_arrays(weights, {name: shapes[name] for name in self._names if strict or name in weights})
        for layout, variable in ((self._layout, self.flat), (self._fixed_layout, self._fixed)):
            if not weights.keys().isdisjoint(layout.shapes):
                rest = {} if strict else layout.views(variable.numpy())
                variable.assign(layout.flatten({**rest, **weights}))
        for name in self._own.keys() & weights.keys():
            self._own[name].assign(weights[name])

    def weights(self) -> dict[str, npt.NDArray[np.float32]]:
        """Copy all weights to NumPy arrays by canonical name."""
        copies = {
            **self._layout.views(self.flat.numpy()),
            **self._fixed_layout.views(self._fixed.numpy()),
            **{name: variable.numpy() for name, variable in self._own.items()},
        }
        return {name: copies[name] for name in self._names}

    def by_name(self, like_trained: list[Variable]) -> dict[str, npt.NDArray[np.float32]]:
        """Copy variables that are laid out as `trained` to NumPy arrays by canonical name."""
        flat, *own = (np.asarray(variable.numpy()) for variable in like_trained)
        copies = {**self._layout.views(flat), **dict(zip(self._own_trained, own, strict=True))}
        return {name: copies[name] for name in self.trained_shapes}

    def like_trained(self, arrays: _Arrays) -> list[npt.NDArray[np.float32]]:
        """Lay arrays by canonical name out as `trained`."""
        return [self._layout.flatten(arrays), *(np.asarray(arrays[name], np.float32) for name in self._own_trained)]

    def __getitem__(self, name: str) -> TFNetwork:
        if name not in self._specs:
            raise KeyError(name)
        return TFNetwork(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def _names_of(self, path: str, leaf: NetworkSpec) -> list[str]:
        return list(self._natives[path].variables if path in self._natives else weight_shapes({path: leaf}))

    def _missing(self, given: _Arrays) -> dict[str, npt.NDArray[np.float32]]:
        """Return the weights that those models made for themselves of which none is given."""
        return {
            name: variable.numpy()
            for native in self._natives.values()
            if native.variables.keys().isdisjoint(given)
            for name, variable in native.variables.items()
        }


def bound(
    networks: Mapping[str, Callable[..., Any]], trained: TFNetworks | None = None, flat: Tensor | None = None
) -> dict[str, Network]:
    """Return networks over the weights as they are now, which are read and split once for all of them.

    Args:
        networks: of one or several `TFNetworks`, by any names; other functions stay as they are.
        trained: those that are in training.
        flat: what to take for their trainable weights.
    """
    owners = {id(network.networks): network.networks for network in networks.values() if isinstance(network, TFNetwork)}
    over_weights = {
        key: owner.bind(flat, is_training=True) if owner is trained else owner.bind() for key, owner in owners.items()
    }
    return {
        name: over_weights[id(network.networks)][network.name] if isinstance(network, TFNetwork) else network
        for name, network in networks.items()
    }
