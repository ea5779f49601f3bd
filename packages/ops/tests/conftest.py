"""Workers for the tests of this package, in environments whose right answers are known."""

from __future__ import annotations

from functools import partial

import pytest

from rheos.configuration.run_config import BackendConfig
from rheos.environments.native import AutoresetMode
from rheos.runs.context import RunContext
from rheos.testing.environments import CountingEnv, CountingVectorEnv, FunctionEnvironment
from rheos.testing.policies import counting_policy, counting_weights
from rheos_ops.workers import RolloutWorker

LIMITS = (2, 3, 7)
KINDS = {
    "next step": partial(CountingVectorEnv, LIMITS, AutoresetMode.NEXT_STEP),
    "same step": partial(CountingVectorEnv, LIMITS, AutoresetMode.SAME_STEP),
    "disabled": partial(CountingVectorEnv, LIMITS, AutoresetMode.DISABLED),
    "one by one": None,
}


@pytest.fixture
def worker_in():
    """Make a worker with weights, in an `Environment`; by default one that values an observation as its number."""

    def make(environment, *, steps=5, seed=0, index=0, policy=None, loaded=True):
        context = RunContext(None, environment, BackendConfig(), num_workers=1, seed=seed)
        worker = RolloutWorker(context, policy or counting_policy(), index=index, rollout_steps=steps)
        if loaded:
            worker.load(counting_weights())
        return worker

    return make


@pytest.fixture
def worker_of(worker_in):
    """Make a worker of given environments: some single ones, or one vector environment."""

    def make(*envs, **settings):
        return worker_in(FunctionEnvironment(iter(envs).__next__, len(envs)), **settings)

    return make


@pytest.fixture(params=KINDS)
def worker_of_kind(request, worker_of):
    """Make a worker of three environments with episodes of 2, 3 and 7 steps, for each way to reset themselves."""

    def make(terminates=False, **settings):
        if KINDS[request.param] is not None:
            return worker_of(KINDS[request.param](terminates=terminates), **settings)
        envs = [CountingEnv(99, terminal_step=n) if terminates else CountingEnv(n) for n in LIMITS]
        return worker_of(*envs, **settings)

    return make
