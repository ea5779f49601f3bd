"""RolloutWorker: acts in environments and gives fragments of experience."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.batches import Batch, BatchInfo
from rheos.errors import RheosError
from rheos.networks.numpy_networks import NumpyNetworks, acts_in_numpy
from rheos.policies import PolicySpec
from rheos.reports import Weights
from rheos.runs.context import RunContext
from rheos.seeds import generator_for
from rheos.spaces import ActionAdapter, ObservationAdapter
from rheos_ops.episodes import EpisodeCounter

__all__ = ["RolloutWorker"]

Columns = dict[str, npt.NDArray[Any]]
Act = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From `observations` and `noise` to `actions` and whatever else the policy gives."""


class RolloutWorker:
    """Acts in its environments with the weights that it was given last.

    A fragment has `rollout_steps` rows, time-major. Its columns are `observations` `[T, B, D]` float32, `actions` and
    whatever else `policy.explore` gives (`values`, `log_probs`), `rewards` float32, `terminated`, `truncated` and
    `is_transition` bool, all `[T, B, ...]`. Where `is_transition` is False, the environment only reset itself: such a
    row is no experience, must not be trained on, and counts no step.

    Where the policy gives `values`, there is a column `next_values`: the value of what the action led to, also where
    an episode was truncated (the value of its last observation, not of the first one after the reset) and at the end
    of the fragment. It is 0 where an episode terminated.

    Every fragment is a set of new arrays. Small networks act in NumPy, so that neither backend is imported.

    Its state has neither weights nor environments: a worker that takes one begins new episodes, and the episodes that
    were running are dropped and told nowhere. Their seeds derive from the worker's name and from how often its
    environments were reset before, so a resumed run repeats, but is not the run that was never cut.

    Args:
        context: of the run.
        policy: how to act.
        index: of the worker; names it, and so its seeds.
        rollout_steps: T, vector steps per fragment; at least 1.
        name: by default `rollout-<index>`.
    """

    def __init__(
        self, context: RunContext[Any], policy: PolicySpec, *, index: int, rollout_steps: int, name: str | None = None
    ) -> None:
        self.name = f"rollout-{index}" if name is None else name
        self._context = context
        self._policy = policy
        self._rollout_steps = rollout_steps
        self._noise = generator_for(context.seed, self.name, "noise")
        self._version = 0
        self._resets = 0
        self._act: Act | None = None
        self._load: Callable[[Mapping[str, npt.NDArray[np.float32]]], None] | None = None
        self._observations: npt.NDArray[np.float32] | None = None
        self._environments = context.environment.make(context.seed, self.name)
        self._episodes = EpisodeCounter(self._environments.num_envs)
        self._encode = ObservationAdapter(self._environments.spaces.observation)
        self._decode = ActionAdapter(self._environments.spaces.action)

    def load(self, weights: Weights) -> None:
        """Act with these weights from the next fragment on."""
        if self._load is None:
            self._act, self._load = _make_acting(self._context, self._policy, weights)
        else:
            self._load(weights.arrays)
        self._version = weights.version

    def rollout(self) -> Batch:
        """Step the environments `rollout_steps` times.

        Raises:
            RheosError: if no weights were loaded yet.
            EnvironmentFailed: if an environment raises; the message names worker, environment, step and cause.
        """
        if self._act is None:
            raise RheosError(f"{self.name}: rollout() before load(weights): a worker has no weights of its own.")
        if self._observations is None:
            self._observations = self._encode.encode(self._environments.reset(self._resets))
            self._resets += 1
        act, environments = self._act, self._environments
        encode, decode, step_environments = self._encode.encode, self._decode.decode, environments.step
        num_steps, num_envs = self._rollout_steps, environments.num_envs

        # one row more than the fragment: what the last actions led to, where the next fragment begins
        observations = np.empty((num_steps + 1, num_envs, self._encode.size), np.float32)
        rewards = np.empty((num_steps, num_envs), np.float32)
        terminated, truncated, is_transition = np.empty((3, num_steps, num_envs), np.bool_)
        noise = self._draw_noise(num_steps * num_envs)
        noise = noise.reshape(num_steps, num_envs, *noise.shape[1:])
        outputs: Columns = {}
        final_observations: list[Any] = []

        observations[0] = self._observations
        for t in range(num_steps):
            acted = act({"observations": observations[t], "noise": noise[t]})
            if t == 0:
                outputs = {name: np.empty((num_steps, *column.shape), column.dtype) for name, column in acted.items()}
            for name, column in acted.items():
                outputs[name][t] = column
            stepped = step_environments(decode(acted["actions"]))
            encode(stepped.observations, observations[t + 1])
            rewards[t] = stepped.rewards
            terminated[t] = stepped.terminated
            truncated[t] = stepped.truncated
            is_transition[t] = stepped.is_transition
            if stepped.final_observations is not None:
                final_observations.append(encode(stepped.final_observations))
        self._observations = observations[-1].copy()  # the fragment belongs to its receiver

        if "values" in outputs:
            outputs["next_values"] = self._next_values(
                outputs["values"], observations[-1], terminated, truncated, final_observations
            )
        columns = {
            "observations": observations[:-1],
            "rewards": rewards,
            "terminated": terminated,
            "truncated": truncated,
            "is_transition": is_transition,
            **outputs,
        }
        return Batch(columns, self._info(rewards, terminated | truncated, is_transition), axis=1)

    def state_dict(self) -> dict[str, Any]:
        """Return the noise generator, the version of the weights, and how often the environments were reset."""
        return {"noise": self._noise.bit_generator.state, "version": self._version, "resets": self._resets}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave: the next rollout resets the environments, and running episodes are dropped.

        The weights of that version are loaded beside, before or after: a fragment names those that acted.
        """
        self._noise.bit_generator.state = state["noise"]
        self._resets = state["resets"]
        if self._act is None:
            self._version = state["version"]
        self._observations = None
        self._episodes = EpisodeCounter(self._environments.num_envs)

    def close(self) -> None:
        """Close the environments."""
        self._environments.close()

    def _next_values(
        self,
        values: npt.NDArray[Any],
        last_observations: npt.NDArray[np.float32],
        terminated: npt.NDArray[np.bool_],
        truncated: npt.NDArray[np.bool_],
        final_observations: list[npt.NDArray[np.float32]],
    ) -> npt.NDArray[Any]:
        """Shift the values by a step, and ask once for those that no action was chosen for."""
        next_values = np.empty_like(values)
        next_values[:-1] = values[1:]
        bootstraps = truncated & ~terminated
        asked = last_observations
        has_final = bool(final_observations) and bool(bootstraps.any())
        if has_final:  # they lie in order of step, then environment, as a mask reads `[T, B]`, too
            final = np.concatenate(final_observations)
            asked = np.concatenate([last_observations, final[bootstraps[terminated | truncated]]])
        asked_values = self._values(asked)
        next_values[-1] = asked_values[: len(last_observations)]
        if has_final:
            next_values[bootstraps] = asked_values[len(last_observations) :]
        next_values[terminated] = 0.0
        return next_values

    def _values(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        assert self._act is not None
        values: npt.NDArray[Any] = self._act(
            {"observations": observations, "noise": self._draw_noise(len(observations))}
        )["values"]
        return values

    def _draw_noise(self, num: int) -> npt.NDArray[np.float32]:
        return self._policy.draw_noise(self._noise, num)

    def _info(
        self, rewards: npt.NDArray[Any], ended: npt.NDArray[np.bool_], is_transition: npt.NDArray[np.bool_]
    ) -> BatchInfo:
        num_transitions = int(np.count_nonzero(is_transition))
        return BatchInfo(
            sources=(self.name,),
            version_min=self._version,
            version_mean=float(self._version),
            version_max=self._version,
            env_steps=num_transitions,
            agent_steps=num_transitions,
            episodes=self._episodes.count(rewards, ended, is_transition),
        )


def _make_acting(
    context: RunContext[Any], policy: PolicySpec, weights: Weights
) -> tuple[Act, Callable[[Mapping[str, npt.NDArray[np.float32]]], None]]:
    """Return how to act with networks, and how to load their weights; in NumPy where that is faster."""
    if acts_in_numpy(policy.networks):
        networks = NumpyNetworks(policy.networks, weights.arrays)
        return lambda inputs: policy.explore(numpy_xp, networks, inputs), networks.load
    from rheos.plugins import make_backend

    backend = make_backend(context.backend, context.device)
    native = backend.build(policy.networks, weights.arrays)
    return backend.infer(policy.explore, native), lambda arrays: backend.load(native, arrays)
