"""RayJobRunner: runs as jobs on a cluster, each in a process of its own, with room kept for that and for its actors."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeAlias

import ray
from ray.exceptions import RayTaskError, TaskCancelledError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rheos.configuration.settings import from_mapping, setting
from rheos.errors import ConfigError, RheosWarning
from rheos.executors.jobs import Job, JobsNews
from rheos.plugins import resolve
from rheos.runs.interrupts import Interruptions
from rheos_ray.cluster import Cluster, check_runtime_env, keep_places
from rheos_ray.config import RayConfig, ResourcesConfig
from rheos_ray.logs import ActorLog
from rheos_ray.rooms import Room, amounts, fits, is_learner, nodes_of_cluster, options_of, resources_of, room_of, total

__all__ = ["JobsConfig", "RayJobRunner"]

_INTERRUPTED = 130
_GRACE_S = 30.0
"""Seconds that jobs have to save what they know when they are asked to stop."""


@dataclass(frozen=True)
class JobsConfig:
    """Where the cluster is, and what is kept for the process of each job, beside what its actors need."""

    address: str = setting("auto", allow_empty=False, help="as executor.address: auto, local, or where a cluster is")
    num_cpus: float = setting(1.0, exclusive_minimum=0.0, unit="cores", help="cores that are kept for each job")
    num_gpus: float | None = setting(
        None, minimum=0.0, unit="GPUs", help="GPUs that are kept for each job; null: one where its device is a GPU"
    )
    start_timeout_s: float = setting(
        60.0, minimum=0.0, unit="s", help="how long to wait for nodes where the cluster is too small for a job"
    )
    warn_after_s: float = setting(
        60.0, exclusive_minimum=0.0, unit="s", help="say what is waited for when no job runs for so long"
    )
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    """What the engine brings to the nodes for each job, beside what a job's executor.runtime_env says."""


@dataclass(eq=False)
class _Task:
    """A job that waits for its room, or has it."""

    job: Job
    rooms: list[Room]
    """The first is for its process, each other one for an actor."""
    places: dict[str, int]
    """Which of them is for which actor, by name; one that asks for nothing has none."""
    strategy: str
    runtime_env: dict[str, Any]
    deadline: float | None = None
    """When it is given up, where the cluster is too small for it."""
    group: Any = None
    outcome: Any = None
    """What the engine promised for its end, once it runs."""


Event: TypeAlias = Callable[[], JobsNews]


class RayJobRunner:
    """Runs jobs at the same time as far as there is room for them; the rest wait.

    A job's process and the actors of its run are placed in what is kept for it alone, so the actors of one job
    never wait for those of another.

    Args:
        settings: those of `JobsConfig`, by name.

    Raises:
        ConfigError: for a wrong setting.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._config = from_mapping(JobsConfig, settings, "hydra.launcher")
        check_runtime_env(self._config.runtime_env, "hydra.launcher.runtime_env", is_of_task=True)
        self._waiting: list[_Task] = []
        self._running: list[_Task] = []
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._is_stopping = False

    def add(self, job: Job) -> None:
        """Add a job, before `run`.

        Raises:
            ConfigError: if its runtime environment is wrong.
        """
        task = _Task(job, [self._room_of_process(job)], {}, "PACK", dict(self._config.runtime_env))
        if isinstance(job.executor, RayConfig):
            for actor in job.actors:
                if room := room_of(options_of(resources_of(actor, job.executor))):
                    task.places[actor] = len(task.rooms)
                    task.rooms.append(room)
            if job.executor.placement_group != "none":
                task.strategy = job.executor.placement_group
            task.runtime_env = _merged(task.runtime_env, job.executor.runtime_env)
            check_runtime_env(task.runtime_env, "executor.runtime_env", is_of_task=True)
        self._waiting.append(task)

    def run(self) -> JobsNews:
        """Run all jobs and tell of each when it begins and when it ends.

        Ctrl-C asks those that run to stop, and the others do not start; after a second one, or when the iterator is
        closed, all are ended at once.

        Yields:
            The name of a job; None when it begins, its exit code when it ends; the cause of another one than 0.

        Raises:
            ConfigError: if there is no cluster where one was to be.
        """
        with ExitStack() as to_close:
            to_close.callback(ActorLog(self._folder() / "actors.log").close)  # after the last lines have come
            cluster = self._connect()
            to_close.callback(cluster.close)
            interruptions = to_close.enter_context(Interruptions())  # Ray takes SIGTERM for itself when it connects
            interruptions.on_request(lambda: self._events.put(self._stop))
            try:
                for task in self._waiting:
                    self._ask_for_room(task, 0.0 if cluster.is_own else self._config.start_timeout_s)
                while self._waiting or self._running:
                    yield from self._next_event()()
            finally:
                for task in [*self._waiting, *self._running]:
                    self._end(task)

    def _connect(self) -> Cluster:
        """Join the cluster, or make one, which has cores enough for each of the jobs."""
        cores = max((total(task.rooms)["CPU"] for task in self._waiting), default=0.0)
        try:
            return Cluster(RayConfig(address=self._config.address), cores)
        except ConfigError as error:
            raise ConfigError(str(error).replace("executor.address", "hydra.launcher.address")) from error

    def _folder(self) -> Path:
        """Return the one that holds the folders of all jobs."""
        return Path(os.path.commonpath([task.job.log.parent.parent for task in self._waiting]))

    # what happens, one thing after the other

    def _next_event(self) -> Event:
        deadlines = [task.deadline for task in self._waiting if task.deadline is not None]
        while True:
            patience_s = max(0.0, min(deadlines) - monotonic()) if deadlines else None
            is_idle = not self._running
            if is_idle and (patience_s is None or patience_s > self._config.warn_after_s):
                with suppress(Empty):
                    return self._events.get(timeout=self._config.warn_after_s)
                self._warn()
                continue
            with suppress(Empty):
                return self._events.get(timeout=patience_s)
            return self._give_up

    def _warn(self) -> None:
        first = self._waiting[0]
        text = f"no job runs, {len(self._waiting)} wait: job {first.job.name} {_asked(first)}, others use it"
        warnings.warn(f"{text}; Ctrl-C ends the wait.", RheosWarning, stacklevel=4)

    def _ask_for_room(self, task: _Task, patience_s: float) -> None:
        if not _can_fit(task):
            task.deadline = monotonic() + patience_s
        task.group = placement_group(task.rooms, strategy=task.strategy)
        future: Any = task.group.ready().future()
        future.add_done_callback(lambda _: self._events.put(lambda: self._start(task)))

    def _start(self, task: _Task) -> JobsNews:
        if task not in self._waiting or self._is_stopping:  # given up by now
            return
        self._waiting.remove(task)
        self._running.append(task)
        place = PlacementGroupSchedulingStrategy(task.group, 0, placement_group_capture_child_tasks=True)
        first = task.rooms[0]
        process: Any = ray.remote(max_calls=1)(_run_job)  # its process ends with it
        options: dict[str, Any] = {"runtime_env": task.runtime_env} if task.runtime_env else {}
        job = task.job
        task.outcome = process.options(
            num_cpus=first["CPU"],
            num_gpus=first.get("GPU", 0),
            scheduling_strategy=place,
            max_retries=0,  # half a run is in its folder
            name=job.name,
            **options,
        ).remote(job.function, job.arguments, str(job.log), os.getcwd(), task.places)
        future: Any = task.outcome.future()
        future.add_done_callback(lambda done: self._events.put(lambda: self._take_in(task, done)))
        yield job.name, None, ""

    def _take_in(self, task: _Task, done: Any) -> JobsNews:
        if task not in self._running:
            return
        self._running.remove(task)
        error = done.exception()
        self._end(task)
        if error is None:
            code, reason = done.result()
        elif isinstance(error, TaskCancelledError) and not task.job.log.exists():  # it had not begun
            code, reason = _INTERRUPTED, "interrupted"
        else:
            code, reason = 1, _cause(error)
        if code not in (0, _INTERRUPTED) and task.job.log.exists():
            reason += f" (what it printed: {task.job.log})"
        yield task.job.name, code, reason

    def _give_up(self) -> JobsNews:
        for task in [task for task in self._waiting if task.deadline is not None and task.deadline <= monotonic()]:
            task.deadline = None
            if _can_fit(task):  # nodes have joined
                continue
            self._waiting.remove(task)
            self._end(task)
            yield task.job.name, 1, f"it can never start: it {_asked(task)}."

    def _stop(self) -> JobsNews:
        """Ask what runs to stop, and forget what waits."""
        self._is_stopping = True
        while self._waiting:
            self._end(self._waiting.pop())
        deadline = monotonic() + _GRACE_S
        for task in self._running:
            task.deadline = deadline
            ray.cancel(task.outcome, recursive=False)
        while self._running:
            try:
                yield from self._events.get(timeout=max(0.0, deadline - monotonic()))()
            except Empty:
                for task in list(self._running):
                    self._running.remove(task)
                    self._end(task)
                    yield task.job.name, _INTERRUPTED, f"it did not stop in {_GRACE_S:g} s; its process is ended"

    @staticmethod
    def _end(task: _Task) -> None:
        """Give back the room of a job; what still lives in it is ended."""
        if task.outcome is not None:
            ray.cancel(task.outcome, force=True)
        if task.group is not None:
            remove_placement_group(task.group)

    def _room_of_process(self, job: Job) -> Room:
        num_gpus = self._config.num_gpus
        if num_gpus is None:
            has_learner = not any(is_learner(actor) for actor in job.actors)
            num_gpus = float(has_learner and job.device.startswith("cuda"))
        return room_of(options_of(ResourcesConfig(num_cpus=self._config.num_cpus, num_gpus=num_gpus)))


def _run_job(
    function: str, arguments: Sequence[str], log: str, folder: str, places: Mapping[str, int]
) -> tuple[int, str]:
    """Run a job in this process, which ends afterwards; return its exit code and what it printed of its failure."""
    _wake_when_interrupted()
    keep_places(places)
    if os.path.isdir(folder):
        os.chdir(folder)
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", buffering=1) as text, redirect_stdout(text), redirect_stderr(text):
        for number in (1, 2):  # also what libraries and child processes print
            os.dup2(text.fileno(), number)
        try:
            code: int = resolve(function)(list(arguments))
        except KeyboardInterrupt:  # while it began or ended
            code = _INTERRUPTED
    return code, _last_words(path) if code else ""


def _last_words(log: Path) -> str:
    """Return the last line that tells an error, or the last one."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    told = [line.removeprefix("rheos: ") for line in lines if line.startswith("rheos: ")]
    return (told or lines or ["it printed nothing"])[-1]


def _wake_when_interrupted() -> None:
    """Have an interruption reach the main thread also where it waits.

    When the engine cancels a task, it has Python note an interruption, as `_thread.interrupt_main` does; the main
    thread sees that once it goes on. Here, another thread hears of the note and sends it a signal, which ends the wait.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else one from a script's background stays deaf
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.signal(signal.SIGURG, lambda number, frame: None)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    main = threading.get_ident()

    def watch() -> None:
        while True:
            if signal.SIGINT in os.read(readable, 64):
                signal.pthread_kill(main, signal.SIGURG)

    threading.Thread(target=watch, daemon=True).start()


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return both runtime environments in one: the second counts where both say something, variable by variable."""
    merged = {**first, **second}
    if "env_vars" in merged:
        merged["env_vars"] = {**first.get("env_vars", {}), **second.get("env_vars", {})}
    return merged


def _can_fit(task: _Task) -> bool:
    """Tell whether an empty cluster has nodes for all of it."""
    return fits(task.rooms, nodes_of_cluster(), task.strategy)


_STRICTLY = {
    "STRICT_PACK": " on one node (executor.placement_group=STRICT_PACK)",
    "STRICT_SPREAD": " on as many nodes as processes (executor.placement_group=STRICT_SPREAD)",
}


def _asked(task: _Task) -> str:
    """Return `asked for 5 CPU (its process 1 CPU; 4 actors, each 1 CPU), the cluster has 4 CPU on 1 node`."""
    nodes, rooms = nodes_of_cluster(), task.rooms
    asked, there = total(rooms), total(nodes)
    alike = Counter(amounts(room) for room in rooms[1:])
    parts = [f"its process {amounts(rooms[0])}"]
    parts += [f"{count} actors, each {room}" if count > 1 else f"an actor {room}" for room, count in alike.items()]
    has = amounts({name: there.get(name, 0.0) for name in asked})
    how, where = _STRICTLY.get(task.strategy, ""), "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    return f"asked for {amounts(asked)} ({'; '.join(parts)}){how}, the cluster has {has} on {where}"


def _cause(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [repr(error)]
    if isinstance(error, RayTaskError):  # what could not even begin
        return lines[-1]
    if isinstance(error, TaskCancelledError):  # all that Ray says of one that died when it was to stop
        return "its process is gone: it died while it was to stop"
    return f"its process is gone: {lines[0]}"
