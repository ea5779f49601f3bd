"""The launcher of jobs: what it hands on to them."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from rheos_cli.launcher import _quoted


@pytest.mark.parametrize("text", ["/tmp/it's=a,b", "C:\\runs\\a", "ends\\", "it\\'s", "two\\\\", "{a}[b] (c)"])
def test_a_folder_of_any_name_comes_to_the_job_as_it_is(text: str):
    override = OverridesParser.create().parse_override(f"run_dir={_quoted(text)}")

    assert text == override.value()
