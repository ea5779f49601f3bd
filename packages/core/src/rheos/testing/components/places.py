"""Places: the installed backends, each in every mode, and gradient steps that can be taken on any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rheos.backend import Adam
from rheos.configuration.run_config import BackendConfig
from rheos.errors import ConfigError
from rheos.plugins import Kind, load_registry, make_backend

if TYPE_CHECKING:
    from rheos.arrays.namespace import Array
    from rheos.backend import Backend, Loss

__all__ = ["MODES", "Place", "Steps", "installed_places"]

MODES = ("eager", "graph")
"""Define-by-run, and compiled."""

_Arrays = dict[str, npt.NDArray[Any]]
_MOMENT = "first_moment/"


@dataclass(frozen=True)
class Place:
    """A backend in one of its modes."""

    backend: str
    mode: str

    def make_backend(self) -> Backend:
        """Make the backend, on the CPU.

        Raises:
            ConfigError: if the backend does not offer the mode, or lacks what it needs for it, such as a compiler.
        """
        return make_backend(BackendConfig(self.backend, mode=self.mode), "cpu")

    def __str__(self) -> str:
        return f"{self.backend} ({self.mode})"


def installed_places(backends: Sequence[str] | None = None, modes: Sequence[str] = MODES) -> tuple[Place, ...]:
    """Return where something can be tried: every backend that is installed, in every mode.

    Args:
        backends: their names; None takes all that are installed.
        modes: some of `MODES`.

    Raises:
        ConfigError: if none is installed.
    """
    names = load_registry(warn=False).names(Kind.BACKEND) if backends is None else backends
    if backends is None and not names:
        raise ConfigError(
            "No backend is installed: pip install rheos-backend-torch, or give backends=() for NumPy alone."
        )
    return tuple(Place(name, mode) for name in names for mode in modes)


class Steps:
    """Gradient steps by the verbs of `rheos.backend.Backend` alone, and the gradients along which they went.

    The optimizer is an Adam that remembers nothing (`beta_1` is 0), so its first moments are the gradients themselves,
    whatever the backend and mode; it moves every weight that has a gradient by about the learning rate.

    Args:
        backend: of the networks.
        loss: what is lowered.
        networks: what is trained, as `build` made them.
        others: networks that the loss calls, too.
    """

    def __init__(self, backend: Backend, loss: Loss, networks: Any, others: Any = MappingProxyType({})) -> None:
        self._backend, self._networks = backend, networks
        self._optimizer = backend.optimizer(Adam(beta_1=0.0), networks)
        self._fresh = self._optimizer.state_dict()
        self._update = backend.update(loss, {**networks, **others}, self._optimizer, max_grad_norm=None)

    @property
    def trained(self) -> tuple[str, ...]:
        """The names of the weights that are trained."""
        return tuple(name.removeprefix(_MOMENT) for name in self._fresh if name.startswith(_MOMENT))

    def reset(self, weights: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Begin anew from these weights."""
        self._backend.load(self._networks, weights)
        self._optimizer.load_state_dict(self._fresh)

    def step(self, batch: Mapping[str, Array], coefficients: Mapping[str, float], learning_rate: float) -> _Arrays:
        """Take a step on a native batch; return its metrics, `loss` and `grad_norm` as they were before it."""
        return self._backend.get(self._update(batch, {**coefficients, "learning_rate": learning_rate}))

    def gradients(self) -> _Arrays:
        """Return the gradients of the last step whose `grad_norm` was finite, by the names of the weights."""
        state = self._optimizer.state_dict()
        return {name: np.array(state[_MOMENT + name]) for name in self.trained}
