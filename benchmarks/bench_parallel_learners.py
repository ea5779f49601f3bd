"""How long an update of PPO takes in one process and in two that learn together, with small and large networks.

Run: `nox -s bench -- benchmarks/bench_parallel_learners.py`, on a machine with two idle cores. Compare within one run.
"""

from __future__ import annotations

import numpy as np
import pytest

from rheos import Batch, BatchInfo
from rheos.configuration.run_config import BackendConfig, EnvironmentConfig
from rheos.plugins import make_environment
from rheos.runs.context import RunContext
from rheos_ops.learners import make_learner
from rheos_ppo.config import PPOConfig
from rheos_ppo.roles import learner_spec

SIZES = {"64-64, 2048 rows": (64, 2048, 256), "512-512, 8192 rows": (512, 8192, 2048)}


def batch_of(rows: int) -> Batch:
    draw = np.random.default_rng(0)
    floats = draw.standard_normal((4, rows), np.float32)
    columns = {
        "observations": draw.standard_normal((rows, 4), np.float32),
        "actions": draw.integers(0, 2, rows, np.int32),
        "log_probs": np.full(rows, -0.7, np.float32),
        "values": floats[0],
        "advantages": floats[1],
        "returns": floats[2],
    }
    return Batch(columns, BatchInfo(("rollout-0",), env_steps=rows))


@pytest.mark.benchmark(group="an update of PPO, two epochs")
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("size", SIZES)
def test_update(benchmark, size, processes):
    hidden, rows, minibatch_size = SIZES[size]
    config = PPOConfig(hidden_sizes=(hidden, hidden), minibatch_size=minibatch_size, num_epochs=2)
    backend = BackendConfig(processes=processes)
    context = RunContext(config, make_environment(EnvironmentConfig()), backend, num_workers=1, seed=0)
    learner = make_learner(context, learner_spec(context))
    batch = batch_of(rows)

    benchmark.pedantic(learner.update, (batch,), rounds=10, warmup_rounds=2)

    if processes > 1:
        learner.close()
