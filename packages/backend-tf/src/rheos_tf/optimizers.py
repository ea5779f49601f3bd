"""Optimizers over the trainable weights of some networks, by the formulas that torch has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.backend import SGD, Adam, AdamW, OptimizerSpec, RMSProp
from rheos.networks.weights import check_arrays
from rheos_tf.framework import Tensor, tf
from rheos_tf.networks import TFNetworks

__all__ = ["TFSGD", "TFAdam", "TFOptimizer", "TFRMSProp", "make_optimizer"]

_State = dict[str, Tensor]


class TFOptimizer(ABC):
    """What all optimizers have: the networks, and a state of variables that are laid out as their trained ones.

    Args:
        networks: whose trainable weights are moved.
        names: of the parts of the state; they start at 0.
    """

    def __init__(self, networks: TFNetworks, names: tuple[str, ...]) -> None:
        self.networks = networks
        self._state = {
            name: [tf.Variable(tf.zeros(weights.shape), trainable=False) for weights in networks.trained]
            for name in names
        }
        self._steps = tf.Variable(0, trainable=False, dtype=tf.int64)

    def step(self, gradients: list[Tensor], learning_rate: Any, is_taken: Tensor) -> None:
        """Take a step along gradients, one for each of `networks.trained`; where `is_taken` is False, change nothing.

        Then the gradients must be 0. The decision stays on the device, so nothing waits for it.
        """
        learning_rate = tf.where(is_taken, learning_rate, 0.0)
        steps = self._steps.read_value()
        schedule = self._scalars(tf.cast(steps + 1, tf.float64), is_taken)
        for index, (variable, gradient) in enumerate(zip(self.networks.trained, gradients, strict=True)):
            state = {name: variables[index].read_value() for name, variables in self._state.items()}
            weights, state = self._moved(variable.read_value(), gradient, state, learning_rate, schedule)
            variable.assign(weights)
            for name, tensor in state.items():
                self._state[name][index].assign(tensor)
        self._steps.assign(steps + tf.cast(is_taken, tf.int64))

    @abstractmethod
    def _scalars(self, steps: Tensor, is_taken: Tensor) -> tuple[Tensor, ...]:
        """Return what a step's formula needs beside the learning rate; `steps`, float64, counts this one."""

    @abstractmethod
    def _moved(
        self, weights: Tensor, gradient: Tensor, state: _State, learning_rate: Tensor, scalars: tuple[Tensor, ...]
    ) -> tuple[Tensor, _State]:
        """Return weights and state after a step; with learning rate and gradient 0 they are what they were."""

    def state_dict(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return `steps`, and `<name>/<weight>` for each part of the state and each weight."""
        return {
            "steps": np.array(self._steps.numpy(), np.int64),
            **{
                f"{name}/{weight}": array
                for name, variables in self._state.items()
                for weight, array in self.networks.by_name(variables).items()
            },
        }

    def load_state_dict(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take a state that `state_dict` gave, here or on another backend.

        Raises:
            ShapeError: if an array is missing, unknown or misshapen; then nothing has changed.
        """
        weights = self.networks.trained_shapes
        check_arrays(
            state, {"steps": (), **{f"{name}/{key}": shape for name in self._state for key, shape in weights.items()}}
        )
        for name, variables in self._state.items():
            arrays = self.networks.like_trained({weight: state[f"{name}/{weight}"] for weight in weights})
            for variable, array in zip(variables, arrays, strict=True):
                variable.assign(array)
        self._steps.assign(int(state["steps"]))


class TFAdam(TFOptimizer):
    """Adam or AdamW; the state is `first_moment` and `second_moment`."""

    def __init__(self, spec: Adam | AdamW, networks: TFNetworks) -> None:
        super().__init__(networks, ("first_moment", "second_moment"))
        self._spec = spec
        self._weight_decay = spec.weight_decay if isinstance(spec, AdamW) else 0.0

    def _scalars(self, steps: Tensor, is_taken: Tensor) -> tuple[Tensor, ...]:
        spec = self._spec
        # In float64: 1 - β₂ᵗ of the first steps would lose half of its digits in float32.
        correction_1 = tf.cast(1.0 - spec.beta_1**steps, tf.float32)
        root_correction_2 = tf.cast(tf.sqrt(1.0 - spec.beta_2**steps), tf.float32)
        return (correction_1, root_correction_2, *_average(spec.beta_1, is_taken), *_average(spec.beta_2, is_taken))

    def _moved(
        self, weights: Tensor, gradient: Tensor, state: _State, learning_rate: Tensor, scalars: tuple[Tensor, ...]
    ) -> tuple[Tensor, _State]:
        correction_1, root_correction_2, keep_1, add_1, keep_2, add_2 = scalars
        m = keep_1 * state["first_moment"] + add_1 * gradient
        v = keep_2 * state["second_moment"] + add_2 * tf.square(gradient)
        if self._weight_decay:
            weights = weights * (1.0 - learning_rate * self._weight_decay)
        root = tf.sqrt(v) / root_correction_2 + self._spec.epsilon
        return weights - (learning_rate / correction_1) * m / root, {"first_moment": m, "second_moment": v}


class TFRMSProp(TFOptimizer):
    """RMSProp; the state is `square_average`, `gradient_average` where it is centered, `momentum` where it has one."""

    def __init__(self, spec: RMSProp, networks: TFNetworks) -> None:
        is_used = {"square_average": True, "gradient_average": spec.is_centered, "momentum": spec.momentum > 0}
        super().__init__(networks, tuple(name for name, used in is_used.items() if used))
        self._spec = spec

    def _scalars(self, steps: Tensor, is_taken: Tensor) -> tuple[Tensor, ...]:
        return (*_average(self._spec.decay, is_taken), tf.where(is_taken, self._spec.momentum, 1.0))

    def _moved(
        self, weights: Tensor, gradient: Tensor, state: _State, learning_rate: Tensor, scalars: tuple[Tensor, ...]
    ) -> tuple[Tensor, _State]:
        keep, add, momentum = scalars
        s = keep * state["square_average"] + add * tf.square(gradient)
        moved = {"square_average": s}
        if self._spec.is_centered:
            mean = keep * state["gradient_average"] + add * gradient
            moved["gradient_average"] = mean
            s = s - tf.square(mean)
        step = gradient / (tf.sqrt(s) + self._spec.epsilon)
        if self._spec.momentum:
            step = momentum * state["momentum"] + step
            moved["momentum"] = step
        return weights - learning_rate * step, moved


class TFSGD(TFOptimizer):
    """Gradient descent; the state is `momentum` where it has one."""

    def __init__(self, spec: SGD, networks: TFNetworks) -> None:
        super().__init__(networks, ("momentum",) if spec.momentum else ())
        self._spec = spec

    def _scalars(self, steps: Tensor, is_taken: Tensor) -> tuple[Tensor, ...]:
        return (tf.where(is_taken, self._spec.momentum, 1.0),)

    def _moved(
        self, weights: Tensor, gradient: Tensor, state: _State, learning_rate: Tensor, scalars: tuple[Tensor, ...]
    ) -> tuple[Tensor, _State]:
        (momentum,) = scalars
        if not self._spec.momentum:
            return weights - learning_rate * gradient, {}
        v = momentum * state["momentum"] + gradient  # at first 0, so that the first v is g
        return weights - learning_rate * v, {"momentum": v}


def make_optimizer(spec: OptimizerSpec, networks: TFNetworks) -> TFOptimizer:
    """Make the optimizer that a spec describes, over every trainable weight of the networks."""
    match spec:
        case Adam() | AdamW():
            return TFAdam(spec, networks)
        case RMSProp():
            return TFRMSProp(spec, networks)
        case SGD():
            return TFSGD(spec, networks)


def _average(decay: float, is_taken: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors of what a running average was and of what is new: 1 and 0 where no step is taken."""
    return tf.where(is_taken, decay, 1.0), tf.where(is_taken, 1.0 - decay, 0.0)
