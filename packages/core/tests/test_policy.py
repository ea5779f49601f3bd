"""A policy acts as it was trained, in the spaces of its environment, on one observation or many."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest

from rheos.acting import Acting
from rheos.errors import RunFolderError, ShapeError, UnknownName
from rheos.networks.specs import Parameter
from rheos.policies import PolicySpec
from rheos.runs.checkpoints import save_checkpoint
from rheos.runs.policy import Policy, load_policy
from rheos.runs.training import train
from rheos.spaces import ActionAdapter, Spaces
from rheos.testing.toy import toy_registry

SPACES = {
    "box": gymnasium.spaces.Box(-1.0, 1.0, (2,)),
    "box of integers": gymnasium.spaces.Box(0, 255, (3, 2), np.uint8),
    "discrete": gymnasium.spaces.Discrete(4, start=1),
    "dict": gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(2), b=gymnasium.spaces.Box(-1.0, 1.0, (2,))),
    "multi-discrete": gymnasium.spaces.MultiDiscrete([3, 4]),
    "multi-binary": gymnasium.spaces.MultiBinary((2, 2)),
    "nested": gymnasium.spaces.Dict(
        camera=gymnasium.spaces.Box(0, 255, (4, 4, 3), np.uint8),
        body=gymnasium.spaces.Tuple((gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64), gymnasium.spaces.Discrete(2))),
    ),
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
    batch = batch_of(space, observations)

    assert policy.act(batch).tolist() == [policy.act(observation) for observation in observations]


ACTIONS = {
    "discrete": gymnasium.spaces.Discrete(3, start=5),
    "multi-discrete": gymnasium.spaces.MultiDiscrete([3, 4], start=[1, 2]),
    "multi-binary": gymnasium.spaces.MultiBinary(3),
    "box": gymnasium.spaces.Box(0.0, 10.0, (2, 2)),
    "dict": gymnasium.spaces.Dict(gear=gymnasium.spaces.Discrete(4), wheel=gymnasium.spaces.Box(-1.0, 1.0, (2,))),
    "nested": gymnasium.spaces.Tuple(
        (gymnasium.spaces.Dict(a=gymnasium.spaces.MultiBinary(2)), gymnasium.spaces.MultiDiscrete([2, 5]))
    ),
}


def batch_of(space, singles):
    return gymnasium.vector.utils.concatenate(
        space, singles, gymnasium.vector.utils.create_empty_array(space, len(singles))
    )


def policy_that_does(actions, observation_space, seen=None, action_space=None):
    """Return a policy that does the first, second, ... action in the first, second, ... row of a batch."""
    adapter = ActionAdapter(action_space)
    encoded = adapter.encode(batch_of(action_space, actions))

    def do(xp, networks, columns):
        if seen is not None:
            seen.append(dict(columns))
        return {"actions": encoded[: len(next(iter(columns.values())))]}

    spec = PolicySpec({"none": Parameter((1,))}, do, do, lambda generator, num: generator.normal(size=(num, 1)))
    acting = Acting(spec, {"none/value": np.zeros(1, np.float32)}, lambda: pytest.fail("no backend is needed"))
    return Policy(spec, Spaces(observation_space, action_space), acting)


@pytest.mark.parametrize("explore", [False, True])
@pytest.mark.parametrize("name", ACTIONS)
def test_actions_of_any_space_are_given_one_by_one_or_together(name, explore):
    space, observations = ACTIONS[name], SPACES["box"]
    space.seed(1)
    actions = [space.sample() for _ in range(4)]
    policy = policy_that_does(actions, observations, action_space=space)

    one = policy.act(np.zeros(2, np.float32), explore=explore)
    many = policy.act(np.zeros((4, 2), np.float32), explore=explore)

    assert space.contains(one)
    # float32 there and back through [-1, 1]: a few units in the last place of values up to 10
    np.testing.assert_allclose(flat(space, [one]), flat(space, actions[:1]), atol=1e-5)
    rows = list(gymnasium.vector.utils.iterate(gymnasium.vector.utils.batch_space(space, 4), many))
    np.testing.assert_allclose(flat(space, rows), flat(space, actions), atol=1e-5)


def flat(space, actions):
    return np.stack([gymnasium.spaces.flatten(space, action) for action in actions])


def test_images_stay_bytes_in_columns_of_their_own_beside_the_numbers():
    seen, space = [], SPACES["nested"]
    space.seed(1)
    observation = space.sample()
    policy = policy_that_does([0], space, seen, action_space=gymnasium.spaces.Discrete(2))

    policy.act(observation)

    (columns,) = seen
    assert {"observations", "observations.camera"} == columns.keys()
    assert (np.dtype(np.uint8), (1, 4, 4, 3)) == (
        columns["observations.camera"].dtype,
        columns["observations.camera"].shape,
    )
    np.testing.assert_array_equal(observation["camera"], columns["observations.camera"][0])
    assert (np.dtype(np.float32), (1, 4)) == (columns["observations"].dtype, columns["observations"].shape)


def test_an_action_mask_is_a_column_of_its_own():
    seen = []
    space = gymnasium.spaces.Dict(
        observation=gymnasium.spaces.Box(-1.0, 1.0, (2,)), action_mask=gymnasium.spaces.MultiBinary(3)
    )
    policy = policy_that_does([0], space, seen, action_space=gymnasium.spaces.Discrete(3))

    policy.act({"observation": np.zeros(2, np.float32), "action_mask": np.array([0, 1, 1], np.int8)})

    assert [[False, True, True]] == seen[0]["action_mask"].tolist()
    assert (1, 2) == seen[0]["observations"].shape


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ({"a": 0}, r"^observation\['b'\] is missing"),
        (np.zeros(2, np.float32), r"^observation\['a'\] is missing"),
        (
            {"a": np.zeros(3, np.int64), "b": np.zeros((4, 2), np.float32)},
            r"^observation\['b'\] is a batch of 4, observation\['a'\] is a batch of 3",
        ),
        ({"a": 1, "b": np.zeros((4, 2), np.float32)}, r"is a batch of 4, observation\['a'\] is a single one"),
    ],
)
def test_an_observation_whose_parts_do_not_fit_together_is_refused_by_the_part(trained, observation, message):
    policy = load(trained(space="dict"))

    with pytest.raises(ShapeError, match=message) as caught:
        policy.act(observation)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 1, 2)])
def test_an_observation_that_is_neither_one_nor_a_batch_is_refused(trained, shape):
    policy = load(trained())

    with pytest.raises(ShapeError, match=r"observation has shape .*: Policy\.act takes \(2,\), or a batch of them"):
        policy.act(np.zeros(shape, np.float32))


def test_large_networks_act_by_the_backend_with_the_same_actions(trained, monkeypatch):
    run_dir, observations = trained(), np.random.default_rng(0).uniform(-1, 1, (64, 2)).astype(np.float32)
    in_numpy = load(run_dir).act(observations)

    monkeypatch.setattr("rheos.acting.acts_in_numpy", lambda specs: False)

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
