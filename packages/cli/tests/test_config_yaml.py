"""What core's small emitter writes is what YAML libraries read."""

from __future__ import annotations

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from rheos.configuration.run_config import RunConfig
from rheos.runs.training import train
from rheos.runs.yaml_text import to_yaml
from rheos.testing.toy import toy_registry

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(), TREES, max_size=4))
def test_any_settings_come_back_through_pyyaml(tree):
    assert tree == yaml.safe_load(to_yaml(tree))


@settings(max_examples=50, deadline=None)
@given(st.floats(allow_nan=False))
def test_any_number_comes_back_through_omegaconf_with_all_its_digits(number):
    assert number == OmegaConf.create(to_yaml({"x": number})).x


def test_the_settings_of_a_run_come_back_from_its_folder(tmp_path):
    registry = toy_registry()
    result = train(
        {"name": "toy", "step": 1e-7},
        env={"id": "CartPole-v1", "kwargs": {"sutton_barto_reward": True}},
        backend="toy",
        run_dir=tmp_path / "run",
        stop={"env_steps": 100},
        registry=registry,
    )

    written = OmegaConf.to_container(OmegaConf.load(result.run_dir / "config.yaml"))
    config = RunConfig.from_mapping(written, registry)

    assert 1e-7 == config.algo.step
    assert {"sutton_barto_reward": True} == config.env.kwargs
    assert written == yaml.safe_load(to_yaml(config.to_mapping()))
