"""Run: what the life-cycle hooks and observers see of a run."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from rheos.plugins.loading import new_manager
from rheos.plugins.registry import PluginWarning
from rheos.runs.status import RunStatus
from rheos.runs.totals import Totals

if TYPE_CHECKING:
    from rheos.configuration.run_config import RunConfig
    from rheos.plugins.registry import Registry
    from rheos.runs.evaluation_result import EvaluationResult
    from rheos.runs.folder import RunFolder

__all__ = ["LifeCycle", "Run"]


@dataclass
class Run:
    """A run as it goes on: to look at, not to change."""

    config: RunConfig
    folder: RunFolder
    totals: Totals = field(default_factory=Totals)
    status: RunStatus = field(default_factory=RunStatus)
    started_at: float = field(default_factory=time.perf_counter)
    """By `time.perf_counter`; of a run that was resumed, as if it had never been cut."""
    resumed_at: int | None = None
    """The env steps from which it was resumed; None for a run that began here."""
    changes: tuple[str, ...] = ()
    """Settings of a resumed run that are others by now, and on which depends what it learns; each with what it was."""
    evaluation: EvaluationResult | None = None
    """The newest one; None before the first."""
    busy: Mapping[str, float] = field(default_factory=dict)
    """In which share of the time between the last two rows the driver, and the mean actor of each role, worked."""
    restarts: int = 0
    """How many workers were made anew since the run began, or was resumed."""

    @property
    def wall_s(self) -> float:
        """The seconds since the run began, without the time from a cut until it was resumed."""
        return time.perf_counter() - self.started_at


class LifeCycle:
    """Tells the plugins of a run, and then its observers, what comes to pass.

    A plugin that fails is a warning, once a hook, and the others are told all the same: it must not end a run that
    did not ask for it. An observer was given by the caller, so its error is the caller's.

    Args:
        run: what they are told of.
        registry: whose plugins are told.
        observers: objects whose methods are hooks, marked as in a plugin: `@hookimpl def rheos_report(self, row)`.

    Raises:
        TypeError: if an observer has no hook, or one that does not exist.
    """

    def __init__(self, run: Run, registry: Registry, observers: Sequence[object]) -> None:
        self._run = run
        self._plugins = registry.hook
        self._observers = _hooks_of(observers)
        self._warned: set[tuple[str, str]] = set()

    def started(self) -> None:
        """Tell that the run begins."""
        self._tell("rheos_run_started")

    def report(self, row: Mapping[str, float]) -> None:
        """Tell of a row of measurements."""
        self._tell("rheos_report", row=row)

    def checkpoint_saved(self, path: Path) -> None:
        """Tell of a checkpoint."""
        self._tell("rheos_checkpoint_saved", path=path)

    def ended(self) -> None:
        """Tell that the run ended."""
        self._tell("rheos_run_ended")

    def _tell(self, hook: str, **arguments: Any) -> None:
        arguments["run"] = self._run
        caller: pluggy.HookCaller = getattr(self._plugins, hook)
        for plugin in reversed(caller.get_hookimpls()):  # the last one first, as pluggy does
            try:
                plugin.function(*(arguments[name] for name in plugin.argnames))
            except (Exception, SystemExit) as error:
                self._warn(plugin.plugin_name, hook, error)
        getattr(self._observers, hook)(**arguments)

    def _warn(self, plugin: str, hook: str, error: BaseException) -> None:
        if (plugin, hook) not in self._warned:
            self._warned.add((plugin, hook))
            text = f"the plugin {plugin} failed in {hook}: {error!r}; the run goes on."
            warnings.warn(text, PluginWarning, stacklevel=4)


def _hooks_of(observers: Sequence[object]) -> pluggy.HookRelay:
    manager = new_manager()
    for observer in reversed(observers):  # pluggy calls the last one first
        manager.register(observer)
        if not manager.get_hookcallers(observer):
            raise TypeError(f"the observer {observer!r} has no hook: mark its methods with @rheos.hookimpl.")
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise TypeError(f"an observer has a hook that does not exist: {error}.") from error
    return manager.hook
