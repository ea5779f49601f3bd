"""JobRunner: runs as jobs on a cluster, each in a process of its own, with room kept for that and for its actors."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
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
from rheos.plugins import resolve
from rheos.runs.interrupts import Interruptions
from rheos_ray.cluster import Cluster
from rheos_ray.config import RayConfig, ResourcesConfig
from rheos_ray.logs import ActorLog

__all__ = ["JobRunner", "JobsConfig"]

Room: TypeAlias = dict[str, float]
"""What is kept for a process, on one node: amounts by the engine's names, memory in bytes."""

_BYTES_PER_GB = 10**9
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
class _Job:
    """A run that is to be, waits for its room, or has it."""

    name: str
    function: str
    arguments: tuple[str, ...]
    log: Path
    rooms: list[Room]
    """The first is for its process, each other one for an actor."""
    strategy: str
    runtime_env: dict[str, Any]
    deadline: float | None = None
    """When it is given up, where the cluster is too small for it."""
    group: Any = None
    outcome: Any = None
    """What the engine promised for its end, once it runs."""


News: TypeAlias = Generator[tuple[str, int | None, str]]
"""The name of a job; None where it begins, its exit code where it ends; the cause of one that is not 0."""

Event: TypeAlias = Callable[[], News]


class JobRunner:
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
        self._waiting: list[_Job] = []
        self._running: list[_Job] = []
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._is_stopping = False

    def add(
        self,
        name: str,
        function: str,
        arguments: Sequence[str],
        log: Path,
        *,
        executor: object,
        actors: Sequence[str],
        device: str,
    ) -> None:
        """Add a job, before `run`.

        Args:
            name: what it is called in messages.
            function: `"module:function"`, gets the arguments and returns an exit code.
            arguments: of that function.
            log: the file that what the job prints is added to; its folder is made.
            executor: the settings of the executor of its run.
            actors: the names of those actors of its run that live where this executor puts them.
            device: where its learner computes.
        """
        rooms, strategy, runtime_env = [self._room_of_process(device)], "PACK", dict(self._config.runtime_env)
        if isinstance(executor, RayConfig):
            learner, worker = _room(executor.learner), _room(executor.worker)
            rooms += filter(None, (learner if actor.startswith("learner") else worker for actor in actors))
            if executor.placement_group != "none":
                strategy = executor.placement_group
            runtime_env |= executor.runtime_env
        self._waiting.append(_Job(name, function, tuple(arguments), log, rooms, strategy, runtime_env))

    def run(self) -> News:
        """Run all jobs and tell of each when it begins and when it ends.

        Ctrl-C asks those that run to stop, and the others do not start; after a second one, or when the iterator is
        closed, all are ended at once.

        Yields:
            The name of a job; None when it begins, its exit code when it ends; the cause of another one than 0.

        Raises:
            ConfigError: if there is no cluster where one was to be.
        """
        with ExitStack() as to_close, Interruptions() as interruptions:
            to_close.callback(ActorLog(self._folder() / "actors.log").close)  # after the last lines have come
            to_close.callback(self._connect().close)
            interruptions.on_request(lambda: self._events.put(self._stop))
            try:
                for job in self._waiting:
                    self._ask_for_room(job)
                while self._waiting or self._running:
                    yield from self._next_event()()
            finally:
                for job in [*self._waiting, *self._running]:
                    self._end(job)

    def _connect(self) -> Cluster:
        """Join the cluster, or make one, which has cores enough for each of the jobs."""
        cores = max((_sum(job.rooms)["CPU"] for job in self._waiting), default=0.0)
        all_cores, none = ResourcesConfig(num_cpus=cores), ResourcesConfig(num_cpus=0.0)
        try:
            return Cluster(RayConfig(address=self._config.address, workers=1, worker=all_cores, learner=none))
        except ConfigError as error:
            raise ConfigError(str(error).replace("executor.address", "hydra.launcher.address")) from error

    def _folder(self) -> Path:
        """Return the one that holds the folders of all jobs."""
        return Path(os.path.commonpath([job.log.parent.parent for job in self._waiting]))

    # what happens, one thing after the other

    def _next_event(self) -> Event:
        deadlines = [job.deadline for job in self._waiting if job.deadline is not None]
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
        text = f"no job runs, {len(self._waiting)} wait: job {first.name} {_asked(first.rooms)}, others use it"
        warnings.warn(f"{text}; Ctrl-C ends the wait.", RheosWarning, stacklevel=4)

    def _ask_for_room(self, job: _Job) -> None:
        if not _fits(job.rooms):
            is_fixed = self._config.address == "local"
            job.deadline = monotonic() + (0.0 if is_fixed else self._config.start_timeout_s)
        job.group = placement_group(job.rooms, strategy=job.strategy)
        future: Any = job.group.ready().future()
        future.add_done_callback(lambda _: self._events.put(lambda: self._start(job)))

    def _start(self, job: _Job) -> News:
        if job not in self._waiting or self._is_stopping:  # given up by now
            return
        self._waiting.remove(job)
        self._running.append(job)
        place = PlacementGroupSchedulingStrategy(job.group, 0, placement_group_capture_child_tasks=True)
        first = job.rooms[0]
        task: Any = ray.remote(max_calls=1)(_run_job)  # its process ends with it
        options: dict[str, Any] = {"runtime_env": job.runtime_env} if job.runtime_env else {}
        job.outcome = task.options(
            num_cpus=first["CPU"],
            num_gpus=first.get("GPU", 0),
            scheduling_strategy=place,
            max_retries=0,  # half a run is in its folder
            name=job.name,
            **options,
        ).remote(job.function, job.arguments, str(job.log), os.getcwd())
        future: Any = job.outcome.future()
        future.add_done_callback(lambda done: self._events.put(lambda: self._take_in(job, done)))
        yield job.name, None, ""

    def _take_in(self, job: _Job, done: Any) -> News:
        if job not in self._running:
            return
        self._running.remove(job)
        error = done.exception()
        self._end(job)
        if error is None:
            code, reason = done.result()
        elif isinstance(error, TaskCancelledError) or self._is_stopping:
            code, reason = _INTERRUPTED, "interrupted"
        else:
            code, reason = 1, _cause(error)
        if code not in (0, _INTERRUPTED) and job.log.exists():
            reason += f" (what it printed: {job.log})"
        yield job.name, code, reason

    def _give_up(self) -> News:
        for job in [job for job in self._waiting if job.deadline is not None and job.deadline <= monotonic()]:
            job.deadline = None
            if _fits(job.rooms):  # nodes have joined
                continue
            self._waiting.remove(job)
            self._end(job)
            yield job.name, 1, f"it can never start: it {_asked(job.rooms)}."

    def _stop(self) -> News:
        """Ask what runs to stop, and forget what waits."""
        self._is_stopping = True
        while self._waiting:
            self._end(self._waiting.pop())
        deadline = monotonic() + _GRACE_S
        for job in self._running:
            job.deadline = deadline
            ray.cancel(job.outcome, recursive=False)
        while self._running:
            try:
                yield from self._events.get(timeout=max(0.0, deadline - monotonic()))()
            except Empty:
                for job in list(self._running):
                    self._running.remove(job)
                    self._end(job)
                    yield job.name, _INTERRUPTED, f"it did not stop in {_GRACE_S:g} s; its process is ended"

    @staticmethod
    def _end(job: _Job) -> None:
        """Give back the room of a job; what still lives in it is ended."""
        if job.outcome is not None:
            ray.cancel(job.outcome, force=True)
        if job.group is not None:
            remove_placement_group(job.group)

    def _room_of_process(self, device: str) -> Room:
        num_gpus = self._config.num_gpus
        if num_gpus is None:
            num_gpus = float(device.startswith("cuda"))
        return _room(ResourcesConfig(num_cpus=self._config.num_cpus, num_gpus=num_gpus))


def _run_job(function: str, arguments: Sequence[str], log: str, folder: str) -> tuple[int, str]:
    """Run a job in this process, which ends afterwards; return its exit code and what it printed of its failure."""
    _wake_when_interrupted()
    if os.path.isdir(folder):
        os.chdir(folder)
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", buffering=1) as text, redirect_stdout(text), redirect_stderr(text):
        for number in (1, 2):  # also what libraries and child processes print
            os.dup2(text.fileno(), number)
        code: int = resolve(function)(list(arguments))
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


def _room(resources: ResourcesConfig) -> Room:
    room: Room = {"CPU": resources.num_cpus, "GPU": resources.num_gpus, **resources.resources}
    if resources.memory_gb is not None:
        room["memory"] = int(resources.memory_gb * _BYTES_PER_GB)
    return {name: amount for name, amount in room.items() if amount}


def _nodes() -> list[Room]:
    engine: Any = ray  # without annotations
    return [dict(node["Resources"]) for node in engine.nodes() if node["Alive"]]


def _fits(rooms: Sequence[Room]) -> bool:
    """Tell whether an empty cluster has nodes for all rooms, the largest placed first."""
    nodes = _nodes()
    for room in sorted(rooms, key=lambda room: sorted(room.items(), key=lambda item: -item[1]), reverse=True):
        node = next((node for node in nodes if all(node.get(name, 0) >= room[name] for name in room)), None)
        if node is None:
            return False
        for name, amount in room.items():
            node[name] -= amount
    return True


def _asked(rooms: Sequence[Room]) -> str:
    """Return `asked for 5 CPU (its process 1 CPU; 4 actors, each 1 CPU), the cluster has 4 CPU on 1 node`."""
    nodes = _nodes()
    asked, there = _sum(rooms), _sum(nodes)
    alike = Counter(_amounts(room) for room in rooms[1:])
    parts = [f"its process {_amounts(rooms[0])}"]
    parts += [f"{count} actors, each {room}" if count > 1 else f"an actor {room}" for room, count in alike.items()]
    has = _amounts({name: there.get(name, 0.0) for name in asked})
    where = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    return f"asked for {_amounts(asked)} ({'; '.join(parts)}), the cluster has {has} on {where}"


def _sum(rooms: Sequence[Room]) -> Room:
    total: Room = {}
    for room in rooms:
        for name, amount in room.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _amounts(room: Room) -> str:
    return " and ".join(
        f"{amount / _BYTES_PER_GB:.3g} GB of memory" if name == "memory" else f"{amount:g} {name}"
        for name, amount in room.items()
    )


def _cause(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [repr(error)]
    if isinstance(error, RayTaskError):  # what could not even begin
        return lines[-1]
    return f"its process is gone: {lines[0]}"
