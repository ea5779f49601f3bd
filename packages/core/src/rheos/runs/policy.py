"""Policy: acts with the weights of a run, in the spaces of its environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.configuration.settings import from_mapping
from rheos.errors import RunFolderError, ShapeError
from rheos.networks.numpy_networks import NumpyNetworks, acts_in_numpy
from rheos.plugins import load_registry, make_backend, resolve
from rheos.plugins.resolving import settings_class
from rheos.plugins.specs import CONTRACT_VERSION
from rheos.runs.checkpoints import Checkpoint, load_checkpoint, newest_checkpoint
from rheos.runs.endings import in_one_line
from rheos.runs.folder import RunFolder
from rheos.seeds import generator_for
from rheos.spaces import ActionAdapter, ObservationAdapter, Spaces
from rheos.spaces.tree import Leaf, leaves

if TYPE_CHECKING:
    from rheos.backend import Function
    from rheos.plugins.registry import Registry
    from rheos.policies import PolicySpec

__all__ = ["Policy", "load_policy"]


class Policy:
    """Acts with trained weights.

    Made by `load_policy`. Small networks act in NumPy, so that a run trained with torch is played without it.
    """

    def __init__(
        self, spec: PolicySpec, spaces: Spaces, checkpoint: Checkpoint, *, device: str, seed: int, registry: Registry
    ) -> None:
        self.spaces = spaces
        """What it observes and how it acts, as Gymnasium spaces."""
        self.checkpoint = checkpoint
        """The weights it acts with, and what is known about them."""
        self._observations = ObservationAdapter(spaces.observation)
        self._actions = ActionAdapter(spaces.action)
        self._first_leaf = next(leaves(spaces.observation, "observation"))
        self._draw_noise = spec.draw_noise
        self._generator = generator_for(seed, "policy", "noise")
        self._exploit, self._explore = _acting(spec, checkpoint, device, registry)

    def act(self, observation: Any, *, explore: bool = False) -> Any:
        """Choose an action for an observation, or one each for a batch of them.

        Args:
            observation: of the observation space, or with a leading axis of any length.
            explore: draw the action as in training, where the algorithm's policy is random; else its best one.

        Returns:
            An action of the action space, ready for `env.step`; with the leading axis where the observation had one.

        Raises:
            ShapeError: if the observation is neither.

        Example:
            ```python
            policy = rheos.load_policy("runs/ppo-cartpole/20250130-101500-seed0")
            env = gymnasium.make("CartPole-v1")
            observation, _ = env.reset(seed=1)
            observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
            ```
        """
        if _is_batch(self._first_leaf, observation):
            return self._act_on_batch(_map(np.asarray, observation), explore)
        batch = _map(lambda leaf: np.asarray(leaf)[None], observation)
        return _map(lambda leaf: leaf[0], self._act_on_batch(batch, explore))

    def _act_on_batch(self, observations: Any, explore: bool) -> Any:
        encoded = self._observations.encode(observations)
        if explore:
            noise = self._draw_noise(self._generator, len(encoded))
            outputs = self._explore({"observations": encoded, "noise": noise})
        else:
            outputs = self._exploit({"observations": encoded})
        return self._actions.decode(outputs["actions"])


def load_policy(
    run_dir: str | os.PathLike[str], *, device: str = "cpu", seed: int = 0, registry: Registry | None = None
) -> Policy:
    """Load the policy of a run, with its newest weights.

    Args:
        run_dir: the folder of a run, or one of its `checkpoints/<env_steps>` for older weights.
        device: where it acts; on the CPU small networks act in NumPy, without the backend.
        seed: of the noise of `Policy.act(explore=True)`.
        registry: where algorithm and backend are found; by default all installed plugins.

    Raises:
        RunFolderError: if the folder is no run, or the run has no weights that can be used.
        UnknownName: if the algorithm that made it is not installed.
    """
    checkpoint = _find_checkpoint(Path(run_dir))
    manifest = checkpoint.manifest
    if manifest.get("contract") != CONTRACT_VERSION:
        raise RunFolderError(
            f"{checkpoint.path} was saved for contract {manifest.get('contract')}, this Rheos has contract "
            f"{CONTRACT_VERSION}: install the rheos-core that made it."
        )
    registry = registry if registry is not None else load_registry()
    settings = dict(manifest["algo"])
    algorithm = registry.algorithm(settings.pop("name"))
    config = from_mapping(settings_class(algorithm), settings, path="algo")
    spaces = _spaces(checkpoint)
    spec = resolve(algorithm.policy)(spaces, config)
    return Policy(spec, spaces, checkpoint, device=device, seed=seed, registry=registry)


def _find_checkpoint(path: Path) -> Checkpoint:
    if (path / "manifest.json").exists():
        return load_checkpoint(path)
    folder = RunFolder(path)
    folder.read_status()  # refuses what is no run
    return newest_checkpoint(folder.checkpoints_path)


def _spaces(checkpoint: Checkpoint) -> Spaces:
    try:
        return Spaces.from_json(checkpoint.manifest["spaces"])
    except Exception as error:  # Gymnasium and NumPy refuse what is no space in many ways
        raise RunFolderError(
            f"{checkpoint.path} is a broken checkpoint: the 'spaces' of its manifest.json cannot be read: "
            f"{in_one_line(error)}."
        ) from error


def _acting(spec: PolicySpec, checkpoint: Checkpoint, device: str, registry: Registry) -> tuple[_Acting, _Acting]:
    if device == "cpu" and acts_in_numpy(spec.networks):
        networks = NumpyNetworks(spec.networks, checkpoint.weights)
        return _in_numpy(spec.exploit, networks), _in_numpy(spec.explore, networks)
    settings = checkpoint.manifest["backend"]
    config = from_mapping(settings_class(registry.backend(settings["name"])), settings, path="backend")
    backend = make_backend(config, device, registry)
    native = backend.build(spec.networks, checkpoint.weights)
    return backend.infer(spec.exploit, native), backend.infer(spec.explore, native)


_Acting = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def _in_numpy(function: Function, networks: NumpyNetworks) -> _Acting:
    return lambda inputs: function(numpy_xp, networks, inputs)


def _is_batch(leaf: Leaf, observation: Any) -> bool:
    """Tell by one leaf of the observation space whether an observation has a leading axis."""
    shape, single = np.shape(leaf.take(observation)), leaf.space.shape
    if shape == single:
        return False
    if shape[1:] == single and shape:
        return True
    batch = ", ".join(map(str, ("B", *(single or ()))))
    raise ShapeError(f"{leaf.path} has shape {shape}: Policy.act takes {single}, or a batch of them, ({batch}).")


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {name: _map(function, value) for name, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_map(function, value) for value in tree)
    return function(tree)
