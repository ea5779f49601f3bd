"""Every network spec, with the space of its inputs."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from rheos.networks.initial import initial_weights
from rheos.networks.specs import (
    CNN,
    GRU,
    LSTM,
    MLP,
    Activation,
    Heads,
    NetworkSpec,
    Normalizer,
    Parameter,
    ResNet,
    Tree,
)


def numbers(*shape: int) -> gym.Space[Any]:
    return gym.spaces.Box(-np.inf, np.inf, shape, np.float32)


IMAGE = numbers(9, 8, 2)
NETWORKS: dict[str, tuple[NetworkSpec, gym.Space[Any]]] = {
    "MLP": (MLP(4, 3, (8, 8)), numbers(4)),
    "MLP, a trunk": (MLP(4, 8, (8,), Activation.RELU, activates_output=True), numbers(4)),
    "CNN": (CNN((9, 8, 2), 5, ((4, 3, 2), (3, 2, 1))), IMAGE),
    "CNN, tanh": (CNN((9, 8, 2), 5, ((4, 3, 1),), Activation.TANH), IMAGE),
    "ResNet": (ResNet((9, 8, 2), 5, (3, 4), 1), IMAGE),
    "LSTM": (LSTM(4, 3), numbers(4)),
    "GRU": (GRU(4, 3), numbers(4)),
    "Parameter": (Parameter((2, 3), 0.5), numbers(4)),
    "Normalizer": (Normalizer(4, limit=1.5), numbers(4)),
    "Tree": (
        Tree({"eye": CNN((9, 8, 2), 5, ((4, 3, 2),)), "speed": MLP(4, 3, ()), "scaled": Normalizer(2)}),
        gym.spaces.Dict(eye=IMAGE, speed=numbers(4), scaled=numbers(2)),
    ),
    "Heads": (
        Heads(
            Tree({"speed": MLP(4, 8, ()), "gear": MLP(3, 8, ())}), {"policy": MLP(16, 2, (8,)), "value": MLP(16, 1, ())}
        ),
        gym.spaces.Dict(speed=numbers(4), gear=gym.spaces.Discrete(3)),
    ),
}


def random_weights(specs: dict[str, NetworkSpec], seed: int) -> dict[str, np.ndarray]:
    """Weights none of which is 0 or 1, as biases are at the start."""
    draw = np.random.default_rng(seed)
    start = initial_weights(specs, draw)
    return {name: array + draw.uniform(-0.2, 0.2, array.shape).astype(np.float32) for name, array in start.items()}


def call(spec: NetworkSpec, network: Any, batch: dict[str, Any], name: str) -> dict[str, Any]:
    """Call a network on the columns of `draw`; name its outputs."""
    match spec:
        case LSTM() | GRU():
            outputs, state = network(batch[f"{name}/x"], batch[f"{name}/state"], batch[f"{name}/is_first"])
            return {f"{name}/outputs": outputs, f"{name}/state": state}
        case Heads():
            parts = {"speed": batch[f"{name}/speed"], "gear": batch[f"{name}/gear"]}
            return {f"{name}/{head}": output for head, output in network(parts).items()}
        case Tree():
            return {f"{name}/outputs": network({part: batch[f"{name}/{part}"] for part in spec.parts})}
    return {f"{name}/outputs": network(batch[f"{name}/x"])}


def draw(seed: int, steps: int, rows: int) -> dict[str, np.ndarray]:
    """Inputs for all networks: `[T, B, ...]`; where an image is seen, large ones, too."""
    generator = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {}
    for name, (spec, space) in NETWORKS.items():
        parts = space.spaces if isinstance(space, gym.spaces.Dict) else {"x": space}
        for part, own in parts.items():
            size = generator.choice([1e-3, 1.0, 10.0])
            shape = (steps, rows, *(own.shape or (own.n,)))
            columns[f"{name}/{part}"] = (size * generator.standard_normal(shape)).astype(np.float32)
        if isinstance(spec, LSTM | GRU):
            columns[f"{name}/state"] = generator.standard_normal((rows, spec.state_size)).astype(np.float32)
            columns[f"{name}/is_first"] = generator.random((steps, rows)) < generator.choice([0.0, 0.3, 1.0])
    return columns
