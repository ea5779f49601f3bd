"""RolloutWorker: what it gives and takes for an algorithm that learns from replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rheos.configuration.run_config import BackendConfig
from rheos.environments.native import AutoresetMode
from rheos.runs.context import RunContext
from rheos.testing.environments import CountingEnv, CountingVectorEnv, FunctionEnvironment
from rheos.testing.policies import counting_policy, counting_weights
from rheos_ops.workers import RolloutWorker

LIMITS = (2, 3, 7)


def vector(mode):
    return [CountingVectorEnv(LIMITS, mode)]


ENVIRONMENTS = {
    "next step": lambda: vector(AutoresetMode.NEXT_STEP),
    "same step": lambda: vector(AutoresetMode.SAME_STEP),
    "disabled": lambda: vector(AutoresetMode.DISABLED),
    "one by one": lambda: [CountingEnv(limit) for limit in LIMITS],
}


@pytest.fixture(params=ENVIRONMENTS)
def make_worker(request):
    """Make a worker of three environments with episodes of 2, 3 and 7 steps, for each way to reset themselves."""

    def make(policy=None, **settings):
        envs = ENVIRONMENTS[request.param]()
        environment = FunctionEnvironment(iter(envs).__next__, len(envs))
        context = RunContext(None, environment, BackendConfig(), num_workers=1, seed=0)
        worker = RolloutWorker(context, policy or counting_policy(), index=0, rollout_steps=6, **settings)
        worker.load(counting_weights())
        return worker

    return make


def test_what_an_action_led_to_is_the_next_count_also_where_the_episode_ended(make_worker):
    worker = make_worker(gives_next_observations=True)

    for _ in range(3):
        batch = worker.rollout()

        is_step = batch["is_transition"]
        assert batch["truncated"].any()
        np.testing.assert_array_equal(batch["observations"][is_step] + 1.0, batch["next_observations"][is_step])


def test_it_is_left_out_where_nobody_asks(make_worker):
    assert "next_observations" not in make_worker().rollout().columns


def test_values_that_come_with_actions_are_not_asked_for_again(make_worker):
    asked = []
    plain = counting_policy()

    def explore(xp, networks, columns):
        return plain.explore(xp, networks, columns) | plain.value(xp, networks, columns)

    def value(xp, networks, columns):
        asked.append(len(columns["observations"]))
        return plain.value(xp, networks, columns)

    batch = make_worker(replace(plain, explore=explore, value=value)).rollout()

    again = make_worker().rollout()
    np.testing.assert_array_equal(again["values"], batch["values"])
    np.testing.assert_array_equal(again["next_values"], batch["next_values"])
    assert asked[0] == len(LIMITS)  # what the last actions led to; then the ends of episodes, where they are apart
    assert sum(asked) <= 2 * len(LIMITS) + 3


def test_how_often_to_explore_follows_the_worker_s_own_steps_also_when_it_goes_on(make_worker):
    told, seen = [], []
    plain = counting_policy()

    def epsilons(env_steps):
        told.append(env_steps)
        return np.full(len(LIMITS), 1.0 / (1.0 + env_steps), np.float32)

    def explore(xp, networks, columns):
        seen.append(columns["epsilons"].copy())
        return plain.explore(xp, networks, columns)

    worker = make_worker(replace(plain, explore=explore), epsilons=epsilons)
    steps = [worker.rollout().info.env_steps for _ in range(2)]
    other = make_worker(replace(plain, explore=explore), epsilons=epsilons)
    other.load_state_dict(worker.state_dict())
    other.rollout()

    assert [0, steps[0], sum(steps)] == told
    np.testing.assert_allclose(seen[-1], 1.0 / (1.0 + sum(steps)), rtol=1e-6)
