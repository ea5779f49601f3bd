"""A stranger's package: installed as a wheel or editable, its algorithm is listed, trained by name, and acts again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

HILLCLIMB = Path(__file__).parent / "strangers" / "hillclimb"

Rheos = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module", params=["wheel", "editable"])
def way(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the stranger's repository, far from ours."""
    return Path(shutil.copytree(HILLCLIMB, tmp_path_factory.mktemp("stranger") / "hillclimb"))


@pytest.fixture(scope="module")
def python(way: str, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has everything that this one has, and the stranger's package."""
    folder = tmp_path_factory.mktemp(way)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    here = Path(sysconfig.get_path("purelib"))
    there = folder / here.relative_to(sys.prefix)
    # addsitedir, not a bare path: it also reads the .pth files by which our own packages are editable
    (there / "everything_else.pth").write_text(f"import site; site.addsitedir({str(here)!r})\n")
    python = folder / Path(sys.executable).relative_to(sys.prefix)
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    what = ["--editable", str(source)] if way == "editable" else [str(source)]
    subprocess.run([python, "-m", "pip", "install", *flags, *what], check=True)
    return python


@pytest.fixture
def rheos(python: Path, tmp_path: Path) -> Rheos:
    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "rheos_cli", *words],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_the_package_is_where_it_was_installed(python: Path, way: str, source: Path):
    program = "import hillclimb; print(hillclimb.__file__)"

    where = Path(subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip())

    assert {"wheel": python.parents[1], "editable": source}[way] in where.parents


def test_its_algorithm_is_listed_and_described(rheos: Rheos):
    listed = json.loads(rheos("list", "algo", "--json").stdout)["algo"]
    described = json.loads(rheos("info", "hillclimb", "--json").stdout)

    expected = {
        "name": "hillclimb",
        "summary": "keeps the best of some random changes of the weights",
        "package": "stranger-hillclimb",
        "version": "2.5",
    }
    assert expected in listed
    assert expected == {key: described[key] for key in expected}
    assert ["rollout_steps", "noise_scale"] == [setting["name"] for setting in described["settings"]]


def test_it_is_trained_by_name_and_acts_again(rheos: Rheos, tmp_path: Path):
    words = [
        "algo=hillclimb",
        "env=cartpole",
        "stop.env_steps=2000",
        "algo.noise_scale=0.5",
        "logger=none",
        "run_dir=climbed",
    ]

    trained = rheos("train", *words, "env=cartpole")
    evaluated = rheos("eval", "climbed", "--episodes", "2", "--json")

    assert (0, "") == (trained.returncode, trained.stderr)
    status = json.loads((tmp_path / "climbed" / "status.json").read_text())
    assert ("done", True) == (status["state"], status["env_steps"] >= 2000)
    assert "noise_scale: 0.5" in (tmp_path / "climbed" / "config.yaml").read_text()
    assert 2 == len(json.loads(evaluated.stdout)["episode_returns"])


def test_a_multirun_has_a_run_for_each_job(rheos: Rheos, tmp_path: Path):
    words = ["algo=hillclimb", "env=cartpole", "seed=0,1", "stop.env_steps=800", "logger=none", "run_dir=both"]

    done = rheos("train", "-m", *words)

    assert (0, "") == (done.returncode, done.stderr)
    runs = [json.loads((tmp_path / "both" / job / "status.json").read_text()) for job in ("0", "1")]
    assert ["done", "done"] == [status["state"] for status in runs]
    assert runs[0]["weights_sha256"] != runs[1]["weights_sha256"]


def test_its_mistakes_are_explained_like_those_of_our_own(rheos: Rheos, tmp_path: Path):
    near = rheos("train", "algo=hilclimb")
    wrong = rheos("train", "algo=hillclimb", "algo.noise_scal=1")

    assert (2, 2) == (near.returncode, wrong.returncode)
    assert near.stderr.startswith("rheos: No algorithm 'hilclimb'. Did you mean 'hillclimb'? Installed: ")
    assert wrong.stderr.startswith("rheos: algo.noise_scal: no such setting. Did you mean 'algo.noise_scale'? ")
    assert [] == list(tmp_path.iterdir())


def test_it_can_be_disabled(rheos: Rheos):
    done = rheos("train", "algo=hillclimb", RHEOS_DISABLED_PLUGINS="hillclimb")

    assert (2, 1) == (done.returncode, done.stderr.count("\n"))
    assert "package stranger-hillclimb 2.5 is disabled by RHEOS_DISABLED_PLUGINS" in done.stderr
