"""A synchronous algorithm gives the same weights wherever its actors live, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rheos

EVERYTHING = {
    "normalize_observations": True,
    "normalize_rewards": True,
    "target_kl": 0.01,
    "final_learning_rate": 0.0,
    "rollout_steps": 32,
}


def weights_after(run_dir: Path, executor: str, workers: int, algorithm: dict[str, Any], seed: int = 1) -> str | None:
    result = rheos.train(
        {"name": "ppo", **algorithm},
        env={"id": "CartPole-v1", "num_envs": 4},
        executor={"name": executor, "workers": workers},
        stop={"env_steps": 1500},
        seed=seed,
        run_dir=run_dir,
    )
    sha: str | None = result.weights_sha256
    return sha


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_ppo_on_threads_ends_with_the_weights_of_inline(tmp_path: Path, workers: int):
    inline = weights_after(tmp_path / "inline", "inline", workers, EVERYTHING)

    threads = weights_after(tmp_path / "threads", "threads", workers, EVERYTHING)

    assert inline is not None
    assert inline == threads


def test_other_seeds_and_other_numbers_of_workers_give_other_weights(tmp_path: Path):
    found = {
        weights_after(tmp_path / f"{workers}-{seed}", "threads", workers, EVERYTHING, seed)
        for workers, seed in [(1, 1), (2, 1), (2, 2)]
    }

    assert 3 == len(found)
