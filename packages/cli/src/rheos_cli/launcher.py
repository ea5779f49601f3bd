"""JobsLauncher: hands the jobs of a multirun to an executor that runs jobs, such as Ray."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

from rheos.configuration.run_config import RunConfig
from rheos.errors import ConfigError, UsageError
from rheos.executors.jobs import Job
from rheos.plugins import resolve
from rheos_cli.composition import plain_settings

if TYPE_CHECKING:
    from rheos.executors.jobs import JobRunner
    from rheos.plugins.registry import Registry
    from rheos.streams.stream import Stream

__all__ = ["OUR_LAUNCHERS", "JobsLauncher", "Sweep", "name_of_job", "open_settings", "register_launcher"]

_PLUGINS = "hydra_plugins"

OUR_LAUNCHERS = "hydra/launcher=rheos_"
"""What begins the choice of a launcher whose jobs are checked before they start."""

LOG = "output.log"
"""Where what a job prints is, in its run folder."""


class Sweep(Protocol):
    """A multirun, to the launcher: what its jobs are made with, and who hears of them."""

    @property
    def registry(self) -> Registry:
        """Where everything is found by name."""
        ...

    @property
    def flags(self) -> Sequence[str]:
        """Those of Hydra that each job gets."""
        ...

    def add(self, job: str, run_dir: Path) -> None:
        """Hear of a job that is to run."""
        ...

    def begins(self, job: str) -> None:
        """Hear that one begins."""
        ...

    def ends(self, job: str, code: int, cause: str) -> None:
        """Hear that one has ended, with which exit code and, where that is not 0, why."""
        ...


class JobsLauncher(Launcher):
    """Starts each job of a multirun as a process, `rheos train` with the job's own settings.

    Args:
        executor: the name of the one that runs jobs.
        settings: of its runner.
    """

    __module__ = _PLUGINS  # see register_launcher

    def __init__(self, executor: str, **settings: Any) -> None:
        self._executor, self._settings = executor, settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra knows; the task is the multirun."""
        self._loader = hydra_context.config_loader
        self._sweep = cast("Sweep", task_function)
        self._config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run jobs, and return when the last one has ended.

        Raises:
            UsageError: if the settings of one are wrong, or nothing runs jobs; then none has started.
        """
        setup_globals()
        try:
            runner = self._make_runner()
            for number, words in enumerate(job_overrides, initial_job_idx):
                self._add(runner, number, words)
            self._run(runner)
        except UsageError:
            if initial_job_idx == 0:
                self._leave_nothing()
            raise
        return [JobReturn(overrides=list(words), status=JobStatus.COMPLETED) for words in job_overrides]

    def _run(self, runner: JobRunner) -> None:
        with closing(runner.run()) as news:
            for job, code, cause in news:
                if code is None:
                    self._sweep.begins(job)
                else:
                    self._sweep.ends(job, code, cause)

    def _leave_nothing(self) -> None:
        """Remove what Hydra wrote before it called the launcher."""
        folder = Path(self._config.hydra.sweep.dir)
        (folder / "multirun.yaml").unlink(missing_ok=True)
        with suppress(OSError):  # something else is there
            folder.rmdir()

    def _make_runner(self) -> JobRunner:
        spec = self._sweep.registry.executor(self._executor)
        if spec.jobs is None:
            raise ConfigError(f"hydra.launcher.executor: got {self._executor!r}, expected an executor that runs jobs.")
        runner: JobRunner = resolve(spec.jobs, f"the executor {self._executor!r}")(self._settings)
        return runner

    def _add(self, runner: JobRunner, number: int, words: Sequence[str]) -> None:
        job = name_of_job(number, words)
        run_dir = Path(self._config.hydra.sweep.dir, str(number))
        place = run_dir.absolute()
        try:
            config = RunConfig.from_mapping(self._composed(number, words), self._sweep.registry)
            actors = _actors_elsewhere(config, self._sweep.registry) if config.executor.name == self._executor else ()
            runner.add(
                Job(
                    name=job,
                    function="rheos_cli.main:main",
                    arguments=("train", "--plain", *self._sweep.flags, *words, f"run_dir={_quoted(str(place))}"),
                    log=place / LOG,
                    executor=config.executor,
                    actors=actors,
                    device=config.device,
                )
            )
        except UsageError as error:
            raise UsageError(f"job {job}: {error}") from error
        self._sweep.add(job, run_dir)

    def _composed(self, number: int, words: Sequence[str]) -> Mapping[str, Any]:
        composed = self._loader.load_sweep_config(self._config, list(words))
        with open_dict(composed):
            composed.hydra.job.id, composed.hydra.job.num = str(number), number
        known = HydraConfig.instance()
        before = known.cfg
        known.set_config(composed)  # what refers to ${hydra:...} finds it there
        try:
            with open_dict(composed):
                del composed["hydra"]
            return plain_settings(composed)
        finally:
            known.cfg = before


def register_launcher() -> None:
    """Have Hydra find the launcher where it looks for plugins: in the package `hydra_plugins`.

    A file in that package would be imported by every other program with Hydra on this machine.
    """
    Plugins.instance().register(JobsLauncher)
    if find_spec(_PLUGINS) is None:  # no other plugin is installed
        sys.modules[_PLUGINS] = module_from_spec(ModuleSpec(_PLUGINS, None, is_package=True))
    setattr(import_module(_PLUGINS), JobsLauncher.__name__, JobsLauncher)


def name_of_job(number: int, words: Sequence[str]) -> str:
    """Return what a job of a multirun is called.

    Example:
        >>> name_of_job(1, ["algo=ppo", "++seed=3"])
        '1 (algo=ppo seed=3)'
    """
    return f"{number} ({' '.join(word.removeprefix('++') for word in words)})"


def _quoted(text: str) -> str:
    r"""Return a text as Hydra's grammar has it.

    Example:
        >>> print(_quoted("/tmp/it's=a,b"))
        '/tmp/it\'s=a,b'
    """
    # a quote is escaped, and every backslash before one; others stand for themselves
    return "'" + re.sub(r"(\\*)('|\Z)", lambda end: end[1] * 2 + end[2].replace("'", "\\'"), text) + "'"


def open_settings(words: Sequence[str]) -> list[str]:
    """Have Hydra pass on every setting of a launcher of ours, so that a misspelt one reaches the check by its runner.

    Example:
        >>> open_settings(["hydra/launcher=rheos_ray", "hydra.launcher.num_cpu=2"])
        ['hydra/launcher=rheos_ray', '++hydra.launcher.num_cpu=2']
    """
    if not any(word.startswith(OUR_LAUNCHERS) for word in words):
        return list(words)
    return [f"++{word}" if word.startswith("hydra.launcher.") else word for word in words]


def _actors_elsewhere(config: RunConfig, registry: Registry) -> tuple[str, ...]:
    """Return the names of the actors that live where the executor puts them, in the order of the flow."""
    from rheos.runs.program import describe
    from rheos.streams import nodes
    from rheos.streams.actors import Placement

    stream: Stream[Any] = describe(config, registry).stream
    names: dict[str, None] = {}
    for node in nodes.stages(stream.node):
        is_source = isinstance(node, nodes.FromActors)
        for actor in node.actors():
            if actor.placement is Placement.REMOTE or (is_source and actor.placement is Placement.AUTO):
                names[actor.name] = None
    return tuple(names)
