"""RolloutWorker: acts in environments and gives fragments of experience."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rheos.acting import Act, Acting
from rheos.batches import Batch, BatchInfo
from rheos.environments.hanging import TimedEnvironments
from rheos.errors import EnvironmentFailed, ObservationOutside, RheosError
from rheos.policies import PolicySpec
from rheos.reports import Weights
from rheos.runs.context import RunContext
from rheos.seeds import generator_for
from rheos.spaces import ActionAdapter, ObservationAdapter
from rheos_ops.episodes import EpisodeCounter
from rheos_ops.fragments import Columns, Fragment

if TYPE_CHECKING:
    from rheos.backend import Backend
    from rheos.environments.environment import VectorEnvironment

__all__ = ["RolloutWorker"]

_VALUED_ROWS = 1024
"""About how many observations are valued at a time: what small networks make of more does not stay in the cache."""
_VALUED_BYTES = 2**24
"""How much of them at most: what a network makes of images is many times as large as they are."""


_RESETS_OF_A_LIFE = 2**20
"""So many resets the seeds of a worker's environments are apart from those of its successor after a restart."""


class RolloutWorker:
    """Acts in its environments with the weights that it was given last.

    A fragment has `rollout_steps` rows, time-major. Its columns are those of `ObservationAdapter` (`observations`,
    one for each image, `action_mask` where there is one) in their own dtypes, `actions`, `rewards` float32,
    `terminated`, `truncated` and `is_transition` bool, and what else the policy gives, all `[T, B, ...]`. Where
    `is_transition` is False, the environment only reset itself: such a row is no experience, must not be trained on,
    and counts no step.

    Where the policy has `value`, there are `values`, and `next_values`: the value of what the action led to, also
    where an episode was truncated (the value of its last observation, not of the first one after the reset) and at
    the end of the fragment. It is 0 where an episode terminated. Where `explore` gives `values` itself, only what it
    did not see is valued.

    Where the policy has a memory of S numbers, the worker carries it from step to step and from fragment to fragment,
    and there are `memory` `[T, B, S]`, as it was before each step, and `is_first` `[T, B]`: an episode begins there
    (or the environment only resets itself), so that nothing of `memory` counted.

    With `gives_next_observations` there is beside each column of observations what the action led to, as
    `next_<column>`: where an episode ended its last observation, not the first one after the reset.

    A bad number ends the rollout in which it came: a reward or an observation that is not finite, an observation
    outside its space (unless `env.check_bounds` is False), an action mask that allows nothing. It is looked for once
    per fragment, and when something raises in the middle of one, since it may be why.

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
        gives_next_observations: whether fragments have what the actions led to.
        epsilons: from the env steps of this worker so far to how often each of its environments takes a random action,
            `[B]`, which `explore` gets as the column `epsilons`.
    """

    def __init__(
        self,
        context: RunContext[Any],
        policy: PolicySpec,
        *,
        index: int,
        rollout_steps: int,
        name: str | None = None,
        gives_next_observations: bool = False,
        epsilons: Callable[[int], npt.NDArray[np.float32]] | None = None,
    ) -> None:
        self.name = f"rollout-{index}" if name is None else name
        self._context = context
        self._policy = policy
        self._rollout_steps = rollout_steps
        self._gives_next_observations = gives_next_observations
        self._epsilons = epsilons
        self._env_steps = 0
        self._noise = generator_for(context.seed, self.name, "noise")
        self._version = 0
        self._resets = 0
        self._steps = 0  # of the environments since they were made, as they count themselves
        self._acting: Acting | None = None
        self._latest: Columns | None = None
        self._check_bounds: bool = getattr(context.environment.config, "check_bounds", True)
        self._environments = _environments(context, self.name)
        self._episodes = EpisodeCounter(self._environments.num_envs)
        spaces = self._environments.spaces
        self._observations = ObservationAdapter(spaces.observation, spaces.action)
        self._actions = ActionAdapter(spaces.action)

    def load(self, weights: Weights) -> None:
        """Act with these weights from the next fragment on."""
        if self._acting is None:
            self._acting = Acting(self._policy, weights.arrays, self._make_backend)
        else:
            self._acting.load(weights.arrays)
        self._version = weights.version

    def rollout(self) -> Batch:
        """Step the environments `rollout_steps` times.

        Raises:
            RheosError: if no weights were loaded yet.
            EnvironmentFailed: if an environment raises or gives a bad number; the message names worker, environment,
                step (since the environments were made) and cause.
        """
        acting = self._acting
        if acting is None:
            raise RheosError(f"{self.name}: rollout() before load(weights): a worker has no weights of its own.")
        fragment = Fragment.empty(
            self._observations.columns, self._rollout_steps, self._environments.num_envs, self._policy.memory_size
        )
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is told below, by name
            self._fill(fragment, acting.explore)
        self._refuse_bad_numbers(fragment, self._rollout_steps)
        self._steps += self._rollout_steps
        # copies, since the fragment belongs to its receiver
        before = {**fragment.observations, **fragment.remembered}
        self._latest = {name: column[-1].copy() for name, column in before.items()}
        columns = {
            **{name: column[:-1] for name, column in before.items()},
            "rewards": fragment.rewards,
            "terminated": fragment.terminated,
            "truncated": fragment.truncated,
            "is_transition": fragment.is_transition,
            **(fragment.outputs if acting.annotate is None else _annotated(fragment, acting.annotate)),
            **({} if acting.value is None else _valued(fragment, acting.value)),
            **(_next_observations(fragment) if self._gives_next_observations else {}),
        }
        info = self._info(fragment)
        self._env_steps += info.env_steps
        return Batch(columns, info, axis=1)

    def state_dict(self) -> dict[str, Any]:
        """Return the noise generator, the version of the weights, how often environments were reset, and steps."""
        return {
            "noise": self._noise.bit_generator.state,
            "version": self._version,
            "resets": self._resets,
            "env_steps": self._env_steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave: the next rollout resets the environments, and running episodes are dropped.

        The weights of that version are loaded beside, before or after: a fragment names those that acted.
        """
        self._noise.bit_generator.state = state["noise"]
        self._resets = state["resets"]
        self._env_steps = state["env_steps"]
        if self._acting is None:
            self._version = state["version"]
        self.begin_anew()

    def begin_anew(self) -> None:
        """Begin new episodes with the next rollout, as after `load_state_dict`.

        Those that were running are cut: their last step was the last one of the fragment before, whose `next_values`
        are the values of what came of it, so to whoever learns they are truncated there. They are counted nowhere.
        """
        self._latest = None
        self._episodes = EpisodeCounter(self._environments.num_envs)

    def restarted(self, times: int) -> None:
        """Take other seeds than the predecessors of this worker had: what made one of them fail need not come again."""
        self._noise = generator_for(self._context.seed, self.name, "noise", "restart", times)
        self._resets = times * _RESETS_OF_A_LIFE

    def close(self) -> None:
        """Close the environments."""
        self._environments.close()

    def _fill(self, fragment: Fragment, explore: Act) -> None:
        """Act and step, once per row. This is the hot path: what can wait until the fragment is full, waits."""
        num_steps, num_envs = fragment.rewards.shape
        noise = self._policy.draw_noise(self._noise, num_steps * num_envs)
        noise = noise.reshape(num_steps, num_envs, *noise.shape[1:])
        rows, outputs = fragment.rows(), fragment.outputs
        rewards, terminated, truncated = fragment.rewards, fragment.terminated, fragment.truncated
        is_transition = fragment.is_transition
        has_memory = bool(fragment.remembered)
        if self._epsilons is not None:
            epsilons = self._epsilons(self._env_steps)
            for row in rows:
                row["epsilons"] = epsilons
        encode, decode, step_environments = self._observations.encode, self._actions.decode, self._environments.step

        self._begin(rows[0])
        done = 0
        try:
            for done in range(num_steps):
                row = rows[done]
                row["noise"] = noise[done]
                acted = explore(row)
                if has_memory:
                    rows[done + 1]["memory"][...] = acted.pop("memory")
                if not outputs:
                    for name, column in acted.items():
                        outputs[name] = np.empty((num_steps, *column.shape), column.dtype)
                for name, column in acted.items():
                    outputs[name][done] = column
                observations, rewards[done], terminated[done], truncated[done], is_transition[done], final, score = (
                    step_environments(decode(acted["actions"]))
                )
                encode(observations, rows[done + 1])
                if has_memory:
                    rows[done + 1]["is_first"][...] = terminated[done] | truncated[done] | ~is_transition[done]
                if final is not None:
                    self._keep_final(fragment, done, final)
                if score is not None:
                    fragment.keep_score(done, score)
        except Exception as error:
            self._refuse_bad_numbers(fragment, done, cause=error)  # one from before may be why
            if isinstance(error, ObservationOutside):
                raise self._failed(done + 1, error.row, error) from error
            raise

    def _begin(self, row: Columns) -> None:
        """Write what is observed and remembered before the first step."""
        if self._latest is not None:
            for name, column in self._latest.items():
                row[name][...] = column
            return
        observations = self._environments.reset(self._resets)
        self._resets += 1
        try:
            self._observations.encode(observations, row)
        except ObservationOutside as error:
            raise self._failed(0, error.row, error) from error
        if self._policy.memory_size:
            row["memory"][...] = 0.0
            row["is_first"][...] = True

    def _keep_final(self, fragment: Fragment, step: int, observations: Any) -> None:
        """Keep a copy of the last observations of episodes, since the environments may write there again."""
        try:
            encoded = self._observations.encode(observations)
        except ObservationOutside as error:
            ended = np.flatnonzero(fragment.terminated[step] | fragment.truncated[step])
            raise self._failed(step + 1, int(ended[error.row]), error) from error
        fragment.final_observations.append({name: column.copy() for name, column in encoded.items()})

    def _refuse_bad_numbers(self, fragment: Fragment, num_steps: int, cause: Exception | None = None) -> None:
        fault = fragment.fault(self._observations, num_steps, check_bounds=self._check_bounds)
        if fault is not None:
            raise self._failed(fault.step, fault.env, fault.what) from cause

    def _failed(self, step: int, env: int, what: object) -> EnvironmentFailed:
        """Return the error for a step of this fragment; 0 is what it began with."""
        step += self._steps
        return EnvironmentFailed(f"{self.name}, environment {env}, {f'step {step}' if step else 'reset'}: {what}")

    def _make_backend(self) -> Backend:
        from rheos.plugins import make_backend

        return make_backend(self._context.backend, self._context.device)

    def _info(self, fragment: Fragment) -> BatchInfo:
        num_transitions = int(np.count_nonzero(fragment.is_transition))
        return BatchInfo(
            sources=(self.name,),
            version_min=self._version,
            version_mean=float(self._version),
            version_max=self._version,
            env_steps=num_transitions,
            agent_steps=num_transitions,
            episodes=self._episodes.count(*fragment.score, fragment.is_transition),
        )


def _environments(context: RunContext[Any], worker: str) -> VectorEnvironment:
    environments = context.environment.make(context.seed, worker)
    timeout_s: float | None = getattr(context.environment.config, "step_timeout_s", None)
    return environments if timeout_s is None else TimedEnvironments(environments, timeout_s, worker)


def _annotated(fragment: Fragment, annotate: Act) -> Columns:
    """Return the actions, and what the policy has to say of all rows at once."""
    num_steps, num_envs = fragment.rewards.shape
    rows = fragment.flat(num_steps)
    rows["rewards"] = fragment.rewards.reshape(-1)
    for name, column in fragment.outputs.items():
        rows[name] = column.reshape(-1, *column.shape[2:])
    added = annotate(rows)
    return {
        "actions": fragment.outputs["actions"],
        **{name: column.reshape(num_steps, num_envs, *column.shape[1:]) for name, column in added.items()},
    }


def _next_observations(fragment: Fragment) -> Columns:
    """Return what each action led to: the next row, or the last observation of an episode where it ended."""
    following = {name: column[1:].copy() for name, column in fragment.observations.items()}
    if fragment.final_observations:
        for name, column in fragment.finals().items():
            following[name][fragment.ended] = column
    return {f"next_{name}": column for name, column in following.items()}


def _valued(fragment: Fragment, value: Act) -> Columns:
    """Value everything that was observed: rows, what the last actions led to, and where episodes were truncated."""
    values = _values_of_rows(fragment, value)
    next_values = values[1:].copy()
    is_cut = fragment.truncated & ~fragment.terminated
    if fragment.final_observations and is_cut.any():
        is_asked = is_cut[fragment.ended]  # of the final observations; a mask is read in their order
        asked = {name: column[is_asked] for name, column in fragment.finals().items()}
        next_values[is_cut] = _values_of(asked, value)
    next_values[fragment.terminated] = 0.0
    return {"values": values[:-1], "next_values": next_values}


def _values_of_rows(fragment: Fragment, value: Act) -> npt.NDArray[np.float32]:
    """Return the values of all that was observed, `[T + 1, B]`, in part those that came with the actions."""
    num_steps, num_envs = fragment.rewards.shape
    if "values" not in fragment.outputs:
        return _values_of(fragment.flat(num_steps + 1), value).reshape(num_steps + 1, num_envs)
    last = value({name: column[-1] for name, column in fragment.observations.items()})["values"]
    return np.concatenate([fragment.outputs["values"], last[np.newaxis]])


def _values_of(rows: Columns, value: Act) -> npt.NDArray[np.float32]:
    """Value rows, in equal parts where they are many or large."""
    num_rows = len(next(iter(rows.values())))
    num_bytes = sum(column.nbytes for column in rows.values())
    num_parts = max(1, round(num_rows / _VALUED_ROWS), ceil(num_bytes / _VALUED_BYTES))
    size = ceil(num_rows / num_parts)
    parts = [
        value({name: column[start : start + size] for name, column in rows.items()})["values"]
        for start in range(0, num_rows, size)
    ]
    return np.concatenate(parts)
