"""Policy: acts with the weights of a run, in the spaces of its environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rheos.acting import Acting
from rheos.configuration.settings import from_mapping
from rheos.errors import RunFolderError, ShapeError
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
    import numpy.typing as npt

    from rheos.backend import Backend
    from rheos.plugins.registry import Registry
    from rheos.policies import PolicySpec

__all__ = ["Policy", "TrainedPolicy", "load_policy"]


class Policy:
    """Acts in the spaces of an environment.

    A policy with a memory remembers from one call of `act` to the next, row by row of a batch: call `reset` where
    episodes begin.

    Args:
        spec: how the algorithm acts.
        spaces: what is observed, and what is done.
        acting: the functions of `spec` with weights; who holds it may load others at any time.
        seed: of the noise of `act(explore=True)`.
    """

    def __init__(self, spec: PolicySpec, spaces: Spaces, acting: Acting, *, seed: int = 0) -> None:
        self.spaces = spaces
        """What it observes and how it acts, as Gymnasium spaces."""
        self.observations = ObservationAdapter(spaces.observation, spaces.action)
        """How it encodes what it observes."""
        self._acting = acting
        self._actions = ActionAdapter(spaces.action)
        self._leaves = tuple(leaves(spaces.observation, "observation"))
        self._memory_size = spec.memory_size
        self._remembered: dict[str, npt.NDArray[Any]] | None = None
        self._draw_noise = spec.draw_noise
        self._generator = generator_for(seed, "policy", "noise")

    def act(self, observation: Any, *, explore: bool = False) -> Any:
        """Choose an action for an observation, or one each for a batch of them.

        Args:
            observation: of the observation space, or with a leading axis of any length; of a Dict or Tuple space a
                dict or tuple of such arrays.
            explore: draw the action as in training, where the algorithm's policy is random; else its best one.

        Returns:
            An action of the action space, ready for `env.step`; with the leading axis where the observation had one.

        Raises:
            ShapeError: if the observation is neither, or the policy remembers another number of them.

        Example:
            ```python
            policy = rheos.load_policy("runs/ppo-cartpole/20250130-101500-seed0")
            env = gymnasium.make("CartPole-v1")
            observation, _ = env.reset(seed=1)
            policy.reset()
            observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
            ```
        """
        if _length_of_batch(self._leaves, observation) is not None:
            return self._act_on_batch(_map(np.asarray, observation), explore)
        batch = _map(lambda leaf: np.asarray(leaf)[None], observation)
        return _map(lambda leaf: leaf[0], self._act_on_batch(batch, explore))

    def act_on_columns(self, columns: Mapping[str, Any], *, explore: bool = False) -> Any:
        """Choose an action each for a batch of observations that `observations.encode` has encoded.

        Raises:
            ShapeError: if the policy remembers another number of them.
        """
        num = len(next(iter(columns.values())))
        if self._memory_size:
            columns = {**columns, **self._recall(num)}
        if explore:
            outputs = self._acting.explore({**columns, "noise": self._draw_noise(self._generator, num)})
        else:
            outputs = self.exploit(columns)
        if self._memory_size:
            self._remembered = {"memory": outputs["memory"], "is_first": np.zeros(num, np.bool_)}
        return self._actions.decode(outputs["actions"])

    def exploit(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the policy gives for encoded observations when it is played, `actions` encoded, too.

        Nothing is remembered: a policy with a memory also takes it, and gives it, as `PolicySpec` says.
        """
        return self._acting.exploit(columns)

    def reset(self, ended: Any = None) -> None:
        """Forget what was before: episodes begin with the next observations. Without a memory there is nothing to do.

        Args:
            ended: which rows of the batch forget, bool `[B]`; None: all, and the next batch may have another length.

        Raises:
            ShapeError: if `ended` has another length than the batch that is remembered.
        """
        if ended is None:
            self._remembered = None
        elif self._remembered is not None:
            is_first = self._remembered["is_first"]
            if np.shape(ended) != is_first.shape:
                raise ShapeError(
                    f"ended: got the shape {np.shape(ended)}, expected {is_first.shape}: one for each observation of "
                    "the last call of Policy.act."
                )
            self._remembered["is_first"] = is_first | np.asarray(ended, np.bool_)

    def _recall(self, num: int) -> dict[str, npt.NDArray[Any]]:
        """Return what the policy has to know of the steps before."""
        if self._remembered is None:
            return {"memory": np.zeros((num, self._memory_size), np.float32), "is_first": np.ones(num, np.bool_)}
        known = len(self._remembered["is_first"])
        if num != known:
            raise ShapeError(
                f"Policy.act got {_in_words(num)}, and remembers {_in_words(known)}: call Policy.reset() where other "
                "episodes begin."
            )
        return self._remembered

    def _act_on_batch(self, observations: Any, explore: bool) -> Any:
        return self.act_on_columns(self.observations.encode(observations), explore=explore)


class TrainedPolicy(Policy):
    """A policy with the weights of a checkpoint; made by `load_policy`.

    Small networks act in NumPy, so that a run trained with torch is played without it.
    """

    def __init__(
        self,
        spec: PolicySpec,
        spaces: Spaces,
        checkpoint: Checkpoint,
        *,
        backend: Mapping[str, Any] | None,
        device: str,
        seed: int,
        registry: Registry,
    ) -> None:
        self.spec = spec
        """Its networks, and how it acts."""
        self.checkpoint = checkpoint
        """The weights it acts with, and what is known about them."""

        def its_backend() -> Backend:
            settings = _backend_settings(backend or {}, checkpoint)
            config = from_mapping(settings_class(registry.backend(settings["name"])), settings, path="backend")
            return make_backend(config, device, registry)

        in_numpy = backend is None and device == "cpu"
        super().__init__(spec, spaces, Acting(spec, checkpoint.weights, its_backend, in_numpy=in_numpy), seed=seed)


def load_policy(
    run_dir: str | os.PathLike[str],
    *,
    backend: str | Mapping[str, Any] | None = None,
    device: str = "cpu",
    seed: int = 0,
    registry: Registry | None = None,
) -> TrainedPolicy:
    """Load the policy of a run, with its newest weights.

    Args:
        run_dir: the folder of a run, or one of its `checkpoints/<env_steps>` for older weights.
        backend: which one acts, by its name or with settings, whichever one trained; without a name, that of the run.
            By default small networks act in NumPy, without any, and others on that of the run.
        device: where it acts; with another one than the CPU, nothing acts in NumPy.
        seed: of the noise of `Policy.act(explore=True)`.
        registry: where algorithm and backend are found; by default all installed plugins.

    Raises:
        RunFolderError: if the folder is no run, or the run has no weights that can be used.
        UnknownName: if the algorithm that made it, or the backend, is not installed.
        ConfigError: if a setting of the backend is wrong.
    """
    checkpoint = find_checkpoint(Path(run_dir))
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
    if isinstance(backend, str):
        backend = {"name": backend}
    return TrainedPolicy(spec, spaces, checkpoint, backend=backend, device=device, seed=seed, registry=registry)


def find_checkpoint(path: Path) -> Checkpoint:
    """Return the newest checkpoint of a run, or the one that a folder is.

    Raises:
        RunFolderError: if the folder is no run, or the run has no weights that can be used.
    """
    if (path / "manifest.json").exists():
        return load_checkpoint(path)
    folder = RunFolder(path)
    folder.read_status()  # refuses what is no run
    return newest_checkpoint(folder.checkpoints_path)


def _backend_settings(changed: Mapping[str, Any], checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the settings of the backend that acts: those of the run's own, unless another one is named."""
    settings: Mapping[str, Any] = checkpoint.manifest["backend"]
    is_another = changed.get("name", settings["name"]) != settings["name"]
    return dict(changed) if is_another else {**settings, **changed}


def _spaces(checkpoint: Checkpoint) -> Spaces:
    try:
        return Spaces.from_json(checkpoint.manifest["spaces"])
    except Exception as error:  # Gymnasium and NumPy refuse what is no space in many ways
        raise RunFolderError(
            f"{checkpoint.path} is a broken checkpoint: the 'spaces' of its manifest.json cannot be read: "
            f"{in_one_line(error)}."
        ) from error


def _length_of_batch(parts: tuple[Leaf, ...], observation: Any) -> int | None:
    """Return how many observations a batch holds, None for a single one; every leaf must agree with the first."""
    lengths = [_length(leaf, observation) for leaf in parts]
    for leaf, length in zip(parts, lengths, strict=True):
        if length != lengths[0]:
            raise ShapeError(
                f"{leaf.path} is {_in_words(length)}, {parts[0].path} is {_in_words(lengths[0])}: Policy.act takes "
                "observations whose parts have one length."
            )
    return lengths[0]


def _length(leaf: Leaf, observation: Any) -> int | None:
    try:
        shape = np.shape(leaf.take(observation))
    except (LookupError, TypeError, ValueError) as error:
        raise ShapeError(f"{leaf.path} is missing, or no array: Policy.act takes all parts of an observation.") from (
            error
        )
    single = leaf.space.shape
    if shape == single:
        return None
    if shape and shape[1:] == single:
        return int(shape[0])
    batch = ", ".join(map(str, ("B", *(single or ()))))
    raise ShapeError(f"{leaf.path} has shape {shape}: Policy.act takes {single}, or a batch of them, ({batch}).")


def _in_words(length: int | None) -> str:
    return "a single one" if length is None else f"a batch of {length}"


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {name: _map(function, value) for name, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_map(function, value) for value in tree)
    return function(tree)
