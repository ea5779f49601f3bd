"""While a program starts, the garbage collector is still; when a run has started, it works again."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from rheos.runs.training import train
from rheos.testing.toy import toy_registry
from rheos_cli.startup import QuickStart


@pytest.fixture(autouse=True)
def unfrozen():
    """Leave the collector as it was."""
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_is_still_until_a_run_has_started_and_passes_over_what_was_there(tmp_path):
    seen = []

    with QuickStart() as start:
        seen.append((gc.isenabled(), gc.get_freeze_count()))
        train(
            "toy",
            env="CartPole-v1",
            backend="toy",
            run_dir=tmp_path / "run",
            stop={"env_steps": 200},
            observers=[start],
            registry=toy_registry(),
        )
        seen.append((gc.isenabled(), gc.get_freeze_count() > 10_000))

    assert [(False, 0), (True, True)] == seen


def test_of_several_runs_only_the_first_freezes_anything():
    with QuickStart() as start:
        start.rheos_run_started()
        frozen = gc.get_freeze_count()
        kept = [[] for _ in range(10_000)]

        start.rheos_run_started()

        assert frozen >= gc.get_freeze_count()
        assert 10_000 == len(kept)


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_collector_is_as_before_also_after_a_failure(was_enabled):
    (gc.enable if was_enabled else gc.disable)()

    with pytest.raises(ZeroDivisionError), QuickStart():
        raise ZeroDivisionError

    assert was_enabled is gc.isenabled()


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("4", "4")])
def test_numpy_computes_with_one_thread_unless_the_environment_says_otherwise(given, expected):
    program = (
        "import os, sys; from rheos_cli.main import main; main(['list']); print(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    if given is not None:
        environment["OPENBLAS_NUM_THREADS"] = given

    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout

    assert expected == printed.splitlines()[-1]
