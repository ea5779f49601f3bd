"""The YAML that core writes; that PyYAML and OmegaConf read it back is tested in rheos-cli."""

from __future__ import annotations

import numpy as np
import pytest

from rheos.errors import ConfigError
from rheos.runs.yaml_text import to_yaml


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (True, "true"),
        (12, "12"),
        (0.1, "0.1"),
        (1e-5, "1.0e-05"),
        (2.5e20, "2.5e+20"),
        (float("inf"), ".inf"),
        (float("-inf"), "-.inf"),
        (float("nan"), ".nan"),
        (np.float64(0.5), "0.5"),
        ("CartPole-v1", "CartPole-v1"),
        ("ALE/Pong-v5", "ALE/Pong-v5"),
        ("", '""'),
        ("yes", '"yes"'),
        ("Null", '"Null"'),
        ("1e3", '"1e3"'),
        ("a: b", '"a: b"'),
        ("module:Env-v0", '"module:Env-v0"'),
        ('say "hi" \\', '"say \\"hi\\" \\\\"'),
        ("two\nlines", '"two\\x0alines"'),
        ("ῥέος", '"ῥέος"'),
        ([], "[]"),
        ((64, 64), "[64, 64]"),
        ({}, "{}"),
    ],
)
def test_a_value_is_written_so_that_it_can_be_read_as_nothing_else(value, expected):
    assert f"key: {expected}\n" == to_yaml({"key": value})


def test_nesting_is_indented():
    settings = {"a": {"b": {"c": 1}}, "d": [{"e": 1, "f": [2]}, [[3], []]], "g": {}}

    assert "a:\n  b:\n    c: 1\nd:\n  - e: 1\n    f: [2]\n  - - [3]\n    - []\ng: {}\n" == to_yaml(settings)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"env": {"kwargs": {"map": object()}}}, r"env\.kwargs\.map"),
        ({"a": [{"b": {1, 2}}]}, r"a\[0\]\.b"),
        ({"a": [1, object()]}, r"a\[1\]"),
    ],
)
def test_what_yaml_has_no_word_for_is_refused_with_its_path(settings, path):
    with pytest.raises(ConfigError, match=rf"^{path}: got .*, expected plain data"):
        to_yaml(settings)
