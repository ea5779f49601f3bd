"""Jobs: runs that an executor starts as processes of their own, such as those of a multirun."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from rheos.configuration.run_config import ExecutorConfig

__all__ = ["Job", "JobRunner", "JobsNews"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run that is to be.

    Args:
        name: what it is called in messages.
        function: `"module:function"`, gets the arguments and returns an exit code.
        arguments: of that function.
        log: the file that what the job prints is added to; its folder is made.
        executor: the settings of the executor of its run.
        actors: the names of those actors of its run that live where the runner's executor puts them.
        device: where its learner computes.
    """

    name: str
    function: str
    arguments: tuple[str, ...]
    log: Path
    executor: ExecutorConfig
    actors: tuple[str, ...] = ()
    device: str = "cpu"


JobsNews: TypeAlias = Generator[tuple[str, int | None, str]]
"""The name of a job; None where it begins, its exit code where it ends; the cause of one that is not 0."""


class JobRunner(Protocol):
    """What runs jobs; an `ExecutorSpec` names what makes it from the settings of the launcher."""

    def add(self, job: Job) -> None:
        """Add a job, before `run`.

        Raises:
            ConfigError: if what it asks for is wrong.
        """
        ...

    def run(self) -> JobsNews:
        """Run all jobs and tell of each when it begins and when it ends.

        Raises:
            ConfigError: if there is no place where they could run.
        """
        ...
