"""RunConfig: plain data to the configuration of a run and back, every part checked by its plugin's dataclass."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rheos.configuration.run_config import EnvironmentConfig, RunConfig
from rheos.configuration.settings import setting
from rheos.errors import ConfigError, PluginError, UnknownName
from rheos.plugins import Registry, hookimpl
from rheos.plugins.loading import load_plugins
from rheos.plugins.resolving import settings_class
from rheos.plugins.sources import Origin
from rheos.plugins.specs import AlgorithmSpec, BackendSpec, EnvironmentSpec, ExecutorSpec, LoggerSpec
from rheos.testing.toy import toy_registry


@dataclass(frozen=True)
class SearchConfig:
    learning_rate: float = setting(0.1, exclusive_minimum=0)


@dataclass(frozen=True)
class MazeConfig(EnvironmentConfig):
    name: str = "maze"
    size: int = setting(5, minimum=2)


@dataclass(frozen=True)
class OwnConfig:
    name: str = "own"
    num_envs: int = 1
    workers: int = 1
    mode: str = "auto"


@pytest.fixture
def registry(monkeypatch) -> Registry:
    module = ModuleType("configs_of_a_test")
    vars(module).update(SearchConfig=SearchConfig, MazeConfig=MazeConfig)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    nowhere = dict.fromkeys(("roles", "flow", "policy"), "nowhere:nothing")
    offers = {
        "rheos_algorithms": AlgorithmSpec(
            name="search", summary="", config="configs_of_a_test:SearchConfig", **nowhere
        ),
        "rheos_environments": EnvironmentSpec(
            name="maze", summary="", factory="nowhere:nothing", config="configs_of_a_test:MazeConfig"
        ),
        "rheos_backends": BackendSpec(name="torch", summary="", factory="nowhere:nothing"),
        "rheos_executors": ExecutorSpec(name="inline", summary="", factory="nowhere:nothing"),
        "rheos_loggers": LoggerSpec(name="tensorboard", summary="", factory="nowhere:nothing"),
    }
    plugin = SimpleNamespace(
        **{hook: hookimpl(specname=hook)(lambda spec=spec: [spec]) for hook, spec in offers.items()}
    )
    return load_plugins([SimpleNamespace(origin=Origin("fake", "fake-pkg", "1"), load=lambda: plugin)])


def refusal(registry: Registry, **settings: Any) -> str:
    with pytest.raises((ConfigError, UnknownName)) as caught:
        RunConfig.from_mapping({"algo": {"name": "search"}, "env": {"name": "maze"}, **settings}, registry)
    return str(caught.value)


def test_each_part_is_made_by_the_dataclass_that_its_plugin_names(registry):
    config = RunConfig.from_mapping(
        {
            "algo": {"name": "search", "learning_rate": 1},
            "env": {"name": "maze", "size": 9},
            "stop": {"env_steps": 1e5},
            "seed": 3,
        },
        registry,
    )

    assert ("search", SearchConfig(1.0)) == (config.algo_name, config.algo)
    assert MazeConfig(size=9) == config.env
    assert (100_000, 3, "cpu", None) == (config.stop.env_steps, config.seed, config.device, config.run_dir)


def test_plain_data_gives_the_same_configuration_again(registry):
    config = RunConfig.from_mapping(
        {
            "algo": {"name": "search", "learning_rate": 0.5},
            "env": {"name": "maze"},
            "logger": {"names": []},
            "stop": {"env_steps": None, "seconds": 3},
            "eval": {"every_steps": 1000, "episodes": 3},
            "run_dir": "out",
        },
        registry,
    )

    assert config == RunConfig.from_mapping(config.to_mapping(), registry)


def test_a_mistake_is_named_by_its_path_as_users_type_it(registry):
    assert (
        refusal(registry, algo={"name": "search", "learning_rate": "fast"})
        == "algo.learning_rate: got 'fast' (str), expected a number > 0"
    )
    assert ("algo.lr: no such setting. Did you mean 'algo.learning_rate'? Settings: learning_rate.") == refusal(
        registry, algo={"name": "search", "lr": 1}
    )
    assert "env.size: got 1 (int), expected an integer >= 2" == refusal(registry, env={"name": "maze", "size": 1})
    assert "Did you mean 'stop.env_steps'?" in refusal(registry, stop={"env_step": 5})
    assert "seed: got 'abc' (str), expected an integer >= 0" == refusal(registry, seed="abc")
    assert "Did you mean 'seed'?" in refusal(registry, sed=1)
    assert "stop: got 5 (int), expected settings by name" == refusal(registry, stop=5)
    assert "executor.workers: got 0 (int), expected an integer >= 1" == refusal(registry, executor={"workers": 0})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"every_steps": 0}, "eval.every_steps: got 0 (int), expected an integer >= 1 or null"),
        ({"every_steps": -1}, "eval.every_steps: got -1 (int), expected an integer >= 1 or null"),
        ({"every_steps": "x"}, "eval.every_steps: got 'x' (str), expected an integer >= 1 or null"),
        ({"episodes": 0}, "eval.episodes: got 0 (int), expected an integer >= 1"),
        ({"episodes": None}, "eval.episodes: got null, expected an integer >= 1"),
        (
            {"every": 5},
            "eval.every: no such setting. Did you mean 'eval.every_steps'? Settings: every_steps, episodes.",
        ),
        (5, "eval: got 5 (int), expected settings by name"),
    ],
)
def test_impossible_evaluations_are_refused_in_one_line(registry, settings, message):
    assert message == refusal(registry, eval=settings)


@pytest.mark.parametrize("env_steps", [20_000, None])
def test_algorithms_know_when_the_run_ends_at_the_latest(env_steps):
    registry = toy_registry()
    settings = {"algo": {"name": "toy"}, "backend": {"name": "toy"}, "stop": {"env_steps": env_steps}}

    context = RunConfig.from_mapping(settings, registry).context(registry)

    assert env_steps == context.total_env_steps


def test_a_part_without_a_name_takes_its_default_but_an_algorithm_must_be_chosen(registry):
    config = RunConfig.from_mapping({"algo": {"name": "search"}, "env": {"name": "maze"}}, registry)

    assert ("torch", "inline") == (config.backend.name, config.executor.name)
    assert (
        refusal(registry, algo={}) == "algo: not given, expected the name of an algorithm; `rheos list algo` shows them"
    )
    assert "algo.name: got 3 (int), expected the name of an algorithm" == refusal(registry, algo={"name": 3})


def test_every_name_is_looked_up_also_those_of_loggers(registry):
    assert (
        refusal(registry, algo={"name": "serch"}) == "No algorithm 'serch'. Did you mean 'search'? Installed: search."
    )
    assert refusal(registry, logger={"names": ["tensorbord"]}).startswith("No logger 'tensorbord'. Did you mean")
    assert refusal(registry, executor={"name": "ray"}).endswith("pip install rheos-executor-ray")


@pytest.mark.parametrize(
    ("spec_class", "base"),
    [(EnvironmentSpec, "EnvironmentConfig"), (BackendSpec, "BackendConfig"), (ExecutorSpec, "ExecutorConfig")],
)
def test_settings_that_rheos_reads_itself_derive_from_its_own(monkeypatch, spec_class, base):
    module = ModuleType("configs_of_a_test")
    vars(module).update(OwnConfig=OwnConfig)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = spec_class(name="own", summary="", factory="nowhere:nothing", config="configs_of_a_test:OwnConfig")

    with pytest.raises(PluginError, match=rf"the settings of 'own' \(configs_of_a_test:OwnConfig\) .*:{base}\.$"):
        settings_class(spec)


def test_settings_that_are_no_dataclass_are_refused():
    nowhere = dict.fromkeys(("roles", "flow", "policy"), "nowhere:nothing")

    with pytest.raises(PluginError, match=r"the settings of 'own' \(sys:path\) cannot be used: expected a dataclass"):
        settings_class(AlgorithmSpec(name="own", summary="", config="sys:path", **nowhere))


def test_plugins_and_configuration_import_nothing_heavy():
    program = (
        "import sys, rheos.plugins, rheos.plugin, rheos.configuration.run_config\n"
        "rheos.plugins.load_registry(warn=False)\n"
        "print(*sorted({'numpy', 'gymnasium', 'torch', 'hydra', 'omegaconf', 'yaml', 'rich'} & set(sys.modules)))"
    )

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "" == found.stdout.strip()


def test_more_healthy_workers_than_there_are_cannot_be_wanted():
    with pytest.raises(ConfigError, match=r"^executor\.min_healthy: got 5, expected at most executor\.workers=2$"):
        RunConfig.from_mapping(
            {
                "algo": {"name": "toy"},
                "backend": {"name": "toy"},
                "executor": {"workers": 2, "min_healthy": 5},
            },
            toy_registry(),
        )
