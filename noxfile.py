"""The sessions that develop Rheos, the same at home and in CI: `nox -l` lists them, `nox -s lint` runs one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "venv"
nox.options.error_on_external_run = True
nox.options.sessions = ["lint", "imports", "types", "docs", "tests"]

PYTHON_PATHS = ["packages", "tests", "benchmarks", "examples", "template", "docs", "noxfile.py", "conftest.py"]
PACKAGES = sorted(path.parent.name for path in Path("packages").glob("*/pyproject.toml"))
"""The folders of the packages, each the distribution `rheos-<folder>`."""

BUILD_TOOLS = ["hatchling", "editables"]
TEST_TOOLS = ["pytest", "hypothesis", "psutil"]
NEED_TEST_TOOLS = ("rheos.testing.executor_suite", "rheos.testing.random_programs")
"""Modules that only tests import, with what the extra `rheos-core[testing]` brings."""
BENCH_TOOLS = ["pytest", "pytest-benchmark"]
DOCS_TOOLS = ["mkdocs", "mkdocs-material", "mkdocstrings-python"]
IMPORT_TOOLS = ["import-linter"]
LINT_TOOLS = ["ruff"]
TYPE_TOOLS = [
    "mypy",
    "pyright[nodejs]",
    "types-PyYAML",
    "pytest",
    "nox",
    "hypothesis",
]  # [nodejs]: else it downloads node itself
RIVALS = ["stable-baselines3", "opencv-python-headless"]
RIVALS_APART = ["tianshou>=2"]
"""Rivals that want older versions of tools than constraints.txt has."""
EXTRAS = {"core": "[atari,box2d,mujoco]", "cli": "[video]", "backend-torch": "[onnx]"}
"""What packages have as extras, and tests and benchmarks use."""
ON_DEMAND = {"backend-tf": "backend=tf", "executor-ray": "executor=ray"}
"""Packages that `train` installs only if these words are among those that it is given: TensorFlow is 600 MB, Ray 70."""


@nox.session
def train(session: nox.Session) -> None:
    """Install what it needs and train PPO on CartPole until it is solved; or say what: `-- algo=ppo env=pendulum`.

    What is a large download is installed where it is asked for: `-- backend=tf algo=ppo`, `-- executor=ray algo=ppo`.
    """
    needed = [name for name in PACKAGES if name not in ON_DEMAND or ON_DEMAND[name] in session.posargs]
    install_everything(session, extras=EXTRAS if session.posargs else {}, packages=needed)

    session.run("rheos", "train", *(session.posargs or ["algo=ppo", "env=cartpole", "stop.episode_return=475"]))

    session.log(f"To go on with this installation: source {session.virtualenv.location}/bin/activate")


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests with everything installed; `-- --slow` adds those that take minutes, or name files."""
    install_everything(session, *TEST_TOOLS, "build", extras=EXTRAS)

    session.run("pytest", *session.posargs)


@nox.session
@nox.parametrize("package", [nox.param(package, id=package) for package in PACKAGES])
def alone(session: nox.Session, package: str) -> None:
    """Install one package with only what it declares, import all of it, and run its own tests."""
    folders = [f"./packages/{name}" for name in with_needs(package)]
    modules = modules_of(package)

    install(session, *folders)  # wheels, so a file that the wheel lacks is missed here
    session.run("python", "-m", "pip", "check")
    for_tests = [module for module in modules if module.startswith(NEED_TEST_TOOLS)]
    session.log(f"import all {len(modules)} modules, {len(for_tests)} of them once there is what they test with")
    session.run("python", "-c", f"import {', '.join(sorted({*modules} - {*for_tests}))}", log=False)
    install(session, *TEST_TOOLS)
    if for_tests:
        session.run("python", "-c", f"import {', '.join(for_tests)}", log=False)
    session.run("pytest", f"packages/{package}/tests", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format; `-- --fix` mends what can be mended."""
    install(session, *LINT_TOOLS)
    is_fixing = "--fix" in session.posargs

    session.run("ruff", "check", *(["--fix"] if is_fixing else []), *PYTHON_PATHS)
    session.run("ruff", "format", *([] if is_fixing else ["--check", "--diff"]), *PYTHON_PATHS)


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of every package, of the examples and of the template, strictly, with mypy and pyright.

    Both must find nothing there, and every mistake of tests/typing/mistakes/.
    """
    install_everything(session, *TYPE_TOOLS, extras=EXTRAS)

    session.run("mypy")
    session.run("pyright")
    session.run("pytest", "tests/test_typing_mistakes.py")


@nox.session
def imports(session: nox.Session) -> None:
    """Check the dependency rule: who may import whom (the contracts are in pyproject.toml)."""
    install(session, *IMPORT_TOOLS)

    sources = ":".join(f"packages/{package}/src" for package in PACKAGES)  # read, never imported, so not installed
    session.run("lint-imports", "--no-logo", env={"PYTHONPATH": sources})


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into site/, warnings as errors; `-- serve` shows it while it is written."""
    install(session, *DOCS_TOOLS)

    session.run("mkdocs", *(session.posargs or ["build", "--strict"]), env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks; give names of files to run some of them."""
    install_everything(session, *BENCH_TOOLS)

    files = session.posargs or ["benchmarks", "--ignore=benchmarks/compare"]
    session.run("pytest", "-o", "python_files=bench_*.py", *files)


@nox.session
def compare(session: nox.Session) -> None:
    """Measure Rheos beside other libraries, in one run; installs them on demand."""
    install_everything(session, *RIVALS, extras=EXTRAS)
    session.install(*RIVALS_APART, pinned_torch())

    for script in session.posargs or sorted(str(path) for path in Path("benchmarks/compare").glob("[!_]*.py")):
        session.run("python", script)


@nox.session
def pins(session: nox.Session) -> None:
    """Renew constraints.txt: the newest releases of everything that a session installs, torch as it is."""
    tools = [*TEST_TOOLS, *BENCH_TOOLS, *DOCS_TOOLS, *IMPORT_TOOLS, *LINT_TOOLS, *TYPE_TOOLS, *RIVALS, "build", "nox"]
    report = Path(session.create_tmp()).resolve() / "report.json"

    session.run(
        *("python", "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)),
        *(*BUILD_TOOLS, *tools, pinned_torch()),
        *(f"./packages/{package}{EXTRAS.get(package, '')}" for package in PACKAGES),
    )

    found = [entry["metadata"] for entry in json.loads(report.read_text())["install"]]
    pinned = {re.sub(r"[-_.]+", "-", part["name"]).lower(): part["version"].partition("+")[0] for part in found}
    lines = [f"{name}=={version}" for name, version in sorted(pinned.items()) if not name.startswith("rheos-")]
    header = [line for line in CONSTRAINTS.read_text().splitlines() if line.startswith("#")]
    CONSTRAINTS.write_text("\n".join([*header, *lines, ""]))


CONSTRAINTS = Path("constraints.txt")


def pinned_torch() -> str:
    """Return torch as constraints.txt has it: a wheel for the CPU, where a newer one may be several GB."""
    torch = re.search(r"^torch==.*$", CONSTRAINTS.read_text(), re.MULTILINE)
    return torch.group() if torch else "torch"


def install(session: nox.Session, *arguments: str) -> None:
    """Install with pip, at the pinned versions."""
    session.install("-c", str(CONSTRAINTS), *arguments)


def install_everything(
    session: nox.Session,
    *tools: str,
    extras: Mapping[str, str] = MappingProxyType({}),
    packages: Sequence[str] = PACKAGES,
) -> None:
    """Install every package, editable, and tools; the build tools once, not once for each package."""
    install(session, *BUILD_TOOLS, *tools)
    install(session, "--no-build-isolation", *(part for name in packages for part in ("-e", f"./packages/{name}")))
    if extras:  # afterwards: pip looks for a package with extras elsewhere when another one needs it without
        folders = [f"./packages/{name}{extra}" for name, extra in extras.items() if name in packages]
        install(session, "--no-build-isolation", *(part for folder in folders for part in ("-e", folder)))


def with_needs(package: str) -> list[str]:
    """Return the package and those of ours that it needs, directly or not."""
    project = nox.project.load_toml(f"packages/{package}/pyproject.toml")["project"]
    ours = [match.group(1) for line in project["dependencies"] if (match := re.match(r"rheos-([a-z0-9-]+)", line))]
    return sorted({package, *(name for needed in ours for name in with_needs(needed))})


def modules_of(package: str) -> list[str]:
    """Return the names of all modules of a package."""
    source = Path("packages", package, "src")
    parts = (path.relative_to(source).with_suffix("").parts for path in sorted(source.rglob("*.py")))
    return [".".join(part[:-1] if part[-1] == "__init__" else part) for part in parts if part[-1] != "__main__"]
