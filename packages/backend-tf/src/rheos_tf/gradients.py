"""A step along the gradient of a loss: the loss, clipping by global norm and the optimizer, as one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rheos_tf.framework import Tensor, tf
from rheos_tf.namespace import raw
from rheos_tf.networks import bound

if TYPE_CHECKING:
    from rheos.arrays.namespace import ArrayNamespace
    from rheos.backend import Loss, Networks
    from rheos_tf.optimizers import TFOptimizer

__all__ = ["gradient_step"]

_Step = Callable[[Mapping[str, Tensor], Mapping[str, Any]], dict[str, Tensor]]


def gradient_step(
    loss: Loss, xp: ArrayNamespace, networks: Networks, optimizer: TFOptimizer, max_grad_norm: float | None
) -> _Step:
    """Return `(batch, coefficients) -> metrics`, which changes weights and optimizer.

    What is done about a gradient that is not finite is decided on the device, so nothing waits for it: the gradient
    becomes 0 and the optimizer's step none.
    """
    trained = optimizer.networks

    def step(batch: Mapping[str, Tensor], coefficients: Mapping[str, Any]) -> dict[str, Tensor]:
        flat, *own = trained.trained
        before = [variable.read_value() for variable in trained.moved_by_models]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            sources = [flat.read_value(), *own]
            tape.watch(sources)
            value, metrics = loss(xp, bound(networks, trained, sources[0]), batch, coefficients)
        gradients = tape.gradient(value, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]  # that of an embedding is sparse
        grad_norm = _norm(gradients)
        is_finite = raw.IsFinite(x=grad_norm)
        scale = 1.0 if max_grad_norm is None else raw.Minimum(x=max_grad_norm / (grad_norm + 1e-6), y=1.0)
        scale = tf.where(is_finite, scale, 0.0)
        gradients = [raw.MulNoNan(x=gradient, y=scale) for gradient in gradients]  # NaN times 0 is 0 there
        optimizer.step(gradients, coefficients["learning_rate"], is_finite)
        for variable, value_before in zip(trained.moved_by_models, before, strict=True):
            variable.assign(tf.where(is_finite, variable, value_before))
        return {**metrics, "loss": value, "grad_norm": grad_norm}

    return step


def _norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the norm of all gradients together; in float32 the squares of what exceeds 1e19 would be infinite."""
    halves = [raw.L2Loss(t=tf.cast(gradient, tf.float64)) for gradient in gradients]
    return tf.cast(tf.sqrt(2.0 * tf.add_n(halves)), tf.float32)
