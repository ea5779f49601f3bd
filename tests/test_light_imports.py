"""What Rheos imports to list a plugin is light, and so is a worker that acts in NumPy, down every chain of imports."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from rheos.plugins import load_registry

HEAVY = {
    *("numpy", "gymnasium", "safetensors", "torch", "tensorflow", "ray"),
    *("hydra", "omegaconf", "yaml", "rich", "matplotlib", "tensorboardX"),
}
PLUGINS = {entry_point.value for entry_point in entry_points(group="rheos")}
CONFIGS = {load_registry().algorithm(name).config.partition(":")[0] for name in load_registry().names("algorithm")}

WORKER = """
import json, sys

from rheos.configuration.run_config import BackendConfig, EnvironmentConfig
from rheos.environments.gym import GymEnvironment
from rheos.networks.initial import initial_weights
from rheos.reports import Weights
from rheos.runs.context import RunContext
from rheos.seeds import generator_for
from rheos_ppo.config import PPOConfig
from rheos_ppo.policy import ppo_policy
from rheos_ppo.roles import make_ppo_worker

environment = GymEnvironment(EnvironmentConfig(id="CartPole-v1", num_envs=8))
context = RunContext(PPOConfig(), environment, BackendConfig(sys.argv[1]), num_workers=1, seed=0)
worker = make_ppo_worker(context, 0)
networks = ppo_policy(environment.spaces(), context.config).networks
worker.load(Weights(0, initial_weights(networks, generator_for(0, "weights"))))
steps = worker.rollout().info.env_steps

import psutil  # measures, and is no part of what is measured

memory = psutil.Process().memory_full_info()
modules = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps({"steps": steps, "modules": modules, "uss": memory.uss, "unshared": memory.rss - memory.shared}))
"""


@pytest.mark.parametrize("module", sorted({"rheos", "rheos_cli.main", *PLUGINS, *CONFIGS}))
def test_importing_it_imports_nothing_heavy(module: str) -> None:
    script = f"import sys, {module}; print(*(name for name in sys.modules if '.' not in name))"

    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert module.partition(".")[0] in process.stdout.split()
    assert set() == HEAVY & set(process.stdout.split())


@pytest.mark.parametrize("backend", load_registry().names("backend"))
def test_a_worker_that_acts_in_numpy_imports_no_framework_and_has_little_memory_of_its_own(backend: str) -> None:
    command = [sys.executable, "-c", WORKER, backend]

    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    told = json.loads(process.stdout)
    assert told["steps"] > 900
    assert {"numpy", "gymnasium", "rheos_ppo"} <= set(told["modules"])
    assert set() == {"torch", "tensorflow", "keras"} & set(told["modules"])
    # 34 MB, most of them of NumPy, Gymnasium and Python, so that many workers fit on one machine.
    assert told["uss"] < 80 * 2**20
    assert told["unshared"] < 80 * 2**20
