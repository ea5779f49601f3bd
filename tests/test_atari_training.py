"""The presets for Pong train from pixels: a few thousand steps, in which everything moves; learning takes hours."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from rheos.runs.checkpoints import newest_checkpoint
from rheos_cli.main import main

pytest.importorskip("ale_py")

FROM_REPLAY = ["algo.learning_starts=500", "algo.target_update_every=4", "algo.batch_size=16"]
SELDOM = {
    "pong_dqn": [*FROM_REPLAY, "algo.updates_per_step=0.01"],
    "pong_apex": [*FROM_REPLAY, "algo.updates_per_rollout=0.25"],
    "pong_ppo": ["algo.num_epochs=1"],
}
"""How each preset learns less often than it would: what takes hours is learning."""


def trained(run_dir, *words):
    """Train with two games at a time, which end within the few steps; return the newest checkpoint."""
    assert 0 == main(["train", *words, "env.num_envs=2", "seed=1", "--quiet", f"run_dir={run_dir}"])
    return newest_checkpoint(run_dir / "checkpoints")


@pytest.mark.parametrize(
    "preset", ["pong_dqn", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pong_apex", "pong_ppo"))]
)
def test_a_few_thousand_steps_of_pong_move_everything(tmp_path, preset):
    words = [f"exp={preset}", *SELDOM[preset]]
    before = trained(tmp_path / "before", *words, "stop.env_steps=100").weights

    after = trained(tmp_path / "run", *words, "stop.env_steps=2500")

    assert before.keys() == after.weights.keys()
    for name, weights in after.weights.items():
        assert np.isfinite(weights).all(), name
        assert not np.array_equal(before[name], weights), name
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert "done" == status["state"]
    assert status["updates"] >= 10
    assert -21 <= status["episode_return_mean"] <= -10  # points of whole games, which nobody can play yet
    assert status["episodes"] >= 2
    with (tmp_path / "run" / "metrics.csv").open() as file:
        *_, last = csv.DictReader(file)
    assert all(math.isfinite(float(last[name])) for name in ("grad_norm", "env_steps_per_s"))
