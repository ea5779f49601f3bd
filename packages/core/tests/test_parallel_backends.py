"""Which backends several processes learn with together, and how the others refuse."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rheos.backend import learning_devices
from rheos.errors import ConfigError
from rheos.runs.training import train
from rheos.testing.toy import toy_registry


def parallel_backend():
    return SimpleNamespace(
        name="pair",
        device="cpu",
        devices=lambda processes: ("cpu",) * processes,
        meet=lambda: "here",
        join=lambda rank, size, address: None,
        leave=lambda: None,
    )


def test_one_process_learns_with_any_backend_on_its_own_device():
    assert ("tpu",) == learning_devices(SimpleNamespace(name="toy", device="tpu"), 1)


def test_a_backend_that_joins_says_where_each_process_learns():
    assert ("cpu", "cpu", "cpu") == learning_devices(parallel_backend(), 3)


def test_a_backend_that_does_not_join_refuses_several_processes():
    with pytest.raises(ConfigError, match=r"^backend.processes: got 2, expected 1 with the backend 'toy'\.$"):
        learning_devices(SimpleNamespace(name="toy", device="cpu"), 2)


def test_a_run_is_refused_before_its_folder_is_made(tmp_path):
    with pytest.raises(ConfigError, match=r"^backend.processes: got 2, expected 1 with the backend 'toy'\.$"):
        train(
            {"name": "toy"},
            env="CartPole-v1",
            backend={"name": "toy", "processes": 2},
            run_dir=tmp_path / "run",
            registry=toy_registry(),
        )

    assert not (tmp_path / "run").exists()
