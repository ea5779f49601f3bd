"""RolloutWorker: who acts, with which weights, and whose the fragments are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.configuration.run_config import EnvironmentConfig
from rheos.environments.gym import make_environment
from rheos.environments.native import AutoresetMode
from rheos.errors import RheosError, ShapeError
from rheos.networks.specs import MLP, Parameter
from rheos.reports import Weights
from rheos.testing.environments import CountingEnv, CountingVectorEnv
from rheos.testing.policies import counting_policy, counting_weights


def column(batch, name):
    """A column of a worker with a single environment, as a list."""
    return batch[name][:, 0].tolist()


def test_fragments_follow_upon_each_other(worker_of_kind):
    cut, whole = worker_of_kind(steps=4), worker_of_kind(steps=12)

    parts = [cut.rollout() for _ in range(3)]

    together = whole.rollout()
    for name in ("observations", "rewards", "truncated", "is_transition", "next_values"):
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), together[name])


def test_a_fragment_is_handed_over_and_never_written_again(worker_of):
    worker = worker_of(CountingEnv(3), CountingEnv(3), steps=4)
    first = worker.rollout()
    before = {name: array.copy() for name, array in first.columns.items()}
    for array in first.columns.values():
        array.flags.writeable = False

    second = worker.rollout()

    assert all(np.array_equal(before[name], first[name]) for name in before)
    assert not any(np.shares_memory(first[name], second[name]) for name in before)


def test_a_batch_says_who_acted_with_which_weights_and_how_long(worker_of):
    worker = worker_of(CountingEnv(3), CountingEnv(3), steps=4, index=7)
    worker.load(counting_weights(bias=5.0, version=12))

    batch = worker.rollout()

    assert ("rollout-7",) == batch.info.sources
    assert (12, 12.0, 12) == (batch.info.version_min, batch.info.version_mean, batch.info.version_max)
    assert (8, 8) == (batch.info.env_steps, batch.info.agent_steps)
    assert [5, 6, 7, 5] == column(batch, "values")
    assert [6, 7, 8, 6] == column(batch, "next_values")
    assert 1 == batch.axis


def test_a_rollout_before_weights_is_refused(worker_of):
    with pytest.raises(RheosError, match=r"^rollout-0: rollout\(\) before load\(weights\)"):
        worker_of(CountingEnv(), loaded=False).rollout()


def test_weights_that_do_not_fit_are_refused_by_name(worker_of):
    with pytest.raises(ShapeError, match="bias/value"):
        worker_of(CountingEnv()).load(Weights(1, {}))


def test_closing_a_worker_closes_its_environments(worker_of):
    envs = [CountingEnv(), CountingEnv()]
    worker = worker_of(*envs)

    worker.close()

    assert [True, True] == [env.is_closed for env in envs]


def test_a_network_that_is_too_large_for_numpy_acts_through_the_backend(worker_of, monkeypatch):
    calls = []

    class Backend:
        def build(self, specs, arrays):
            calls.append("build")
            return dict(arrays)

        def load(self, networks, arrays):
            calls.append("load")
            networks.update(arrays)

        def infer(self, function, networks):
            native = {"bias": lambda _: networks["bias/value"]}
            return lambda inputs: function(numpy_xp, native, inputs)

    def make_backend(config, device):
        calls.append((config.name, device))
        return Backend()

    monkeypatch.setattr("rheos.plugins.make_backend", make_backend)
    large = {"bias": Parameter(()), "large": MLP(2048, 2048, (2048,))}
    worker = worker_of(CountingEnv(), steps=2, policy=replace(counting_policy(), networks=large), loaded=False)

    worker.load(counting_weights(1.0, version=1))
    first = worker.rollout()
    worker.load(counting_weights(3.0, version=2))
    second = worker.rollout()

    assert [("torch", "cpu"), "build", "load"] == calls
    assert ([1, 2], [5, 6]) == (column(first, "values"), column(second, "values"))


def test_a_hundred_thousand_short_episodes_leave_nothing_behind(worker_of):
    worker = worker_of(CountingVectorEnv([1] * 500, AutoresetMode.SAME_STEP), steps=50)

    counted = sum(len(worker.rollout().info.episodes) for _ in range(4))

    assert 100_000 == counted
    assert {(500,)} == {array.shape for array in vars(worker._episodes).values()}


def test_gymnasium_environments_of_both_kinds_fill_every_column_with_finite_numbers(worker_in):
    for env_id in ("CartPole-v1", "Acrobot-v1"):
        environment = make_environment(EnvironmentConfig(id=env_id, num_envs=2))
        worker = worker_in(environment, steps=50)

        batch = worker.rollout()
        worker.close()

        assert all(np.isfinite(array).all() for array in batch.columns.values())
