"""Acting: the functions of a policy, from NumPy arrays to NumPy arrays, with the weights that were loaded last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.networks.numpy_networks import NumpyNetworks, acts_in_numpy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rheos.backend import Backend, Function
    from rheos.policies import PolicySpec

__all__ = ["Act", "Acting"]

Act = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From NumPy columns to NumPy columns."""


class Acting:
    """The functions of a policy: in NumPy where its networks are small, so that no framework is imported.

    Args:
        policy: how to act.
        weights: by canonical name.
        make_backend: called where the networks are too large for NumPy.
        in_numpy: whether NumPy may act at all; not where another device than the CPU was asked for.

    Raises:
        ShapeError: if a weight is missing, unknown or misshapen.
    """

    explore: Act
    exploit: Act
    annotate: Act | None
    value: Act | None

    def __init__(
        self,
        policy: PolicySpec,
        weights: Mapping[str, npt.NDArray[np.float32]],
        make_backend: Callable[[], Backend],
        *,
        in_numpy: bool = True,
    ) -> None:
        prepared: Callable[[Function], Act]
        self._load: Callable[[Mapping[str, npt.NDArray[np.float32]]], None]
        if in_numpy and acts_in_numpy(policy.networks):
            networks = NumpyNetworks(policy.networks, weights)
            self._load, prepared = networks.load, partial(_in_numpy, networks)
        else:
            backend = make_backend()
            native = backend.build(policy.networks, weights)
            self._load, prepared = partial(backend.load, native), partial(backend.infer, networks=native)

        self.explore, self.exploit = prepared(policy.explore), prepared(policy.exploit)
        self.annotate = None if policy.annotate is None else prepared(policy.annotate)
        self.value = None if policy.value is None else prepared(policy.value)

    def load(self, weights: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Act with these weights from now on.

        Raises:
            ShapeError: if a weight is missing, unknown or misshapen; then nothing has changed.
        """
        self._load(weights)


def _in_numpy(networks: NumpyNetworks, function: Function) -> Act:
    return lambda columns: function(numpy_xp, networks, columns)
