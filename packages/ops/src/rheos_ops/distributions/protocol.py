"""Distribution: what every family of distributions over actions offers, and the checks that all of them share."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.arrays.shapes import are_alike
from rheos.errors import ShapeError

__all__ = ["Distribution", "check_actions", "check_params"]


class Distribution(Protocol):
    """A family of distributions over actions; one of them for each row of parameters.

    Its parameters are one array `[..., num_outputs + num_log_stds]`: first what depends on the observation and a
    network has to give, then logs of standard deviations, which may be a parameter of their own.

    Actions are encoded as `rheos.spaces.ActionAdapter` takes them. Noise comes in as an array, drawn by NumPy
    wherever the policy acts, so every backend samples alike.
    """

    @property
    def num_outputs(self) -> int:
        """How many parameters are outputs of a policy network."""
        ...

    @property
    def num_log_stds(self) -> int:
        """How many logs of standard deviations follow them."""
        ...

    @property
    def action_shape(self) -> tuple[int, ...]:
        """The shape of one encoded action."""
        ...

    @property
    def is_discrete(self) -> bool:
        """Whether encoded actions are int32, else they are float32."""
        ...

    def draw_noise(self, generator: np.random.Generator, num: int) -> npt.NDArray[np.float32]:
        """Draw the noise of `num` samples, `[num, num_outputs]`, always finite."""
        ...

    def sample(self, xp: ArrayNamespace, params: Array, noise: Array) -> Array:
        """Return the actions that the noise means under these parameters, `[..., *action_shape]`."""
        ...

    def mode(self, xp: ArrayNamespace, params: Array) -> Array:
        """Return the action to take when nothing is to be explored, `[..., *action_shape]`."""
        ...

    def log_prob(self, xp: ArrayNamespace, params: Array, actions: Array) -> Array:
        """Return the log of the probability or density of actions, `[...]`."""
        ...

    def entropy(self, xp: ArrayNamespace, params: Array) -> Array:
        """Return the entropy in nats, `[...]`."""
        ...

    def kl(self, xp: ArrayNamespace, p: Array, q: Array) -> Array:
        """Return the divergence KL(p || q) in nats, `[...]`, of two arrays of parameters."""
        ...


def check_params(distribution: Distribution, params: Array) -> None:
    """Require as many parameters as the distribution has.

    Raises:
        ShapeError: naming the distribution, and what it got.
    """
    size = distribution.num_outputs + distribution.num_log_stds
    if params.shape[-1:] != (size,):
        raise ShapeError(
            f"`params` has shape {tuple(params.shape)}, expected (..., {size}): {distribution} takes"
            f" {distribution.num_outputs} outputs and {distribution.num_log_stds} log standard deviations."
        )


def check_actions(distribution: Distribution, params: Array, actions: Array) -> None:
    """Require the parameters, and one action for each row of them, so that nothing broadcasts into nonsense.

    Raises:
        ShapeError: naming the distribution, and what it got.
    """
    check_params(distribution, params)
    expected = (*params.shape[:-1], *distribution.action_shape)
    if not are_alike(actions.shape, expected):
        raise ShapeError(
            f"`actions` has shape {tuple(actions.shape)}, expected {expected}: {distribution} takes one action"
            f" of shape {distribution.action_shape} for each row of `params` {tuple(params.shape)}."
        )
