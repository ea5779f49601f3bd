"""A toy algorithm and backend, as a plugin: a whole run in milliseconds, for tests of what runs do around it.

Nothing is learned. A worker makes up episodes whose return rises by `return_per_round` each round, without
stepping an environment; every update adds `step` to all weights of a small policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rheos.configuration.settings import setting
from rheos.plugins.hooks import hookimpl
from rheos.plugins.loading import load_plugins
from rheos.plugins.sources import Origin, plugin_sources
from rheos.plugins.specs import AlgorithmSpec, BackendSpec

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from rheos.arrays.namespace import Array, ArrayNamespace
    from rheos.backend import Function, Networks
    from rheos.batches import Batch
    from rheos.networks.numpy_networks import NumpyNetworks
    from rheos.networks.specs import NetworkSpec
    from rheos.plugins.registry import Registry
    from rheos.policies import PolicySpec
    from rheos.reports import LearnerReport, Report, Weights
    from rheos.runs.context import RunContext
    from rheos.spaces import Spaces
    from rheos.streams.actors import Actor, ActorGroup
    from rheos.streams.stream import Stream

__all__ = ["ToyBackend", "ToyConfig", "ToyLearner", "ToyRoles", "ToyWorker", "toy_registry"]


@hookimpl
def rheos_algorithms() -> list[AlgorithmSpec]:
    """Offer the algorithm."""
    return [
        AlgorithmSpec(
            name="toy",
            summary="makes up episodes and learns nothing",
            config="rheos.testing.toy:ToyConfig",
            roles="rheos.testing.toy:make_roles",
            flow="rheos.testing.toy:toy_flow",
            policy="rheos.testing.toy:make_policy",
        )
    ]


@hookimpl
def rheos_backends() -> list[BackendSpec]:
    """Offer the backend."""
    return [
        BackendSpec(
            name="toy",
            summary="acts in NumPy, cannot learn",
            factory="rheos.testing.toy:ToyBackend",
            export_formats=("npz",),
        )
    ]


def toy_registry(*packages: str) -> Registry:
    """Return a registry of this plugin and of what core and some more packages offer, whatever else is installed."""
    wanted = {"rheos-core", *packages}
    return load_plugins([*(source for source in plugin_sources() if source.origin.package in wanted), _ToySource()])


class _ToySource:
    """This module as if an installed package had named it as its plugin."""

    origin = Origin(plugin="toy", package="rheos-toy", version="1.0")

    def load(self) -> object:
        """Return this module."""
        import rheos.testing.toy

        return rheos.testing.toy


@dataclass(frozen=True)
class ToyConfig:
    """Settings of the toy algorithm."""

    steps: int = setting(100, minimum=1, unit="env steps", help="env steps a worker claims to take in a round")
    episodes: int = setting(10, minimum=0, help="episodes a worker claims to finish in a round")
    return_per_round: float = setting(1.0, help="by how much the return of these episodes rises each round")
    step: float = setting(0.5, help="what an update adds to all weights")
    spoils_weights_in_round: int | None = setting(None, minimum=1, help="the round whose update makes all weights NaN")
    hidden: tuple[int, ...] = setting((8,), help="hidden layers of the policy")
    rounds: int = setting(1_000_000, minimum=1, help="after so many rounds the flow ends by itself")
    fails_in_round: int | None = setting(None, minimum=1, help="the round in which the learner raises")


@dataclass(frozen=True)
class ToyRoles:
    """The actors."""

    workers: ActorGroup[ToyWorker]
    learner: Actor[ToyLearner]


class ToyWorker:
    """Makes up episodes; noise on their returns comes from the seed."""

    def __init__(self, config: ToyConfig, seed: int, index: int) -> None:
        from rheos.seeds import generator_for

        self._config = config
        self._generator = generator_for(seed, f"rollout-{index}")

    def rollout(self, number: int) -> Batch:
        """Return a batch without columns, with the episodes of a round."""
        from rheos.batches import Batch, BatchInfo, Episode

        noise = self._generator.uniform(-0.5, 0.5, self._config.episodes)
        episodes = tuple(Episode(self._config.return_per_round * number + float(z), self._config.steps) for z in noise)
        return Batch({}, BatchInfo(env_steps=self._config.steps, episodes=episodes))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the noise."""
        return {"noise": self._generator.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self._generator.bit_generator.state = state["noise"]


class ToyLearner:
    """Adds to its weights."""

    def __init__(self, config: ToyConfig, networks: Mapping[str, NetworkSpec], seed: int) -> None:
        from rheos.networks.initial import initial_weights
        from rheos.seeds import generator_for

        self._config = config
        self._arrays = initial_weights(networks, generator_for(seed, "learner", "weights"))
        self._updates = 0

    def update(self, batch: Batch) -> LearnerReport:
        """Count an update, and report its number as a loss."""
        from rheos.reports import LearnerReport

        self._updates += 1
        if self._updates == self._config.fails_in_round:
            raise ZeroDivisionError("division by zero")
        is_spoilt = self._updates == self._config.spoils_weights_in_round
        step = float("nan") if is_spoilt else self._config.step
        self._arrays = {name: array + step for name, array in self._arrays.items()}
        return LearnerReport(
            info=batch.info, version=self._updates, updates=1, metrics={"toy_loss": 1.0 / self._updates}
        )

    def weights(self) -> Weights:
        """Return the weights."""
        from rheos.reports import Weights

        return Weights(self._updates, {name: array.astype("float32") for name, array in self._arrays.items()})

    def state_dict(self) -> dict[str, Any]:
        """Return the weights and the number of updates."""
        return {"updates": self._updates, "arrays": dict(self._arrays)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self._updates, self._arrays = state["updates"], dict(state["arrays"])


def make_roles(context: RunContext[ToyConfig]) -> ToyRoles:
    """Describe the actors."""
    from rheos.streams.actors import Actor, ActorGroup

    networks = make_policy(context.environment.spaces(), context.config).networks
    return ToyRoles(
        workers=ActorGroup("rollout", context.num_workers, partial(ToyWorker, context.config, context.seed)),
        learner=Actor("learner", partial(ToyLearner, context.config, networks, context.seed)),
    )


def toy_flow(roles: ToyRoles, config: ToyConfig) -> Stream[Report]:
    """Make up episodes, add to the weights, report."""
    from rheos.streams.stream import from_items

    rounds = from_items(range(1, config.rounds + 1))
    return rounds.ask(roles.workers, ToyWorker.rollout).ask(roles.learner, ToyLearner.update).map(report)


def report(update: LearnerReport) -> Report:
    """Report an update."""
    from rheos.reports import Report

    info = update.info
    return Report(
        env_steps=info.env_steps, updates=update.updates, episodes=info.episodes, metrics=update.metrics, lag=(0, 0, 0)
    )


def make_policy(spaces: Spaces, config: ToyConfig) -> PolicySpec:
    """Say how it acts: the action with the largest score, or with `explore` the largest score plus noise."""
    import math

    from gymnasium.spaces import Discrete

    from rheos.errors import SpaceError
    from rheos.networks.specs import MLP
    from rheos.policies import PolicySpec
    from rheos.spaces import ObservationAdapter

    columns = ObservationAdapter(spaces.observation, spaces.action).columns
    if not isinstance(spaces.action, Discrete):
        raise SpaceError(f"action: got {spaces.action}, expected Discrete: the toy algorithm takes nothing else.")
    size, num_values = sum(math.prod(column.shape) for column in columns.values()), int(spaces.action.n)
    networks = {"policy": MLP(size, num_values, hidden=config.hidden)}
    return PolicySpec(
        networks,
        explore=partial(_explore, tuple(columns)),
        exploit=partial(_exploit, tuple(columns)),
        draw_noise=partial(_draw_noise, num_values),
    )


def _exploit(
    columns: tuple[str, ...], xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    return {"actions": xp.argmax(_scores(columns, xp, networks, inputs), axis=-1)}


def _explore(
    columns: tuple[str, ...], xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    return {"actions": xp.argmax(_scores(columns, xp, networks, inputs) + inputs["noise"], axis=-1)}


def _scores(columns: tuple[str, ...], xp: ArrayNamespace, networks: Networks, inputs: Mapping[str, Array]) -> Array:
    observed = [xp.astype(xp.reshape(inputs[name], (len(inputs[name]), -1)), xp.float32) for name in columns]
    return networks["policy"](xp.concat(observed, axis=-1))


def _draw_noise(num_values: int, generator: np.random.Generator, num_envs: int) -> npt.NDArray[np.float32]:
    return generator.gumbel(size=(num_envs, num_values)).astype("float32")


class ToyBackend:
    """A backend that acts in NumPy; of the verbs of a backend it has only those that acting needs."""

    name = "toy"

    def __init__(self, *, device: str, mode: str, threads: int) -> None:
        self.device = device

    def build(
        self, specs: Mapping[str, NetworkSpec], weights: Mapping[str, npt.NDArray[np.float32]], *, seed: int = 0
    ) -> NumpyNetworks:
        """Build NumPy networks."""
        from rheos.networks.numpy_networks import NumpyNetworks

        self._built = specs, weights
        return NumpyNetworks(specs, weights)

    def load(
        self, networks: NumpyNetworks, weights: Mapping[str, npt.NDArray[np.float32]], *, strict: bool = True
    ) -> None:
        """Load weights, all of them."""
        networks.load(weights)

    def infer(self, function: Function, networks: Networks) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """Apply the function in NumPy."""
        from rheos.arrays.numpy_namespace import numpy_xp

        return lambda inputs: function(numpy_xp, networks, inputs)

    def export(
        self, function: Function, networks: NumpyNetworks, inputs: Mapping[str, Any], path: Path, to: str
    ) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """Write the weights of what was built last, as NumPy does, and act with what is read again."""
        import numpy as np

        specs, weights = self._built
        arrays: dict[str, Any] = dict(weights)
        with path.open("wb") as file:
            np.savez(file, **arrays)
        with np.load(path) as written:
            return self.infer(function, self.build(specs, dict(written)))
