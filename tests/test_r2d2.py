"""R2D2 with real gradients and exported files: what the mathematics over NumPy cannot show."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import rheos
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.spaces import Spaces
from rheos.testing.components import Steps, installed_places
from rheos_apex.config import R2D2Config
from rheos_apex.losses import SequenceQLearningLoss
from rheos_apex.q_network import q_network
from rheos_ops.replay_learner import TARGET

BURN_IN, LENGTH, ROWS = 3, 4, 5
SPACES = Spaces(gym.spaces.Box(-np.inf, np.inf, (2,), np.float32), gym.spaces.Discrete(3))


def batch_of(acts):
    generator = np.random.default_rng(0)
    slots = np.arange(LENGTH)
    is_first = np.zeros((ROWS, BURN_IN + LENGTH + 1), bool)
    is_first[0, BURN_IN] = True
    return {
        "observations": generator.normal(size=(*is_first.shape, 2)).astype(np.float32),
        "is_first": is_first,
        "memory": generator.uniform(-1.0, 1.0, (ROWS, acts.memory_size)).astype(np.float32),
        "actions": generator.integers(0, 3, (ROWS, LENGTH), dtype=np.int32),
        "rewards": generator.normal(size=(ROWS, LENGTH)).astype(np.float32),
        "discounts": np.full((ROWS, LENGTH), 0.9, np.float32),
        "bootstraps": np.tile(np.minimum(slots + 2, LENGTH), (ROWS, 1)).astype(np.int32),
        "mask": np.ones((ROWS, LENGTH), bool),
        "weights": np.ones(ROWS, np.float32),
    }


def gradients(place, acts, weights, batch, *, burn_in):
    backend = place.make_backend()
    networks, targets = (backend.build(acts.networks, weights) for _ in range(2))
    loss = SequenceQLearningLoss(acts, True, burn_in, 1e-3, 0.9)
    steps = Steps(backend, loss, networks, {TARGET + name: network for name, network in targets.items()})
    steps.step(backend.put(batch), {}, 0.0)
    return steps.gradients()


@pytest.mark.parametrize("place", installed_places(("torch",), ("eager",)), ids=str)
def test_no_gradient_flows_through_the_burn_in(place):
    """What is learned is what is learned from a memory that is given, and was made by the same weights.

    On one backend: that gradients are the same on all is shown in tests/parity.
    """
    acts = q_network(SPACES, R2D2Config(hidden_sizes=(8, 8), lstm_units=4))
    weights = initial_weights(acts.networks, np.random.default_rng(1))
    batch = batch_of(acts)
    warmed = dict(batch)
    before = {"observations": batch["observations"][:, :BURN_IN].swapaxes(0, 1)}
    is_first = batch["is_first"][:, :BURN_IN].T
    _, warmed["memory"] = acts.unroll(
        numpy_xp, NumpyNetworks(acts.networks, weights), before, batch["memory"], is_first
    )
    for name in ("observations", "is_first"):
        warmed[name] = batch[name][:, BURN_IN:]

    whole = gradients(place, acts, weights, batch, burn_in=BURN_IN)
    given = gradients(place, acts, weights, warmed, burn_in=0)

    assert np.abs(whole["lstm/recurrent_kernel"]).max() > 1e-4
    for name, gradient in given.items():
        np.testing.assert_allclose(whole[name], gradient, rtol=1e-4, atol=1e-6, err_msg=name)  # float32


PLACES = [
    pytest.param(place, marks=() if place.backend == "torch" and place.mode == "eager" else pytest.mark.slow)
    for place in installed_places()
]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own compiler uses it
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_images_and_masks_are_learned_from_as_in_numpy(place):
    image, mask = gym.spaces.Box(0, 255, (2, 8, 8), np.uint8), gym.spaces.MultiBinary(3)
    spaces = Spaces(gym.spaces.Dict(camera=image, action_mask=mask), gym.spaces.Discrete(3))
    acts = q_network(spaces, R2D2Config(filters=((4, 3, 2),), lstm_units=4))
    weights = initial_weights(acts.networks, np.random.default_rng(1))
    generator, batch = np.random.default_rng(2), batch_of(acts)
    lead = batch.pop("observations").shape[:2]
    batch["observations.camera"] = generator.integers(0, 256, (*lead, 2, 8, 8), np.uint8)
    batch["action_mask"] = generator.random((*lead, 3)) < 0.5
    batch["action_mask"][..., 0] = True
    loss = SequenceQLearningLoss(acts, True, BURN_IN, 1e-3, 0.9)

    def function(xp, networks, columns):
        both = {**networks, **{TARGET + name: network for name, network in networks.items()}}
        value, metrics = loss(xp, both, columns, {})
        return {"loss": value, **metrics}

    backend = place.make_backend()
    found = backend.infer(function, backend.build(acts.networks, weights))(batch)

    for name, expected in function(numpy_xp, NumpyNetworks(acts.networks, weights), batch).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-6, err_msg=name)  # float32


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A run in which little was learned."""
    return rheos.train(
        {"name": "r2d2", "burn_in": 1, "length": 3, "lstm_units": 4, "hidden_sizes": [8], "learning_starts": 10},
        env={"name": "delayed-cue", "num_envs": 2, "delay": 2},
        run_dir=tmp_path_factory.mktemp("runs") / "run",
        stop={"env_steps": 200},
    ).run_dir


@pytest.mark.parametrize("to", ["savedmodel", *(pytest.param(to, marks=pytest.mark.slow) for to in ("onnx", "torch"))])
def test_what_is_exported_remembers_as_the_policy_does(run_dir, tmp_path, to):
    if to == "onnx":
        pytest.importorskip("onnxscript")

    exported = rheos.export_policy(run_dir, to=to, path=tmp_path / "policy")

    description = exported.description.read_text()
    assert exported.num_checked == 72
    assert all(name in description for name in ('"memory"', '"is_first"', '"actions"'))


def test_a_trained_policy_remembers_from_step_to_step(run_dir):
    policy = rheos.load_policy(run_dir)
    observation = np.zeros(5, np.float32)

    policy.act(observation)
    before = policy._remembered["memory"]
    policy.act(observation)
    policy.reset()
    policy.act(observation)

    np.testing.assert_array_equal(before, policy._remembered["memory"])
    assert rheos.evaluate(run_dir, episodes=3).episode_lengths == (3, 3, 3)
