"""Policies whose right answers are known in the environments of `rheos.testing.environments`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Networks
from rheos.networks.specs import Parameter
from rheos.policies import PolicySpec
from rheos.reports import Weights

__all__ = ["counting_policy", "counting_weights", "remembering_policy"]


def counting_policy() -> PolicySpec:
    """Make a policy that takes 0 or 1 at random, and values an observation as its first number plus a learned bias.

    In a `CountingEnv`, where the observation is the number of steps, the value of what an action led to is therefore
    one more than that of what it was taken in, whatever ended there.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp
        >>> from rheos.networks.numpy_networks import NumpyNetworks
        >>> policy = counting_policy()
        >>> networks = NumpyNetworks(policy.networks, counting_weights(bias=0.5).arrays)
        >>> policy.value(numpy_xp, networks, {"observations": np.array([[3.0], [4.0]], np.float32)})["values"]
        array([3.5, 4.5], dtype=float32)
    """
    return PolicySpec({"bias": Parameter(())}, _act, _act, _draw_noise, value=_value)


def counting_weights(bias: float = 0.0, version: int = 0) -> Weights:
    """Return weights for a `counting_policy` or a `remembering_policy`."""
    return Weights(version, {"bias/value": np.array(bias, np.float32)})


def remembering_policy() -> PolicySpec:
    """Make a policy whose memory is one number: in how many steps of the episode it has acted.

    In a `CountingEnv`, what it remembers is therefore the observation. Its action is whether that is odd.

    Example:
        >>> from rheos.arrays.numpy_namespace import numpy_xp
        >>> columns = {"memory": np.array([[3.0], [4.0]], np.float32), "is_first": np.array([False, True])}
        >>> remembering_policy().exploit(numpy_xp, {}, columns)
        {'actions': array([1, 0], dtype=int32), 'memory': array([[4.],
               [1.]], dtype=float32)}
    """
    return PolicySpec({"bias": Parameter(())}, _remember, _remember, _draw_noise, memory_size=1)


def _act(xp: ArrayNamespace, networks: Networks, columns: Mapping[str, Array]) -> dict[str, Array]:
    return {"actions": xp.astype(columns["noise"] < 0.5, xp.int32)}


def _remember(xp: ArrayNamespace, networks: Networks, columns: Mapping[str, Array]) -> dict[str, Array]:
    count = xp.where(xp.expand_dims(columns["is_first"], axis=-1), 0.0, columns["memory"])
    return {"actions": xp.astype(count[:, 0] % 2.0, xp.int32), "memory": count + 1.0}


def _value(xp: ArrayNamespace, networks: Networks, columns: Mapping[str, Array]) -> dict[str, Array]:
    observations = columns["observations"]
    return {"values": xp.astype(observations[:, 0], xp.float32) + networks["bias"](observations)}


def _draw_noise(generator: np.random.Generator, num: int) -> npt.NDArray[np.float32]:
    return generator.random(num, np.float32)
