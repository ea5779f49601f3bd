"""Network specs as functions over their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rheos.networks.recurrent import gru, lstm
from rheos.networks.specs import (
    CNN,
    GRU,
    LSTM,
    MLP,
    Activation,
    Heads,
    Native,
    NetworkSpec,
    Normalizer,
    Parameter,
    ResNet,
    Tree,
)
from rheos.networks.weights import layer_names, parts_of, weight_shapes
from rheos_tf.framework import Tensor, tf
from rheos_tf.namespace import filled, integers, raw, tf_xp

__all__ = ["Network", "make_network"]

Network = Callable[..., Any]
"""A network over weights that it holds, called as its spec says."""

_Layer = tuple[Tensor, Tensor]
"""Kernel and bias."""


def make_network(
    path: str, spec: NetworkSpec, weights: Mapping[str, Tensor], natives: Mapping[str, Network]
) -> Network:
    """Make the network of a spec.

    Args:
        path: the network's name.
        spec: what to make.
        weights: of all networks, by canonical name.
        natives: the users' own models, by path (see `rheos.networks.weights.leaf_specs`).
    """
    match spec:
        case Native():
            return natives[path]
        case Parameter():
            value = weights[f"{path}/value"]
            return lambda _: value
        case Normalizer():
            mean, std, limit = weights[f"{path}/mean"], weights[f"{path}/std"], spec.limit
            return lambda x: raw.ClipByValue(t=(x - mean) / std, clip_value_min=-limit, clip_value_max=limit)
        case MLP():
            return _mlp(spec, _layers(path, spec, weights))
        case CNN():
            return _over_images(spec, _cnn(spec, _layers(path, spec, weights)))
        case ResNet():
            return _over_images(spec, _resnet(spec, _layers(path, spec, weights)))
        case LSTM() | GRU():
            run = lstm if isinstance(spec, LSTM) else gru
            own = {name.removeprefix(f"{path}/"): weights[name] for name in weight_shapes({path: spec})}
            return lambda x, state, is_first: run(tf_xp, own, x, state, is_first)
        case Tree():
            parts = _parts(path, spec, weights, natives)
            return lambda inputs: tf.concat([part(inputs[name]) for name, part in parts.items()], -1)
        case Heads():
            trunk, *heads = _parts(path, spec, weights, natives).items()
            return lambda inputs: _each(heads, trunk[1](inputs))


def _parts(
    path: str, spec: Tree | Heads, weights: Mapping[str, Tensor], natives: Mapping[str, Network]
) -> dict[str, Network]:
    return {name: make_network(f"{path}/{name}", part, weights, natives) for name, part in parts_of(spec).items()}


def _each(heads: Sequence[tuple[str, Network]], x: Tensor) -> dict[str, Any]:
    return {name: head(x) for name, head in heads}


def _layers(path: str, spec: MLP | CNN | ResNet, weights: Mapping[str, Tensor]) -> list[_Layer]:
    return [(weights[f"{path}/{layer}/kernel"], weights[f"{path}/{layer}/bias"]) for layer in layer_names(spec)]


def _mlp(spec: MLP, layers: list[_Layer]) -> Network:
    activate = _ACTIVATIONS[spec.activation]
    num_activated = len(layers) if spec.activates_output else len(layers) - 1

    def forward(x: Tensor) -> Tensor:
        for index, layer in enumerate(layers):
            x = _dense(x, layer)
            if index < num_activated:
                x = activate(x)
        return x

    return forward


def _cnn(spec: CNN, layers: list[_Layer]) -> Network:
    activate = _ACTIVATIONS[spec.activation]
    *convolutions, dense = layers

    def forward(x: Tensor) -> Tensor:
        for (_, _, stride), layer in zip(spec.filters, convolutions, strict=True):
            x = activate(_convolve(x, layer, stride, "VALID"))
        return activate(_dense(_flat(x), dense))

    return forward


def _resnet(spec: ResNet, layers: list[_Layer]) -> Network:
    *convolutions, dense = layers

    def forward(x: Tensor) -> Tensor:
        remaining = iter(convolutions)
        for _ in spec.channels:
            x = _halve(_convolve(x, next(remaining), 1, "SAME"))
            for _ in range(spec.num_blocks):
                y = _convolve(raw.Relu(features=x), next(remaining), 1, "SAME")
                x = x + _convolve(raw.Relu(features=y), next(remaining), 1, "SAME")
        return raw.Relu(features=_dense(_flat(raw.Relu(features=x)), dense))

    return forward


def _over_images(spec: CNN | ResNet, forward: Network) -> Network:
    """Take leading axes of any number as one."""

    def over_images(x: Tensor) -> Tensor:
        if len(x.shape) == 4:
            return forward(x)
        y = forward(raw.Reshape(tensor=x, shape=integers((-1, *spec.shape))))
        return raw.Reshape(tensor=y, shape=filled((*x.shape[:-3], spec.outputs), x))

    return over_images


def _dense(x: Tensor, layer: _Layer) -> Tensor:
    kernel, bias = layer
    product = tf_xp.matmul(x, kernel)
    return raw.BiasAdd(value=product, bias=bias) if len(x.shape) > 1 else product + bias


def _convolve(x: Tensor, layer: _Layer, stride: int, padding: str) -> Tensor:
    """Convolve; with a kernel of 3 x 3 and stride 1, "SAME" pads by one pixel on each side."""
    kernel, bias = layer
    product = raw.Conv2D(input=x, filter=kernel, strides=[1, stride, stride, 1], padding=padding)
    return raw.BiasAdd(value=product, bias=bias)


def _halve(x: Tensor) -> Tensor:
    """Take the maximum over 3 x 3 pixels with stride 2, padded by one pixel on each side, where "SAME" would not."""
    padding = [0, 0, 1, 1, 1, 1, 0, 0]
    return raw.MaxPool(input=x, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="EXPLICIT", explicit_paddings=padding)


def _flat(x: Tensor) -> Tensor:
    """Lay each image in a row, in the order height, width, channels."""
    _, height, width, channels = x.shape
    return raw.Reshape(tensor=x, shape=integers((-1, height * width * channels)))


_ACTIVATIONS: Mapping[Activation, Callable[[Tensor], Tensor]] = {
    Activation.TANH: lambda x: raw.Tanh(x=x),
    Activation.RELU: lambda x: raw.Relu(features=x),
}
