"""Native networks: a user's own Keras model, its variables by canonical name, and what it starts from."""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from rheos.errors import ConfigError
from rheos.networks.specs import Native
from rheos_tf.framework import Variable, tf

__all__ = ["KerasNetwork", "seeded"]

_in_use: WeakSet[Any] = WeakSet()
"""Models that belong to networks."""


class KerasNetwork:
    """A Keras model (or layer) as a network: `[...] -> [...]` as it is itself.

    Args:
        path: the network's name.
        spec: makes it.

    Raises:
        ConfigError: if that is no built Keras model of float32 weights of its own, on TensorFlow.
    """

    def __init__(self, path: str, spec: Native) -> None:
        keras: Any = importlib.import_module("keras")
        model = spec.make()
        if not isinstance(model, keras.Layer):
            raise ConfigError(f"network `{path}`: make() gave {type(model).__name__}, expected a Keras model.")
        if keras.backend.backend() != "tensorflow":
            raise ConfigError(
                f"network `{path}`: Keras runs on {keras.backend.backend()}, expected tensorflow: set the environment"
                " variable KERAS_BACKEND=tensorflow."
            )
        if not model.built:
            raise ConfigError(
                f"network `{path}`: the model {model.name} has no weights yet: let make() give it a keras.Input, or"
                " call it once."
            )
        if model in _in_use:
            raise ConfigError(
                f"network `{path}`: {model.name} is in use already: let make() make a new model each time."
            )
        _in_use.add(model)
        self.model = model
        self.variables = _variables(path, model)
        """Those of floats, by canonical name; trained or not."""
        trained = {id(variable.value) for variable in model.trainable_variables}
        self.trained = tuple(name for name, variable in self.variables.items() if id(variable) in trained)
        """The names of those that gradients change."""


def _variables(path: str, model: Any) -> dict[str, Variable]:
    names = _NamesWithin(model)
    variables: dict[str, Variable] = {}
    for variable in model.variables:
        if not tf.as_dtype(variable.dtype).is_floating:  # the state of a random generator
            continue
        name = f"{path}/{names.of(variable.path)}"
        if variable.dtype != "float32":
            raise ConfigError(f"network `{path}`: `{name}` is {variable.dtype}, expected float32.")
        if name in variables:
            raise ConfigError(f"network `{path}`: two variables are called `{name}`: give their layers names.")
        variables[name] = variable.value
    return variables


class _NamesWithin:
    """The paths of a model's variables, with the numbers that Keras gives to layers counted within the model.

    Keras counts all layers that a process has made, so a model's second copy has other paths than the first one.
    """

    def __init__(self, model: Any) -> None:
        layers = model._flatten_layers()
        self._bases = {layer.name: base for layer in layers if (base := _counted_base(layer))}
        self._counts: dict[str, int] = {}
        self._renamed: dict[str, str] = {}

    def of(self, path: str) -> str:
        return "/".join(self._renaming(part) for part in path.split("/"))

    def _renaming(self, part: str) -> str:
        base = self._bases.get(part)
        if base is None and re.fullmatch(r"variable(_\d+)?", part):  # one that was made without a name
            base = "variable"
        if base is None:
            return part
        if part not in self._renamed:
            count = self._counts.get(base, 0)
            self._counts[base] = count + 1
            self._renamed[part] = f"{base}_{count}" if count else base
        return self._renamed[part]


def _counted_base(layer: Any) -> str | None:
    """Return what Keras calls layers of this kind, where the name of this one is that and perhaps a number."""
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", type(layer).__name__))
    base = re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()
    return base if re.fullmatch(rf"{re.escape(base)}(_\d+)?", layer.name) else None


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed what Keras' initial weights are drawn from.

    Keras takes its seeds from Python's own generator, which is left as it was. What a model draws by `tf.random` itself
    comes from TensorFlow's global generator: that is seeded, too, and stays so, since TensorFlow cannot tell its state.
    """
    state = random.getstate()
    random.seed(seed)
    tf.random.set_seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
