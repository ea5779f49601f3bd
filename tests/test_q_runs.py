"""DQN and its family from end to end: they repeat bit for bit, on every backend, and resume as if nothing had been."""

from __future__ import annotations

import json
import os
from itertools import pairwise

import numpy as np
import pytest
from killed_runs import train_and_kill

import rheos
from rheos.errors import SpaceError
from rheos.plugins import Kind, load_registry
from rheos.runs.checkpoints import newest_checkpoint
from rheos_torch.backend import TorchBackend

BACKENDS = load_registry().names(Kind.BACKEND)
MODES = [
    pytest.param(backend, mode, marks=pytest.mark.slow if mode == "graph" else ())
    for backend in BACKENDS
    for mode in ("eager", "graph")
]
SMALL = {
    "rollout_steps": 8,
    "batch_size": 16,
    "learning_starts": 64,
    "replay_steps": 600,
    "hidden_sizes": [16],
    "target_update_every": 20,
}
DQN = {"name": "dqn", "exploration_steps": 500, **SMALL}
RAINBOW = {"name": "rainbow", "num_atoms": 11, **SMALL}
QRDQN = {"name": "qrdqn", **SMALL, "num_atoms": 8}
APEX = {"name": "apex", "updates_per_rollout": 4, "publish_every": 4, "weight_sync_steps": 32, **SMALL}
SEQUENCES = {"burn_in": 3, "length": 4, "lstm_units": 8, "learning_starts": 8, "batch_size": 8}
R2D2 = {**APEX, "name": "r2d2", "updates_per_rollout": 1, **SEQUENCES}
ALGORITHMS = {"dqn": DQN, "rainbow": RAINBOW, "qrdqn": QRDQN, "apex": APEX, "r2d2": R2D2}

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own compiler uses it
every_algorithm = pytest.mark.parametrize("algo", ALGORITHMS.values(), ids=ALGORITHMS)
both_flows = pytest.mark.parametrize(
    "algo",
    [pytest.param(algo, marks=() if algo in (DQN, APEX) else pytest.mark.slow) for algo in ALGORITHMS.values()],
    ids=ALGORITHMS,
)
"""What differs in the flow in every run of the tests, what differs in the loss alone in the slow ones; R2D2, whose
memory takes its time, too."""


def settings_of(algo, *, env_steps=1_500, seed=1, workers=2, **others):
    return {
        "algo": algo,
        "env": {"id": "CartPole-v1", "num_envs": 2},
        "executor": {"name": "inline", "workers": workers},
        "stop": {"env_steps": env_steps},
        "seed": seed,
        **others,
    }


def trained(run_dir, algo, **settings):
    given = settings_of(algo, **settings)
    return rheos.train(given.pop("algo"), run_dir=run_dir, **given)


def status_of(run_dir):
    return json.loads((run_dir / "status.json").read_text())


@both_flows
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path, algo):
    first, again, other = (
        trained(tmp_path / name, algo, seed=seed) for name, seed in (("first", 1), ("again", 1), ("other", 2))
    )

    assert first.weights_sha256 == again.weights_sha256
    assert first.weights_sha256 != other.weights_sha256


def test_apex_at_its_own_pace_is_deterministic_in_one_process(tmp_path):
    algo = {**APEX, "updates_per_rollout": None}

    first, again = (trained(tmp_path / name, algo) for name in ("first", "again"))

    assert first.weights_sha256 == again.weights_sha256
    assert status_of(tmp_path / "first")["updates"] > 10


@every_algorithm
def test_what_was_learned_acts(tmp_path, algo):
    run = trained(tmp_path / "run", algo, env_steps=300)

    result = rheos.evaluate(run.run_dir, episodes=2, max_episode_steps=20)
    policy = rheos.load_policy(run.run_dir)

    assert len(result.episode_returns) == 2
    assert policy.act(np.zeros(4, np.float32)) in (0, 1)
    assert policy.act(np.zeros(4, np.float32), explore=True) in (0, 1)


@pytest.mark.parametrize(("backend", "mode"), MODES)
@both_flows
def test_updates_give_the_same_weights_everywhere(tmp_path, algo, backend, mode):
    """The first updates, which NumPy acted for; 1e-4 is what 20 steps of Adam make of sums in another order."""
    if mode == "graph" and algo is not DQN:
        pytest.skip("the losses of the others are compared in graphs in tests/parity")
    run, reference = (
        trained(tmp_path / name, algo, env_steps=120, workers=1, backend={"name": backend_, "mode": mode_})
        for name, backend_, mode_ in (("run", backend, mode), ("reference", "torch", "eager"))
    )

    assert status_of(tmp_path / "run")["updates"] == status_of(tmp_path / "reference")["updates"] > 0
    weights, expected = (newest_checkpoint(each.run_dir / "checkpoints").weights for each in (run, reference))
    for name, array in expected.items():
        np.testing.assert_allclose(weights[name], array, rtol=0, atol=1e-4, err_msg=name)


@both_flows
def test_a_run_that_is_killed_and_resumed_is_the_one_that_never_was(tmp_path, algo):
    """Case 14, replay included, which is full and overwritten before the kill."""
    settings = settings_of(algo, env_steps=2_400, checkpoint={"every_steps": 500}, logger={"every_steps": 100})
    train_and_kill(tmp_path / "cut", settings, at=1_800)
    resumed = rheos.resume(tmp_path / "cut")

    given = dict(settings)
    whole = rheos.train(given.pop("algo"), run_dir=tmp_path / "whole", **given)
    assert whole.weights_sha256 == resumed.weights_sha256
    assert whole.env_steps == resumed.env_steps


def test_targets_move_every_so_many_updates_however_often_a_run_is_saved_and_resumed(tmp_path, monkeypatch):
    """Case 27: four environments, saved and loaded five times, with fewer updates between than from move to move."""
    moves = []
    polyak = TorchBackend.polyak
    monkeypatch.setattr(TorchBackend, "polyak", lambda *given: moves.append(1) or polyak(*given))
    algo = {**DQN, "rollout_steps": 4, "learning_starts": 1}
    settings = {"workers": 1, "env": {"id": "CartPole-v1", "num_envs": 4}}
    run_dir = tmp_path / "run"

    trained(run_dir, algo, env_steps=48, **settings)
    written = (run_dir / "config.yaml").read_text()
    found = [(status_of(run_dir)["updates"], len(moves))]
    for env_steps in (96, 144, 192, 240, 288):
        rheos.resume(run_dir, stop={"env_steps": env_steps})
        found.append((status_of(run_dir)["updates"], len(moves)))

    assert [(updates, updates // algo["target_update_every"]) for updates, _ in found] == found
    assert all(earlier < later < earlier + 20 for (earlier, _), (later, _) in pairwise(found))
    assert found[-1][1] >= 3
    changed = (run_dir / "config.yaml").read_text()
    assert written.replace("env_steps: 48\n", "env_steps: 288\n") == changed


def test_replay_is_written_once_and_linked_from_checkpoint_to_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr("rheos_ops.replay.storage._SEGMENT_BYTES", 4096)
    algo = {**DQN, "replay_steps": 5_000}
    trained(tmp_path / "run", algo, env_steps=1_800, checkpoint={"every_steps": 600})

    checkpoints = sorted((tmp_path / "run" / "checkpoints").iterdir(), key=lambda path: int(path.name))
    files = [{path.name: os.stat(path).st_ino for path in each.glob("segments/*/*")} for each in checkpoints]
    assert len(files) >= 3
    for earlier, later in pairwise(files):
        shared = earlier.keys() & later.keys()
        assert len(shared) >= len(earlier) - 1  # all but the newest, which was not full yet
        assert len(shared) > 3
        assert all(earlier[name] == later[name] for name in shared)


def test_what_cannot_be_compared_action_by_action_is_refused(tmp_path):
    with pytest.raises(SpaceError, match="expected Discrete or MultiDiscrete"):
        trained(tmp_path / "run", DQN, env={"id": "Pendulum-v1", "num_envs": 2})


@pytest.mark.parametrize(("executor", "shards"), [("threads", 1), ("threads", 2), ("ray", 2)])
def test_apex_runs_where_each_goes_at_its_own_pace(tmp_path, executor, shards):
    algo = {**APEX, "updates_per_rollout": None, "replay_shards": shards}

    run = trained(tmp_path / "run", algo, executor={"name": executor, "workers": 2}, env_steps=500)

    status = status_of(run.run_dir)
    assert status["state"] == "done"
    assert status["updates"] > 0
    assert rheos.resume(run.run_dir, stop={"env_steps": 700}).env_steps >= 700
