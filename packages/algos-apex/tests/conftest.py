"""A run's context for the tests of this package."""

from __future__ import annotations

import pytest

from rheos.configuration.run_config import BackendConfig, EnvironmentConfig
from rheos.environments.gym import GymEnvironment
from rheos.runs.context import RunContext


@pytest.fixture
def context():
    """Make the context of a run on CartPole."""

    def make(config, *, num_workers=1, num_envs=2, total_env_steps=None):
        return RunContext(
            config=config,
            environment=GymEnvironment(EnvironmentConfig(id="CartPole-v1", num_envs=num_envs)),
            backend=BackendConfig(),
            num_workers=num_workers,
            seed=0,
            total_env_steps=total_env_steps,
        )

    return make
