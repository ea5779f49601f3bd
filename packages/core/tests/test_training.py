"""train refuses what cannot be a setting in one line, as the command line does."""

from __future__ import annotations

import pytest

from rheos.errors import ConfigError
from rheos.runs.training import train
from rheos.testing.toy import toy_registry

NAMES = {"algo": "a name", "env": "an id", "backend": "a name", "executor": "a name"}
PARTS = ("stop", "checkpoint", "eval", "logger")
WRONG = [
    *((key, value) for key in NAMES for value in (None, 5, ["toy"], b"toy", object)),
    *((key, value) for key in (*PARTS, "run_dir", "device") for value in (5, ["toy"], object)),
    *(("seed", value) for value in ("one", None, True, [1])),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_what_is_neither_a_name_nor_settings_is_refused_by_its_key(tmp_path, monkeypatch, key, value):
    monkeypatch.chdir(tmp_path)
    settings = {"algo": "toy", "env": "CartPole-v1", "backend": "toy", "registry": toy_registry(), key: value}

    with pytest.raises(ConfigError, match=rf"^{key}: got .*, expected {NAMES.get(key, '')}") as caught:
        train(settings.pop("algo"), **settings)

    assert "\n" not in str(caught.value)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("key", [*NAMES, *PARTS])
def test_settings_whose_names_are_no_words_are_refused(key):
    settings = {"algo": "toy", "env": "CartPole-v1", "backend": "toy", "registry": toy_registry()}
    named = {"name": settings.get(key, "inline")} if key in NAMES and key != "env" else {}

    with pytest.raises(ConfigError, match=rf"^{key}\.5: no such setting"):
        train(**{**settings, key: {**named, 5: 1}})
