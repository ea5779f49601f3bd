"""The YAML files of every installed package: complete, equal to the defaults in Python, and composable."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml

from rheos.configuration.run_config import CheckpointConfig, CommonConfig, RunConfig, StopConfig
from rheos.configuration.settings import to_mapping
from rheos.errors import UsageError
from rheos.plugins import Kind, load_registry, resolve
from rheos.plugins.sources import ConfigFile, config_files
from rheos_cli.composition import compose
from rheos_cli.groups import GROUPS, kind_of

FILES = list(config_files(GROUPS))


def described(file: ConfigFile) -> str:
    return f"{file.group}={file.name}"


def read(file: ConfigFile) -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load(file.path.read_text())
    return settings


@pytest.mark.parametrize("file", [file for file in FILES if file.group == "algo"], ids=described)
def test_the_file_of_an_algorithm_lists_every_setting_with_its_default(file: ConfigFile):
    config = resolve(load_registry().algorithm(file.name).config)

    settings = read(file)

    assert {"name": file.name, **to_mapping(config())} == settings


@pytest.mark.parametrize("kind", [Kind.ALGORITHM, Kind.BACKEND, Kind.EXECUTOR, Kind.ENVIRONMENT, Kind.LOGGER])
def test_every_name_that_a_plugin_offers_has_a_file(kind: Kind):
    names = {file.name for file in FILES if file.group == kind.group}

    assert set(load_registry().names(kind)) <= names


@pytest.mark.parametrize("file", FILES, ids=described)
def test_a_file_says_what_it_is_and_sets_only_what_exists(file: ConfigFile):
    words = [] if file.group in ("algo", "exp") else ["algo=ppo"]
    missing = [f"{file.group}.{name}=CartPole-v1" for name, value in read(file).items() if value == "???"]

    config = RunConfig.from_mapping(compose([*words, described(file), *missing]), load_registry())

    assert file.summary()
    if kind_of(file.group) not in (None, Kind.LOGGER):
        part = getattr(config, file.group)
        given = {field.name for field in dataclasses.fields(part)} - {"name"}
        assert given <= set(read(file))


def test_the_root_file_has_the_defaults_of_python():
    settings = compose(["algo=ppo"])

    assert to_mapping(StopConfig()) == settings["stop"]
    assert to_mapping(CheckpointConfig()) == settings["checkpoint"]
    assert to_mapping(CommonConfig()) == {key: settings[key] for key in to_mapping(CommonConfig())}


def test_what_the_command_line_composes_is_read_back_as_it_was_written():
    config = RunConfig.from_mapping(compose(["algo=ppo", "env=pendulum", "seed=3"]), load_registry())

    assert config == RunConfig.from_mapping(config.to_mapping(), load_registry())


def test_an_environment_of_gymnasium_must_be_named():
    with pytest.raises(UsageError, match=r"^env\.id: not given\. Write env\.id=<value>"):
        compose(["algo=ppo", "env=gym"])
