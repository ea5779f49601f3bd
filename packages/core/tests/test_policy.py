"""A policy acts as it was trained, in the spaces of its environment, on one observation or many."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest

from rheos.errors import RunFolderError, ShapeError, UnknownName
from rheos.runs.checkpoints import save_checkpoint
from rheos.runs.policy import load_policy
from rheos.runs.training import train
from rheos.testing.toy import toy_registry

SPACES = {
    "box": gymnasium.spaces.Box(-1.0, 1.0, (2,)),
    "box of integers": gymnasium.spaces.Box(0, 255, (3, 2), np.uint8),
    "discrete": gymnasium.spaces.Discrete(4, start=1),
    "dict": gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(2), b=gymnasium.spaces.Box(-1.0, 1.0, (2,))),
    "tuple": gymnasium.spaces.Tuple((gymnasium.spaces.Box(-1.0, 1.0, (2,)), gymnasium.spaces.Discrete(2))),
}


class Fixed(gymnasium.Env):
    """Any spaces, two steps an episode."""

    def __init__(self, space="box", start=0):
        self.observation_space = SPACES[space]
        self.action_space = gymnasium.spaces.Discrete(3, start=start)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, True, {}


@pytest.fixture
def env_id():
    gymnasium.register("Fixed-v0", Fixed)
    yield "Fixed-v0"
    del gymnasium.registry["Fixed-v0"]


@pytest.fixture
def trained(tmp_path, env_id):
    """Train the toy in an environment of two steps, whose arguments are given."""

    def run(algo=None, **kwargs):
        return train(
            {"name": "toy", **(algo or {})},
            env={"id": env_id, "kwargs": kwargs},
            backend="toy",
            run_dir=tmp_path / "run",
            stop={"env_steps": 300},
            checkpoint={"every_steps": 100},
            registry=toy_registry(),
        ).run_dir

    return run


def load(run_dir, **arguments):
    return load_policy(run_dir, registry=toy_registry(), **arguments)


def test_one_observation_gives_one_action_and_a_batch_gives_a_batch(trained):
    policy = load(trained())
    batch = np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2)

    actions = policy.act(batch)

    assert (5,) == actions.shape
    assert actions.tolist() == [policy.act(observation) for observation in batch]
    assert policy.spaces.action.contains(policy.act(batch[0]))


def test_actions_are_those_of_the_environment(trained):
    policy = load(trained(start=5))

    actions = {policy.act(np.zeros(2, np.float32), explore=True) for _ in range(200)}

    assert {5, 6, 7} == actions


def test_the_best_action_is_always_the_same_and_exploring_is_repeated_by_seed(trained):
    run_dir, observation = trained(), np.zeros(2, np.float32)
    policy, again, other = load(run_dir, seed=1), load(run_dir, seed=1), load(run_dir, seed=2)

    def explored(policy):
        return [int(policy.act(observation, explore=True)) for _ in range(50)]

    assert 1 == len({policy.act(observation) for _ in range(50)})
    noisy = explored(policy)
    assert noisy == explored(again)
    assert noisy != explored(other)


@pytest.mark.parametrize("name", SPACES)
def test_observations_of_any_space_are_taken_one_by_one_or_together(trained, name):
    policy, space = load(trained(space=name)), SPACES[name]
    observations = [space.sample() for _ in range(4)]
    batch = gymnasium.vector.utils.concatenate(space, observations, gymnasium.vector.utils.create_empty_array(space, 4))

    assert policy.act(batch).tolist() == [policy.act(observation) for observation in observations]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 1, 2)])
def test_an_observation_that_is_neither_one_nor_a_batch_is_refused(trained, shape):
    policy = load(trained())

    with pytest.raises(ShapeError, match=r"observation has shape .*: Policy\.act takes \(2,\), or a batch of them"):
        policy.act(np.zeros(shape, np.float32))


def test_large_networks_act_by_the_backend_with_the_same_actions(trained, monkeypatch):
    run_dir, observations = trained(), np.random.default_rng(0).uniform(-1, 1, (64, 2)).astype(np.float32)
    in_numpy = load(run_dir).act(observations)

    monkeypatch.setattr("rheos.runs.policy.acts_in_numpy", lambda specs: False)

    assert in_numpy.tolist() == load(run_dir).act(observations).tolist()


def test_the_newest_weights_act_or_those_of_a_checkpoint_that_is_named(trained):
    run_dir = trained()

    assert 300 == load(run_dir).checkpoint.env_steps
    assert 100 == load(run_dir / "checkpoints" / "100").checkpoint.env_steps


def test_a_run_that_never_saved_weights_is_refused(trained, tmp_path):
    run_dir = trained()
    for path in (run_dir / "checkpoints").iterdir():
        path.rename(tmp_path / path.name)

    with pytest.raises(RunFolderError, match=r"run has no checkpoint yet"):
        load(run_dir)


@pytest.mark.parametrize(
    "spaces",
    [{}, {"observation": {}, "action": {}}, {"observation": {"type": "Box"}, "action": {"type": "Discrete", "n": 0}}],
)
def test_spaces_that_cannot_be_read_are_refused_in_one_line(trained, spaces):
    run_dir = trained()
    path = run_dir / "checkpoints" / "300" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "spaces": spaces}))

    with pytest.raises(RunFolderError, match=r"300 is a broken checkpoint: the 'spaces' of its manifest") as caught:
        load(run_dir)

    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_run_is_refused_in_one_line(tmp_path):
    with pytest.raises(RunFolderError, match=r"is no run: it has no status\.json") as caught:
        load(tmp_path)

    assert "\n" not in str(caught.value)


def test_weights_of_an_algorithm_that_is_not_installed_say_what_is_missing(trained):
    run_dir = trained()
    checkpoint = load(run_dir).checkpoint
    manifest = {**checkpoint.manifest, "algo": {"name": "impala"}}
    save_checkpoint(run_dir / "checkpoints", checkpoint.weights, manifest)

    with pytest.raises(UnknownName, match=r"pip install rheos-algos-impala"):
        load(run_dir)


def test_weights_of_another_contract_are_refused(trained):
    run_dir = trained()
    path = run_dir / "checkpoints" / "300" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "contract": 99}))

    with pytest.raises(RunFolderError, match=r"saved for contract 99, this Rheos has contract 1"):
        load(run_dir)
