"""A run finds every part in the registry that it is given, and no plugin's failure reaches the run or other plugins."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import rheos.testing.toy
from rheos.configuration.run_config import BackendConfig, EnvironmentConfig
from rheos.configuration.settings import setting
from rheos.environments.gym import GymEnvironment
from rheos.errors import UnknownName
from rheos.executors.inline import InlineExecutor
from rheos.plugins import hookimpl, load_registry
from rheos.plugins.loading import load_plugins
from rheos.plugins.registry import PluginWarning
from rheos.plugins.resolving import make_backend, make_environment, make_executor
from rheos.plugins.sources import Origin, plugin_sources
from rheos.plugins.specs import BackendSpec, EnvironmentSpec, ExecutorSpec
from rheos.runs.evaluation import evaluate
from rheos.runs.policy import load_policy
from rheos.runs.status import RunState
from rheos.runs.training import train


def registry_of(*plugins):
    """Return a registry of core, the toy and some plugins, of which nothing is installed."""
    core = (source for source in plugin_sources() if source.origin.package == "rheos-core")
    return load_plugins(
        [
            *core,
            source("toy", rheos.testing.toy),
            *(source(f"plugin{index}", plugin) for index, plugin in enumerate(plugins)),
        ]
    )


def source(name, plugin):
    return SimpleNamespace(origin=Origin(name, f"{name}-pkg", "1"), load=lambda: plugin)


def plugin_with(**hooks):
    return SimpleNamespace(**{name: hookimpl(specname=name)(function) for name, function in hooks.items()})


def toy(run_dir, registry, env="CartPole-v1", executor="inline", backend="toy"):
    return train(
        "toy",
        env=env,
        backend=backend,
        executor=executor,
        run_dir=run_dir,
        stop={"env_steps": 3000},
        logger={"every_steps": 1000},
        registry=registry,
    )


# hooks


@pytest.mark.parametrize("error", [OSError("disk full"), SystemExit("leaving")])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_plugin_that_fails_is_named_once_a_hook_and_every_other_plugin_is_told(tmp_path, error, position):
    heard = [[], [], []]

    def listener(index):
        def rheos_report(row):
            heard[index].append(row["env_steps"])
            if index == position:
                raise error

        return plugin_with(rheos_report=rheos_report)

    with pytest.warns(PluginWarning) as warned:
        result = toy(tmp_path / "run", registry_of(*map(listener, range(3))))

    assert RunState.DONE == result.state
    assert [[1000, 2000, 3000]] * 3 == heard
    name = f"plugin{position}-pkg:plugin{position}"
    assert [f"the plugin {name} failed in rheos_report: {error!r}; the run goes on."] == [
        str(warning.message) for warning in warned
    ]


def test_each_plugin_that_fails_is_named_for_each_of_its_hooks(tmp_path):
    def failing():
        def fail():
            raise LookupError

        return fail

    plugins = [plugin_with(rheos_run_started=failing(), rheos_run_ended=failing()) for _ in range(2)]

    with pytest.warns(PluginWarning) as warned:
        toy(tmp_path / "run", registry_of(*plugins))

    assert 4 == len({str(warning.message) for warning in warned}) == len(warned)


@pytest.mark.parametrize("mark", ["wrapper", "hookwrapper"])
def test_a_hook_that_wraps_the_others_is_refused_since_each_is_called_alone(mark):
    def rheos_report(run, row):
        yield

    (warning,) = registry_of(SimpleNamespace(rheos_report=hookimpl(**{mark: True})(rheos_report))).warnings

    assert "TypeError: 'rheos_report' is marked as a wrapper" in warning


# names


@dataclass(frozen=True)
class PondConfig(EnvironmentConfig):
    """Settings of a source of environments that has its own."""

    name: str = "pond"
    depth: int = setting(1, minimum=1)


@dataclass(frozen=True)
class SandConfig(BackendConfig):
    """Settings of a backend that has its own."""

    name: str = "sand"
    grains: int = setting(1, minimum=1)


class PondExecutor(InlineExecutor):
    """An executor that counts how many of it were closed."""

    closed = 0

    def close(self):
        PondExecutor.closed += 1
        super().close()


class SandBackend(rheos.testing.toy.ToyBackend):
    """A backend that is not installed."""


@pytest.fixture
def pond(monkeypatch):
    """A registry with an environment, an executor and a backend that are not installed."""
    module = ModuleType("parts_of_a_test")
    vars(module).update(
        PondConfig=PondConfig,
        SandConfig=SandConfig,
        SandBackend=SandBackend,
        make_environment=GymEnvironment,
        make_executor=lambda config: PondExecutor(),
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    offers = {
        "rheos_environments": EnvironmentSpec(
            name="pond",
            summary="",
            factory="parts_of_a_test:make_environment",
            config="parts_of_a_test:PondConfig",
        ),
        "rheos_executors": ExecutorSpec(name="pond", summary="", factory="parts_of_a_test:make_executor"),
        "rheos_backends": BackendSpec(
            name="sand", summary="", factory="parts_of_a_test:SandBackend", config="parts_of_a_test:SandConfig"
        ),
    }
    return registry_of(plugin_with(**{hook: (lambda spec=spec: [spec]) for hook, spec in offers.items()}))


def test_a_run_finds_its_parts_in_the_registry_that_it_is_given(tmp_path, monkeypatch, pond):
    before = PondExecutor.closed

    run = toy(tmp_path / "run", pond, env={"name": "pond", "depth": 3}, executor="pond", backend={"name": "sand"})

    assert (RunState.DONE, before + 1) == (run.state, PondExecutor.closed)
    assert 3 == evaluate(run.run_dir, episodes=3, registry=pond).episodes
    monkeypatch.setattr("rheos.acting.acts_in_numpy", lambda specs: False)
    assert load_policy(run.run_dir, registry=pond).act(np.zeros(4, np.float32)) in (0, 1)


def test_what_names_a_part_is_looked_up_in_the_registry_and_by_default_in_what_is_installed(pond):
    config = SandConfig()

    assert isinstance(make_backend(config, registry=pond), SandBackend)
    for make in (make_backend, make_environment, make_executor):
        with pytest.raises(UnknownName, match=r"^No \w+ 'sand'"):
            make(config)
    assert "sand" not in load_registry(warn=False).names("backend")
