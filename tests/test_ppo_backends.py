"""PPO on every installed backend and in both modes, from one text: what one of them learns, the others act with."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest

import rheos
from rheos.plugins import Kind, load_registry
from rheos.runs.checkpoints import newest_checkpoint
from rheos_cli.main import main

BACKENDS = load_registry().names(Kind.BACKEND)
MODES = [(backend, mode) for backend in BACKENDS for mode in ("eager", "graph")]
SMALL = {"name": "ppo", "rollout_steps": 32, "minibatch_size": 64}

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own compiler uses it
every_backend = pytest.mark.parametrize("backend", BACKENDS)


def trained(run_dir, *, backend="torch", mode="auto", env="CartPole-v1", env_steps=200, algo=SMALL):
    return rheos.train(
        algo,
        env=env,
        backend={"name": backend, "mode": mode},
        seed=1,
        stop={"env_steps": env_steps},
        run_dir=run_dir,
    )


@pytest.fixture(scope="module")
def on_torch(tmp_path_factory):
    """The weights after a round of 40 gradient steps with torch, eager."""
    run = trained(tmp_path_factory.mktemp("torch") / "run", mode="eager")
    return newest_checkpoint(run.run_dir / "checkpoints").weights


@pytest.mark.parametrize(("backend", "mode"), MODES)
def test_a_round_of_learning_gives_the_same_weights_everywhere(tmp_path, on_torch, backend, mode):
    """The round was acted by NumPy everywhere; 1e-4 is what 40 steps of Adam make of float32 sums in another order."""
    run = trained(tmp_path / "run", backend=backend, mode=mode)

    weights = newest_checkpoint(run.run_dir / "checkpoints").weights
    assert on_torch.keys() == weights.keys()
    for name, expected in on_torch.items():
        np.testing.assert_allclose(weights[name], expected, rtol=0, atol=1e-4, err_msg=name)


@every_backend
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_weights_of_torch_act_on_every_backend_as_in_numpy(tmp_path, backend, env):
    run = trained(tmp_path / "run", env=env)

    in_numpy = rheos.evaluate(run.run_dir, episodes=2, max_episode_steps=50)
    native = rheos.evaluate(run.run_dir, episodes=2, max_episode_steps=50, backend=backend)

    np.testing.assert_allclose(native.episode_returns, in_numpy.episode_returns, rtol=1e-4)


@every_backend
def test_weights_of_every_backend_are_played_by_the_command_on_every_other_one(tmp_path, backend, capsys):
    run = trained(tmp_path / "run", backend=backend)
    returns = []
    for other in BACKENDS:
        capsys.readouterr()
        assert 0 == main(["eval", str(run.run_dir), "--episodes", "2", "--json", f"backend={other}"])
        returns.append(json.loads(capsys.readouterr().out)["episode_returns"])

    assert [returns[0]] * len(BACKENDS) == returns


class Seeing(gym.Env):
    """An image, a number and a mask; an episode of 8 steps."""

    observation_space = gym.spaces.Dict(
        observation=gym.spaces.Dict(
            camera=gym.spaces.Box(0, 255, (12, 12, 3), np.uint8), speed=gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        ),
        action_mask=gym.spaces.MultiBinary(3),
    )
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self._observed(), {}

    def step(self, action):
        self._step += 1
        return self._observed(), float(action), self._step == 8, False, {}

    def _observed(self):
        camera = self.np_random.integers(0, 256, (12, 12, 3), np.uint8)
        speed = self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32)
        mask = np.array([1, self._step % 2, 1], np.int8)
        return {"observation": {"camera": camera, "speed": speed}, "action_mask": mask}


@pytest.fixture(scope="module")
def seeing():
    gym.register("Seeing-v0", Seeing)
    yield "Seeing-v0"
    del gym.registry["Seeing-v0"]


FORMATS = [(backend, to) for backend in BACKENDS for to in load_registry().backend(backend).export_formats]


@pytest.mark.parametrize(("backend", "to"), FORMATS)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "Seeing-v0"])
def test_a_policy_is_exported_in_every_format_and_acts_alike(tmp_path, seeing, backend, to, env):
    run = trained(tmp_path / "run", backend=backend, env=env, algo={**SMALL, "num_epochs": 1})

    exported = rheos.export_policy(run.run_dir, to=to, backend=backend)

    assert exported.path.exists()
    assert 72 == exported.num_checked
    assert exported.largest_difference <= (1e-4 if env == "Pendulum-v1" else 0)
    described = json.loads(exported.description.read_text())
    assert ("actions" in described["outputs"], to) == (True, described["format"])


OWN_MODULES = {
    "torch": """
        import torch

        def make(shapes):
            (size,) = shapes["observations"]
            return torch.nn.Sequential(torch.nn.Linear(size, 16), torch.nn.LayerNorm(16), torch.nn.ReLU())
    """,
    "tf": """
        import tensorflow as tf

        def make(shapes):
            (size,) = shapes["observations"]
            layers = tf.keras.layers
            return tf.keras.Sequential([
                layers.Input((size,)), layers.Dense(16), layers.LayerNormalization(), layers.Activation("relu"),
            ])
    """,
}


@pytest.mark.parametrize("mode", ["eager", pytest.param("graph", marks=pytest.mark.slow)])
@pytest.mark.parametrize("backend", [name for name in BACKENDS if name in OWN_MODULES])
def test_a_module_of_ones_own_learns_acts_goes_on_and_is_exported(tmp_path, monkeypatch, capsys, backend, mode):
    import textwrap

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"own_{backend}_{mode}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(OWN_MODULES[backend]))
    words = [f"backend={backend}", f"backend.mode={mode}", f"algo.torso={name}:make", "algo.torso_outputs=16"]
    small = ["algo.rollout_steps=32", "algo.num_epochs=2", "stop.env_steps=500", "--quiet", "logger=none"]

    assert 0 == main(["train", "algo=ppo", "env=cartpole", *words, *small, "run_dir=run"])
    before = newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert 0 == main(["resume", "run", "stop.env_steps=1000", "--quiet"])
    assert 0 == main(["eval", "run", "--episodes", "1"])

    after = newest_checkpoint(tmp_path / "run" / "checkpoints")
    moved = {name for name, array in after.weights.items() if not np.array_equal(array, before.weights[name])}
    own = {name for name in after.weights if name.startswith(("torso/", "value_torso/"))}
    assert len(own) == 8  # kernel and bias of a dense layer, gain and bias of a normalization, twice
    assert own <= moved
    for to in load_registry().backend(backend).export_formats:
        assert 0 == main(["export", "run", "--to", to])
    assert capsys.readouterr().err == ""
